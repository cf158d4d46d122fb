"""Score functions: what is explained, taken from any model."""

from typing import TYPE_CHECKING

from tellwhy.core.lazy import lazy_names
from tellwhy.scoring.as_score import as_score

if TYPE_CHECKING:
    from tellwhy.scoring.class_scores import as_class_scores as as_class_scores
    from tellwhy.scoring.predictions import as_prediction as as_prediction
    from tellwhy.scoring.scores.distance_score import (
        CentreScore as CentreScore,
        NeighbourScore as NeighbourScore,
    )
    from tellwhy.scoring.scores.encoded import EncodedScore as EncodedScore
    from tellwhy.scoring.scores.function_score import FunctionScore as FunctionScore
    from tellwhy.scoring.scores.kernel_score import KernelScore as KernelScore
    from tellwhy.scoring.scores.log_odds import ClassScores as ClassScores
    from tellwhy.scoring.scores.mixture_score import (
        Mixture as Mixture,
        MixtureScore as MixtureScore,
        ScaledMixture as ScaledMixture,
    )
    from tellwhy.scoring.scores.network_output import NetworkOutput as NetworkOutput
    from tellwhy.scoring.scores.prediction_score import PredictionScore as PredictionScore
    from tellwhy.scoring.scores.projection_score import (
        Projection as Projection,
        ProjectionScore as ProjectionScore,
    )

_PLACES = {
    "CentreScore": "scores.distance_score",
    "ClassScores": "scores.log_odds",
    "EncodedScore": "scores.encoded",
    "FunctionScore": "scores.function_score",
    "KernelScore": "scores.kernel_score",
    "Mixture": "scores.mixture_score",
    "MixtureScore": "scores.mixture_score",
    "NeighbourScore": "scores.distance_score",
    "NetworkOutput": "scores.network_output",
    "Projection": "scores.projection_score",
    "ProjectionScore": "scores.projection_score",
    "ScaledMixture": "scores.mixture_score",
    "PredictionScore": "scores.prediction_score",
    "as_class_scores": "class_scores",
    "as_prediction": "predictions",
}
__getattr__, _ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)
__all__ += ["as_score"]


def __dir__() -> list[str]:
    return sorted(__all__)
