"""Explanations from replacing features."""

from tellwhy.explainers.perturbation.anomaly_contribution import AnomalyContribution
from tellwhy.explainers.perturbation.occlusion import Occlusion
from tellwhy.explainers.perturbation.random_attribution import RandomAttribution

__all__ = ["AnomalyContribution", "Occlusion", "RandomAttribution"]
