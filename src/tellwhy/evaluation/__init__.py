"""How far an explanation can be trusted."""

from tellwhy.evaluation.compare import compare
from tellwhy.evaluation.fidelity import Fidelity, KeepTop, Vulnerabilities, adversarial, fidelity, keep_top
from tellwhy.evaluation.flipping import Flipping, flipping
from tellwhy.evaluation.images import PatchFlipping, au_pro, patch_flipping, pixel_auroc
from tellwhy.evaluation.injection import Injected, inject_anomalies
from tellwhy.evaluation.localisation import Choice, Localisation, choose_by_injection, localisation
from tellwhy.evaluation.quality import (
    Infidelity,
    complexity,
    infidelity,
    max_sensitivity,
    pointing_game,
    sparseness,
)
from tellwhy.evaluation.randomisation import Randomisation, parameter_randomisation
from tellwhy.evaluation.region_flipping import RegionFlipping, region_flipping
from tellwhy.evaluation.removal import Removal, irof, road
from tellwhy.evaluation.systematic import BoxRatios, Strategies, box_ratios, strategies

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
