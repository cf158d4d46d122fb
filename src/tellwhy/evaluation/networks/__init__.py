"""Checks of explanations of networks and images: regions flipped, parameters drawn at random."""
