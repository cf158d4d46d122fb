"""Explainers: which features made each score."""

from tellwhy.explainers.decomposition import OneClassDTD, SupportExplanation

__all__ = ["OneClassDTD", "SupportExplanation"]
