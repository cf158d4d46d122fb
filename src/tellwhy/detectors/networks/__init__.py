"""Detectors that train a network: autoencoders, and what trains and scores them."""
