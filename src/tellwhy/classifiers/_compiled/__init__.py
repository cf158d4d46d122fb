"""Compiled loops of the multi-class SVMs: arrays in, arrays out, no checks."""
