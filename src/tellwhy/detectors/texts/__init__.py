"""Detectors of texts: their letters, and their words."""
