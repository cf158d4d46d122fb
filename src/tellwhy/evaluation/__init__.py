"""How far an explanation can be trusted."""

from typing import TYPE_CHECKING

from tellwhy.core.optional import lazy_names
from tellwhy.evaluation.compare import compare

# A function that has the name of its module is imported here: later, the name would be the module's.
from tellwhy.evaluation.fidelity import adversarial, fidelity, keep_top
from tellwhy.evaluation.flipping import flipping
from tellwhy.evaluation.localisation import localisation
from tellwhy.evaluation.region_flipping import region_flipping

if TYPE_CHECKING:
    from tellwhy.evaluation.fidelity import (
        Fidelity as Fidelity,
        KeepTop as KeepTop,
        Vulnerabilities as Vulnerabilities,
    )
    from tellwhy.evaluation.flipping import Flipping as Flipping
    from tellwhy.evaluation.images import (
        PatchFlipping as PatchFlipping,
        au_pro as au_pro,
        patch_flipping as patch_flipping,
        pixel_auroc as pixel_auroc,
    )
    from tellwhy.evaluation.injection import Injected as Injected, inject_anomalies as inject_anomalies
    from tellwhy.evaluation.localisation import (
        Choice as Choice,
        Localisation as Localisation,
        choose_by_injection as choose_by_injection,
    )
    from tellwhy.evaluation.permutation import (
        PermutationImportance as PermutationImportance,
        permutation_importance as permutation_importance,
    )
    from tellwhy.evaluation.quality import (
        Infidelity as Infidelity,
        complexity as complexity,
        infidelity as infidelity,
        max_sensitivity as max_sensitivity,
        pointing_game as pointing_game,
        sparseness as sparseness,
    )
    from tellwhy.evaluation.randomisation import (
        Randomisation as Randomisation,
        parameter_randomisation as parameter_randomisation,
    )
    from tellwhy.evaluation.region_flipping import RegionFlipping as RegionFlipping
    from tellwhy.evaluation.removal import Removal as Removal, irof as irof, road as road
    from tellwhy.evaluation.systematic import (
        BoxRatios as BoxRatios,
        Strategies as Strategies,
        box_ratios as box_ratios,
        strategies as strategies,
    )

_PLACES = {
    "BoxRatios": "systematic",
    "Choice": "localisation",
    "Fidelity": "fidelity",
    "Flipping": "flipping",
    "Infidelity": "quality",
    "Injected": "injection",
    "KeepTop": "fidelity",
    "Localisation": "localisation",
    "PatchFlipping": "images",
    "PermutationImportance": "permutation",
    "permutation_importance": "permutation",
    "Randomisation": "randomisation",
    "RegionFlipping": "region_flipping",
    "Removal": "removal",
    "Strategies": "systematic",
    "Vulnerabilities": "fidelity",
    "au_pro": "images",
    "box_ratios": "systematic",
    "choose_by_injection": "localisation",
    "complexity": "quality",
    "infidelity": "quality",
    "inject_anomalies": "injection",
    "irof": "removal",
    "max_sensitivity": "quality",
    "parameter_randomisation": "randomisation",
    "patch_flipping": "images",
    "pixel_auroc": "images",
    "pointing_game": "quality",
    "road": "removal",
    "sparseness": "quality",
    "strategies": "systematic",
}
if not TYPE_CHECKING:
    __getattr__, _ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)
__all__ += [
    "adversarial",
    "compare",
    "fidelity",
    "flipping",
    "keep_top",
    "localisation",
    "region_flipping",
]


def __dir__() -> list[str]:
    return sorted(__all__)
