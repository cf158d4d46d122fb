"""Explainers: which features made each score."""

from tellwhy.explainers.base import Explainer
from tellwhy.explainers.decomposition import (
    ExpectedValue,
    GaussianNLL,
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

__all__ = [
    "AnomalyContribution",
    "Ensemble",
    "ExpectedValue",
    "Explainer",
    "GaussianNLL",
    "IntegratedGradients",
    "Marginal",
    "NearestSupport",
    "Occlusion",
    "OneClassDTD",
    "PatchDTD",
    "RandomAttribution",
    "Sensitivity",
    "SequentialFeature",
    "SimpleTaylor",
    "SupportExplanation",
]
