"""Figures of explained networks: grids, odd groups, relevance on objects."""
