"""How far an explanation can be trusted."""

from tellwhy.evaluation.adversarial import Vulnerabilities, adversarial
from tellwhy.evaluation.choice import Choice, choose_by_injection
from tellwhy.evaluation.compare import compare
from tellwhy.evaluation.fidelity import Fidelity, fidelity
from tellwhy.evaluation.flipping import Flipping, flipping
from tellwhy.evaluation.images.maps import au_pro, pixel_auroc
from tellwhy.evaluation.images.patch_flipping import PatchFlipping, patch_flipping
from tellwhy.evaluation.injection import Injected, inject_anomalies
from tellwhy.evaluation.keep_top import KeepTop, keep_top
from tellwhy.evaluation.localisation import Localisation, localisation
from tellwhy.evaluation.networks.quality import (
    Infidelity,
    complexity,
    infidelity,
    max_sensitivity,
    pointing_game,
    sparseness,
)
from tellwhy.evaluation.networks.randomisation import Randomisation, parameter_randomisation
from tellwhy.evaluation.networks.region_flipping import RegionFlipping, region_flipping
from tellwhy.evaluation.networks.removal import Removal, irof, road
from tellwhy.evaluation.systematic.boxes import BoxRatios, box_ratios
from tellwhy.evaluation.systematic.strategies import Strategies, strategies

__all__ = [
    "BoxRatios",
    "Choice",
    "Fidelity",
    "Flipping",
    "Infidelity",
    "Injected",
    "KeepTop",
    "Localisation",
    "PatchFlipping",
    "Randomisation",
    "RegionFlipping",
    "Removal",
    "Strategies",
    "Vulnerabilities",
    "adversarial",
    "au_pro",
    "box_ratios",
    "choose_by_injection",
    "compare",
    "complexity",
    "fidelity",
    "flipping",
    "infidelity",
    "inject_anomalies",
    "irof",
    "keep_top",
    "localisation",
    "max_sensitivity",
    "parameter_randomisation",
    "patch_flipping",
    "pixel_auroc",
    "pointing_game",
    "region_flipping",
    "road",
    "sparseness",
    "strategies",
]
