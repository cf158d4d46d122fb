"""Explainers: which features made each score.

Those of networks (`LRP`, `Gradient`, …, in `tellwhy.explainers.propagation`) load PyTorch when first used.
"""

import importlib
from typing import Any

from tellwhy.explainers import network_cards  # noqa: F401  (fills the registry)
from tellwhy.explainers.base import Explainer
from tellwhy.explainers.decomposition import (
    ExpectedValue,
    GaussianNLL,
    LatentClassDTD,
    LinearRelevance,
    Marginal,
    NearestSupport,
    OneClassDTD,
    PatchDTD,
    SequentialFeature,
    SupportExplanation,
)
from tellwhy.explainers.ensemble import Ensemble
from tellwhy.explainers.gradients import IntegratedGradients, Sensitivity, SimpleTaylor
from tellwhy.explainers.perturbation import AnomalyContribution, Occlusion, RandomAttribution
from tellwhy.explainers.shapley import AnomalyShapley, Compensation, KernelShap
from tellwhy.explainers.surrogate import DMMMEN, PRESETS, Insight, Priors

__all__ = [
    "DMMMEN",
    "PRESETS",
    "AnomalyContribution",
    "AnomalyShapley",
    "Compensation",
    "Ensemble",
    "ExpectedValue",
    "Explainer",
    "GaussianNLL",
    "Insight",
    "IntegratedGradients",
    "KernelShap",
    "LatentClassDTD",
    "LinearRelevance",
    "Marginal",
    "NearestSupport",
    "Occlusion",
    "OneClassDTD",
    "PatchDTD",
    "Priors",
    "RandomAttribution",
    "Sensitivity",
    "SequentialFeature",
    "SimpleTaylor",
    "SupportExplanation",
]

_NETWORKS = (
    "LRP",
    "DeconvNet",
    "DeepTaylor",
    "ExcitationBackprop",
    "Gradient",
    "GuidedBackprop",
    "InputTimesGradient",
    "SmoothGrad",
    "coverage",
    "explain_all",
)


def __getattr__(name: str) -> Any:
    if name in _NETWORKS:
        return getattr(importlib.import_module("tellwhy.explainers.propagation"), name)
    raise AttributeError(f"module 'tellwhy.explainers' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_NETWORKS]
