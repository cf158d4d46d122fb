"""Explanations from the slope of a score."""
