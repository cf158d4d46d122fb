"""Explainers: which features made each score."""

from tellwhy.explainers.base import Explainer
from tellwhy.explainers.decomposition import (
    ExpectedValue,
    GaussianNLL,
    NearestSupport,
    OneClassDTD,
    PatchDTD,
    SupportExplanation,
)
from tellwhy.explainers.gradients import Sensitivity, SimpleTaylor
from tellwhy.explainers.perturbation import Occlusion, RandomAttribution

__all__ = [
    "ExpectedValue",
    "Explainer",
    "GaussianNLL",
    "NearestSupport",
    "Occlusion",
    "OneClassDTD",
    "PatchDTD",
    "RandomAttribution",
    "Sensitivity",
    "SimpleTaylor",
    "SupportExplanation",
]
