"""Explanations by sharing a score among its columns, after Shapley."""

from typing import TYPE_CHECKING

from tellwhy.core.lazy import lazy_names
from tellwhy.core.registry import announce

if TYPE_CHECKING:
    from tellwhy.explainers.shapley.anomaly_shapley import AnomalyShapley as AnomalyShapley
    from tellwhy.explainers.shapley.compensation import Compensation as Compensation
    from tellwhy.explainers.shapley.kernel_shap import KernelShap as KernelShap
    from tellwhy.explainers.shapley.linear_shapley import LinearShapley as LinearShapley

_PLACES = {
    "AnomalyShapley": "anomaly_shapley",
    "Compensation": "compensation",
    "KernelShap": "kernel_shap",
    "LinearShapley": "linear_shapley",
}
__getattr__, __dir__ = lazy_names(__name__, _PLACES)
announce(__name__, _PLACES.values())
__all__ = list(_PLACES)
