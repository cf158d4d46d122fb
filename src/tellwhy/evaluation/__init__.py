"""How far an explanation can be trusted."""

from tellwhy.evaluation.compare import compare
from tellwhy.evaluation.flipping import Flipping, flipping
from tellwhy.evaluation.injection import Injected, inject_anomalies
from tellwhy.evaluation.localisation import Localisation, localisation

__all__ = [
    "Flipping",
    "Injected",
    "Localisation",
    "compare",
    "flipping",
    "inject_anomalies",
    "localisation",
]
