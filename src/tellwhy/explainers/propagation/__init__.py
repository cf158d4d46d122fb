"""Explainers that hand a network's output down through its operations to its inputs. They need PyTorch.

The model stays as it is: `engine` runs it once, records its operations, and goes back through them by the
rules of a method.
"""

from tellwhy.core.optional import require

require("torch", "explaining networks")

from tellwhy.explainers.propagation.base import explain_all  # noqa: E402
from tellwhy.explainers.propagation.composites import (  # noqa: E402
    COMPOSITES,
    Composite,
    register_operation,
    register_rule,
    temporary_registrations,
)
from tellwhy.explainers.propagation.deep_lift import (  # noqa: E402
    DeepLift,
    DeepLiftShap,
    GradientShap,
)
from tellwhy.explainers.propagation.deep_taylor import DeepTaylor  # noqa: E402
from tellwhy.explainers.propagation.engine.calls import Operation  # noqa: E402
from tellwhy.explainers.propagation.engine.kinds import KINDS  # noqa: E402
from tellwhy.explainers.propagation.excitation_backprop import ExcitationBackprop  # noqa: E402
from tellwhy.explainers.propagation.grad_cam import GradCAM, GuidedGradCAM  # noqa: E402
from tellwhy.explainers.propagation.gradient import (  # noqa: E402
    DeconvNet,
    Gradient,
    GuidedBackprop,
    InputTimesGradient,
    SmoothGrad,
)
from tellwhy.explainers.propagation.layer_attribution import LayerAttribution  # noqa: E402
from tellwhy.explainers.propagation.ledger import coverage  # noqa: E402
from tellwhy.explainers.propagation.lrp import LRP  # noqa: E402
from tellwhy.explainers.propagation.patterns import PatternAttribution, PatternNet  # noqa: E402
from tellwhy.explainers.propagation.results import TensorExplanation  # noqa: E402
from tellwhy.explainers.propagation.rules import RULES, Handover, Rule  # noqa: E402

__all__ = [
    "COMPOSITES",
    "KINDS",
    "LRP",
    "RULES",
    "Composite",
    "DeconvNet",
    "DeepLift",
    "DeepLiftShap",
    "DeepTaylor",
    "ExcitationBackprop",
    "GradCAM",
    "Gradient",
    "GradientShap",
    "GuidedBackprop",
    "GuidedGradCAM",
    "Handover",
    "InputTimesGradient",
    "LayerAttribution",
    "Operation",
    "PatternAttribution",
    "PatternNet",
    "Rule",
    "SmoothGrad",
    "TensorExplanation",
    "coverage",
    "explain_all",
    "register_operation",
    "register_rule",
    "temporary_registrations",
]
