"""Exact decompositions of a score into features."""

from tellwhy.explainers.decomposition.one_class_dtd import OneClassDTD, SupportExplanation

__all__ = ["OneClassDTD", "SupportExplanation"]
