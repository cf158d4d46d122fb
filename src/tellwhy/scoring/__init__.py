"""Score functions: what is explained, taken from any model."""

from typing import TYPE_CHECKING

from tellwhy.core.optional import lazy_names
from tellwhy.scoring.as_score import as_score

if TYPE_CHECKING:
    from tellwhy.scoring.class_scores import ClassScores as ClassScores, as_class_scores as as_class_scores
    from tellwhy.scoring.distance_scores import CentreScore as CentreScore, NeighbourScore as NeighbourScore
    from tellwhy.scoring.function_scores import EncodedScore as EncodedScore, FunctionScore as FunctionScore
    from tellwhy.scoring.mixture_scores import (
        Mixture as Mixture,
        MixtureScore as MixtureScore,
        Projection as Projection,
        ProjectionScore as ProjectionScore,
        ScaledMixture as ScaledMixture,
    )
    from tellwhy.scoring.network_output import NetworkOutput as NetworkOutput
    from tellwhy.scoring.one_class import KernelScore as KernelScore
    from tellwhy.scoring.predictions import PredictionScore as PredictionScore, as_prediction as as_prediction
    from tellwhy.scoring.up_to_layer import UpToLayer as UpToLayer

_PLACES = {
    "CentreScore": "distance_scores",
    "ClassScores": "class_scores",
    "EncodedScore": "function_scores",
    "FunctionScore": "function_scores",
    "KernelScore": "one_class",
    "Mixture": "mixture_scores",
    "MixtureScore": "mixture_scores",
    "NeighbourScore": "distance_scores",
    "NetworkOutput": "network_output",
    "Projection": "mixture_scores",
    "ProjectionScore": "mixture_scores",
    "ScaledMixture": "mixture_scores",
    "PredictionScore": "predictions",
    "UpToLayer": "up_to_layer",
    "as_class_scores": "class_scores",
    "as_prediction": "predictions",
}
if not TYPE_CHECKING:
    __getattr__, _ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)
__all__ += ["as_score"]


def __dir__() -> list[str]:
    return sorted(__all__)
