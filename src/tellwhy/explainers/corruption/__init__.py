"""Which cells of a row are wrong: probabilities, not shares of a score.

- `corruption_posterior`: the explainer, its prior, how the prior is learned; sets of wrong cells under any
  score, by trying other values in each cell.
- `mixture_cells`: the same under a Gaussian mixture, in closed form.
"""

from typing import TYPE_CHECKING

from tellwhy.core.catalogue import places
from tellwhy.core.optional import lazy_names

if TYPE_CHECKING:
    from tellwhy.explainers.corruption.corruption_posterior import CorruptionPosterior as CorruptionPosterior

_PLACES = places(__name__)
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)
