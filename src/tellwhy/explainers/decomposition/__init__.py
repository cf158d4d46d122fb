"""Decompositions of a score into features, in closed form."""

from tellwhy.explainers.decomposition.expected_value import ExpectedValue
from tellwhy.explainers.decomposition.gaussian_nll import GaussianNLL
from tellwhy.explainers.decomposition.latent_class_dtd import LatentClassDTD
from tellwhy.explainers.decomposition.linear_relevance import LinearRelevance
from tellwhy.explainers.decomposition.marginal import Marginal
from tellwhy.explainers.decomposition.nearest_support import NearestSupport
from tellwhy.explainers.decomposition.one_class_dtd import OneClassDTD, SupportExplanation
from tellwhy.explainers.decomposition.patch_dtd import PatchDTD
from tellwhy.explainers.decomposition.sequential_feature import SequentialFeature

__all__ = [
    "ExpectedValue",
    "GaussianNLL",
    "LatentClassDTD",
    "LinearRelevance",
    "Marginal",
    "NearestSupport",
    "OneClassDTD",
    "PatchDTD",
    "SequentialFeature",
    "SupportExplanation",
]
