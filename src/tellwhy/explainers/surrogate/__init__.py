"""Explanations by a Bayesian mixture of sparse regressions that stands in for the model."""
