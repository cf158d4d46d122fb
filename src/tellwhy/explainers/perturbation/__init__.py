"""Explanations from replacing features."""
