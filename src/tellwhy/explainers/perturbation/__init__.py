"""Explanations from replacing features."""

from typing import TYPE_CHECKING

from tellwhy.core.catalogue import places
from tellwhy.core.optional import lazy_names

if TYPE_CHECKING:
    from tellwhy.explainers.perturbation.anomaly_contribution import (
        AnomalyContribution as AnomalyContribution,
    )
    from tellwhy.explainers.perturbation.lime import Lime as Lime
    from tellwhy.explainers.perturbation.occlusion import Occlusion as Occlusion
    from tellwhy.explainers.perturbation.prediction_difference import (
        PredictionDifference as PredictionDifference,
    )

_PLACES = places(__name__)
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)
