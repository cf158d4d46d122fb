"""Decompositions of a score into features, in closed form."""

from typing import TYPE_CHECKING

from tellwhy.core.catalogue import places
from tellwhy.core.optional import lazy_names

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

_PLACES = {**places(__name__), "SupportExplanation": "one_class_dtd"}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)
