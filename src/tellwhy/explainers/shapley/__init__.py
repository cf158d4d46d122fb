"""Explanations by sharing a score among its columns, after Shapley."""

from typing import TYPE_CHECKING

from tellwhy.core.catalogue import places
from tellwhy.core.optional import lazy_names

if TYPE_CHECKING:
    from tellwhy.explainers.shapley.anomaly_shapley import AnomalyShapley as AnomalyShapley
    from tellwhy.explainers.shapley.compensation import Compensation as Compensation
    from tellwhy.explainers.shapley.kernel_shap import KernelShap as KernelShap

_PLACES = places(__name__)
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)
