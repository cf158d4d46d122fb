"""Explanations by a Bayesian mixture of sparse regressions that stands in for the model."""

from tellwhy.explainers.surrogate.dmm_men import DMMMEN
from tellwhy.explainers.surrogate.insight import Insight
from tellwhy.explainers.surrogate.priors import PRESETS, Priors

__all__ = ["DMMMEN", "PRESETS", "Insight", "Priors"]
