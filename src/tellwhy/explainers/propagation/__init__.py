"""Explainers that hand a network's output down through its operations; the model stays as it is. Needs PyTorch."""

from tellwhy.core.optional import require

require("torch", "explaining networks")

from tellwhy.explainers.propagation.composites import COMPOSITES, Composite  # noqa: E402
from tellwhy.explainers.propagation.coverage import coverage  # noqa: E402
from tellwhy.explainers.propagation.deep_taylor import DeepTaylor  # noqa: E402
from tellwhy.explainers.propagation.engine.operations import KINDS, Operation  # noqa: E402
from tellwhy.explainers.propagation.excitation_backprop import ExcitationBackprop  # noqa: E402
from tellwhy.explainers.propagation.explain_all import explain_all  # noqa: E402
from tellwhy.explainers.propagation.gradient import Gradient, InputTimesGradient, SmoothGrad  # noqa: E402
from tellwhy.explainers.propagation.lrp import LRP  # noqa: E402
from tellwhy.explainers.propagation.rectified import DeconvNet, GuidedBackprop  # noqa: E402
from tellwhy.explainers.propagation.rules import RULES, Rule  # noqa: E402

__all__ = [
    "COMPOSITES",
    "KINDS",
    "LRP",
    "RULES",
    "Composite",
    "DeconvNet",
    "DeepTaylor",
    "ExcitationBackprop",
    "Gradient",
    "GuidedBackprop",
    "InputTimesGradient",
    "Operation",
    "Rule",
    "SmoothGrad",
    "coverage",
    "explain_all",
]
