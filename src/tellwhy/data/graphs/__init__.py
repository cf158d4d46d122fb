"""Which rows are neighbours: sequences, grids, lists of edges, nearest places; how they are read and made."""

from tellwhy.data.graphs.building import as_graph, chain, from_edges, grid, knn_graph
from tellwhy.data.graphs.kinds import EdgeGraph, Graph, Grid

__all__ = ["EdgeGraph", "Graph", "Grid", "as_graph", "chain", "from_edges", "grid", "knn_graph"]
