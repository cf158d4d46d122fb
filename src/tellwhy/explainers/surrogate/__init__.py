"""Explanations by a Bayesian mixture of sparse regressions that stands in for the model (DMM-MEN).

What stands where, in the order of the paper:

- `dmm_men.DMMMEN`: the estimator: one mixture per class, insights, explanations of rows.
- `chains`: priors, presets, all unknowns of one chain; whether chains agree.
- `_compiled_conditionals`: the full conditionals, one function each (the table is in `sampler`);
  `_compiled_draws`: the draws they are made of; `_compiled_sweep`: their order, and moves of the partition.
- `sampler`: chains in threads, checkpoints.
- `mixture`: what was fitted, as a model of rows; `insight`: what its components say.
- `inputs`, `order`, `local_insight`: which segments of one input are sufficient or necessary.
"""

from typing import TYPE_CHECKING

from tellwhy.core.catalogue import places
from tellwhy.core.optional import lazy_names

if TYPE_CHECKING:
    from tellwhy.explainers.surrogate.chains import PRESETS as PRESETS, Priors as Priors
    from tellwhy.explainers.surrogate.dmm_men import DMMMEN as DMMMEN
    from tellwhy.explainers.surrogate.insight import Insight as Insight
    from tellwhy.explainers.surrogate.local_insight import LocalInsight as LocalInsight

_PLACES = {**places(__name__), "Insight": "insight", "PRESETS": "chains", "Priors": "chains"}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)
