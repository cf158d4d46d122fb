"""How far an explanation can be trusted."""

from tellwhy.evaluation.adversarial import Vulnerabilities, adversarial
from tellwhy.evaluation.compare import compare
from tellwhy.evaluation.fidelity import Fidelity, fidelity
from tellwhy.evaluation.flipping import Flipping, flipping
from tellwhy.evaluation.injection import Injected, inject_anomalies
from tellwhy.evaluation.keep_top import KeepTop, keep_top
from tellwhy.evaluation.localisation import Localisation, localisation
from tellwhy.evaluation.networks.randomisation import Randomisation, parameter_randomisation
from tellwhy.evaluation.networks.region_flipping import RegionFlipping, region_flipping

__all__ = [
    "Fidelity",
    "Flipping",
    "Injected",
    "KeepTop",
    "Localisation",
    "Randomisation",
    "RegionFlipping",
    "Vulnerabilities",
    "adversarial",
    "compare",
    "fidelity",
    "flipping",
    "inject_anomalies",
    "keep_top",
    "localisation",
    "parameter_randomisation",
    "region_flipping",
]
