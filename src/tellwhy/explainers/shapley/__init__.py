"""Explanations by sharing a score among its columns, after Shapley.

What stands where:

- `anomaly_shapley.AnomalyShapley`: absent columns take the least anomalous values nearby; what sets are worth
  (equations 2 to 5 of the paper).
- `kernel_shap.KernelShap`: absent columns take the cells of other rows, for any score.
- `owen_values.OwenValues`: the same, over orders in which the columns of a group stay together.
- `shapley_values`: which sets are tried, and the fit of Shapley values to the worth of all of them.
- `set_regression`: Shapley values of drawn sets, and their standard errors.
- `interactions`, `pair_regression`: what pairs of columns do together, of all sets and of drawn ones.
- `links`: values of a function of the mean that a set is worth.
- `neighbourhood`: units of columns, distances, and how γ is chosen.
- `compensation`: |x̂*(∅) − x|, how far each column moves to the nearest minimum.
"""

from typing import TYPE_CHECKING

from tellwhy.core.catalogue import places
from tellwhy.core.optional import lazy_names

if TYPE_CHECKING:
    from tellwhy.explainers.shapley.anomaly_shapley import AnomalyShapley as AnomalyShapley
    from tellwhy.explainers.shapley.compensation import Compensation as Compensation
    from tellwhy.explainers.shapley.kernel_shap import KernelShap as KernelShap
    from tellwhy.explainers.shapley.owen_values import OwenValues as OwenValues

_PLACES = places(__name__)
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)
