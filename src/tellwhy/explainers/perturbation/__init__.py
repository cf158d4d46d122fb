"""Explanations from replacing features."""

from typing import TYPE_CHECKING

from tellwhy.core.optional import lazy_names
from tellwhy.core.registry import announce

if TYPE_CHECKING:
    from tellwhy.explainers.perturbation.anomaly_contribution import (
        AnomalyContribution as AnomalyContribution,
    )
    from tellwhy.explainers.perturbation.lime import Lime as Lime
    from tellwhy.explainers.perturbation.occlusion import Occlusion as Occlusion
    from tellwhy.explainers.perturbation.prediction_difference import (
        PredictionDifference as PredictionDifference,
    )

_PLACES = {
    "AnomalyContribution": "anomaly_contribution",
    "Lime": "lime",
    "Occlusion": "occlusion",
    "PredictionDifference": "prediction_difference",
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
announce(__name__, _PLACES)
__all__ = list(_PLACES)
