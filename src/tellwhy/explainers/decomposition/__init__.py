"""Decompositions of a score into features, in closed form."""

from typing import TYPE_CHECKING

from tellwhy.core.lazy import lazy_names
from tellwhy.core.registry import announce

if TYPE_CHECKING:
    from tellwhy.explainers.decomposition.committee_shares import CommitteeShares as CommitteeShares
    from tellwhy.explainers.decomposition.expected_value import ExpectedValue as ExpectedValue
    from tellwhy.explainers.decomposition.gaussian_nll import GaussianNLL as GaussianNLL
    from tellwhy.explainers.decomposition.latent_class_dtd import LatentClassDTD as LatentClassDTD
    from tellwhy.explainers.decomposition.linear_relevance import LinearRelevance as LinearRelevance
    from tellwhy.explainers.decomposition.marginal import Marginal as Marginal
    from tellwhy.explainers.decomposition.nearest_support import NearestSupport as NearestSupport
    from tellwhy.explainers.decomposition.one_class_dtd import (
        OneClassDTD as OneClassDTD,
        SupportExplanation as SupportExplanation,
    )
    from tellwhy.explainers.decomposition.patch_dtd import PatchDTD as PatchDTD
    from tellwhy.explainers.decomposition.patch_relevance import PatchRelevance as PatchRelevance
    from tellwhy.explainers.decomposition.sequential_feature import SequentialFeature as SequentialFeature

_PLACES = {
    "CommitteeShares": "committee_shares",
    "ExpectedValue": "expected_value",
    "GaussianNLL": "gaussian_nll",
    "LatentClassDTD": "latent_class_dtd",
    "LinearRelevance": "linear_relevance",
    "Marginal": "marginal",
    "NearestSupport": "nearest_support",
    "OneClassDTD": "one_class_dtd",
    "PatchDTD": "patch_dtd",
    "PatchRelevance": "patch_relevance",
    "SequentialFeature": "sequential_feature",
    "SupportExplanation": "one_class_dtd",
}
__getattr__, __dir__ = lazy_names(__name__, _PLACES)
announce(__name__, _PLACES.values())
__all__ = list(_PLACES)
