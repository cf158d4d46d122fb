"""Patterns: which direction of its input each unit of a network responds to, and methods that use them."""

from tellwhy.explainers.propagation.patterns.pattern_net import PatternAttribution, PatternNet

__all__ = ["PatternAttribution", "PatternNet"]
