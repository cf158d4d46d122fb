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
from tellwhy.explainers.shapley import AnomalyShapley, Compensation, KernelShap

__all__ = [
    "AnomalyContribution",
    "AnomalyShapley",
    "Compensation",
    "Ensemble",
    "ExpectedValue",
    "Explainer",
    "GaussianNLL",
    "IntegratedGradients",
    "KernelShap",
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
