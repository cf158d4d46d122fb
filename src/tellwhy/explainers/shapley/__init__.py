"""Explanations by sharing a score among its columns, after Shapley."""

from typing import TYPE_CHECKING

from tellwhy.core.optional import lazy_names
from tellwhy.core.registry import announce

if TYPE_CHECKING:
    from tellwhy.explainers.shapley.anomaly_shapley import AnomalyShapley as AnomalyShapley
    from tellwhy.explainers.shapley.compensation import Compensation as Compensation
    from tellwhy.explainers.shapley.kernel_shap import KernelShap as KernelShap

_PLACES = {
    "AnomalyShapley": "anomaly_shapley",
    "Compensation": "compensation",
    "KernelShap": "kernel_shap",
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
announce(__name__, _PLACES)
__all__ = list(_PLACES)
