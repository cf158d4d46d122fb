"""Decompositions of a score into features, in closed form."""

from typing import TYPE_CHECKING

from tellwhy.core.optional import lazy_names
from tellwhy.core.registry import announce

if TYPE_CHECKING:
    from tellwhy.explainers.decomposition.baselines import (
        CommitteeShares as CommitteeShares,
        ExpectedValue as ExpectedValue,
        GaussianNLL as GaussianNLL,
        NearestSupport as NearestSupport,
        RandomAttribution as RandomAttribution,
        Sobel as Sobel,
    )
    from tellwhy.explainers.decomposition.latent_class_dtd import LatentClassDTD as LatentClassDTD
    from tellwhy.explainers.decomposition.linear_relevance import (
        LinearRelevance as LinearRelevance,
        LinearShapley as LinearShapley,
    )
    from tellwhy.explainers.decomposition.marginal import (
        Marginal as Marginal,
        SequentialFeature as SequentialFeature,
    )
    from tellwhy.explainers.decomposition.one_class_dtd import (
        OneClassDTD as OneClassDTD,
        SupportExplanation as SupportExplanation,
    )
    from tellwhy.explainers.decomposition.patch_relevance import (
        PatchDTD as PatchDTD,
        PatchRelevance as PatchRelevance,
    )

_PLACES = {
    "LinearShapley": "linear_relevance",
    "RandomAttribution": "baselines",
    "Sobel": "baselines",
    "CommitteeShares": "baselines",
    "ExpectedValue": "baselines",
    "GaussianNLL": "baselines",
    "LatentClassDTD": "latent_class_dtd",
    "LinearRelevance": "linear_relevance",
    "Marginal": "marginal",
    "NearestSupport": "baselines",
    "OneClassDTD": "one_class_dtd",
    "PatchDTD": "patch_relevance",
    "PatchRelevance": "patch_relevance",
    "SequentialFeature": "marginal",
    "SupportExplanation": "one_class_dtd",
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
announce(__name__, _PLACES)
__all__ = list(_PLACES)
