"""Contracts that every detector and explainer passes."""

from tellwhy.testing.detector import check_detector
from tellwhy.testing.explainer import check_explainer

__all__ = ["check_detector", "check_explainer"]
