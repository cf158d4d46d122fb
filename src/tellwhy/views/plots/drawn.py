"""What views draw besides runs and explanations: views look no further down than here."""

from typing import TYPE_CHECKING

from tellwhy.core.optional import lazy_names

if TYPE_CHECKING:
    from tellwhy.data.graphs import Grid
    from tellwhy.evaluation import BoxRatios, Flipping, Randomisation, RegionFlipping, Strategies
    from tellwhy.explainers.surrogate.chains import Convergence
    from tellwhy.explainers.surrogate.insight import Insight

_PLACES = {
    "BoxRatios": "evaluation",
    "Convergence": "explainers.surrogate.chains",
    "Flipping": "evaluation",
    "Grid": "data.graphs",
    "Insight": "explainers.surrogate.insight",
    "Randomisation": "evaluation",
    "RegionFlipping": "evaluation",
    "Strategies": "evaluation",
}
__getattr__, __dir__ = lazy_names("tellwhy", _PLACES)
__all__ = [
    "BoxRatios",
    "Convergence",
    "Flipping",
    "Grid",
    "Insight",
    "Randomisation",
    "RegionFlipping",
    "Strategies",
]
