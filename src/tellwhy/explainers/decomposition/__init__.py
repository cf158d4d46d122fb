"""Decompositions of a score into features, in closed form."""

from tellwhy.explainers.decomposition.expected_value import ExpectedValue
from tellwhy.explainers.decomposition.gaussian_nll import GaussianNLL
from tellwhy.explainers.decomposition.nearest_support import NearestSupport
from tellwhy.explainers.decomposition.one_class_dtd import OneClassDTD, SupportExplanation

__all__ = ["ExpectedValue", "GaussianNLL", "NearestSupport", "OneClassDTD", "SupportExplanation"]
