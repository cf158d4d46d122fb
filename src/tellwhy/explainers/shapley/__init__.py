"""Explanations by sharing a score among its columns, after Shapley."""

from tellwhy.explainers.shapley.anomaly_shapley import AnomalyShapley
from tellwhy.explainers.shapley.compensation import Compensation
from tellwhy.explainers.shapley.kernel_shap import KernelShap

__all__ = ["AnomalyShapley", "Compensation", "KernelShap"]
