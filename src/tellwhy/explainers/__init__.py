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
from tellwhy.explainers.ensemble import Ensemble
from tellwhy.explainers.gradients import IntegratedGradients, Sensitivity, SimpleTaylor
from tellwhy.explainers.perturbation import AnomalyContribution, Occlusion, RandomAttribution

__all__ = [
    "AnomalyContribution",
    "Ensemble",
    "ExpectedValue",
    "Explainer",
    "GaussianNLL",
    "IntegratedGradients",
    "NearestSupport",
    "Occlusion",
    "OneClassDTD",
    "PatchDTD",
    "RandomAttribution",
    "Sensitivity",
    "SimpleTaylor",
    "SupportExplanation",
]
