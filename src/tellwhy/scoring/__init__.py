"""Score functions: what is explained, taken from any model."""

from tellwhy.scoring.as_score import as_score
from tellwhy.scoring.distance_score import CentreScore, NeighbourScore
from tellwhy.scoring.encoded import EncodedScore
from tellwhy.scoring.function_score import FunctionScore
from tellwhy.scoring.kernel_score import KernelScore
from tellwhy.scoring.mixture_score import Mixture, MixtureScore, ScaledMixture
from tellwhy.scoring.network_output import NetworkOutput
from tellwhy.scoring.projection_score import Projection, ProjectionScore

__all__ = [
    "CentreScore",
    "EncodedScore",
    "FunctionScore",
    "KernelScore",
    "Mixture",
    "MixtureScore",
    "NeighbourScore",
    "NetworkOutput",
    "Projection",
    "ProjectionScore",
    "ScaledMixture",
    "as_score",
]
