"""Weights and dual variables in memory, and the compiled loops that move them."""
