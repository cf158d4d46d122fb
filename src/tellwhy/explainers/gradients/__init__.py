"""Explanations from the slope of a score."""

from tellwhy.explainers.gradients.integrated_gradients import IntegratedGradients
from tellwhy.explainers.gradients.sensitivity import Sensitivity
from tellwhy.explainers.gradients.simple_taylor import SimpleTaylor

__all__ = ["IntegratedGradients", "Sensitivity", "SimpleTaylor"]
