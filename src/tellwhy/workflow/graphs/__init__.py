"""From a grid, a sequence or a graph to nodes that are odd in their context."""
