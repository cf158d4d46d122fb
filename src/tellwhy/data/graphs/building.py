"""Which rows are neighbours: sequences, grids, lists of edges, nearest places.

Node i of a graph is row i of the data. A mask says which nodes are there: a missing one keeps its row, which
is ignored, and has no neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse, sparray, spmatrix

from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import Rule, integer, one_of, validate_value
from tellwhy.core.tables import as_floats
from tellwhy.data.graphs.kinds import EdgeGraph, Graph, Grid, Mask

__all__ = ["EdgeGraph", "Graph", "Grid", "as_graph", "chain", "from_edges", "grid", "knn_graph"]

_LENGTHS = Rule(
    "a length of at least 1, or a list of such lengths",
    lambda value: all(
        integer(1).accepts(n) for n in (value if isinstance(value, (list, tuple)) else [value])
    ),
)


class NodesAndEdges(Protocol):
    """What is read of a networkx graph."""

    @property
    def nodes(self) -> Iterable[object]:
        """Its nodes, in the order of rows."""

    @property
    def edges(self) -> Iterable[Sequence[object]]:
        """Pairs of nodes."""


def chain(n: int | Sequence[int], *, mask: ArrayLike | None = None) -> Graph:
    """Connect each row with the next: a sequence, or several one after the other.

    Parameters
    ----------
    n
        Number of rows, or a list of the lengths of several sequences.
    mask
        True where a row is there.

    Examples
    --------
    >>> chain(4).edges().tolist()
    [[0, 1], [1, 2], [2, 3]]
    >>> chain([2, 2]).edges().tolist()
    [[0, 1], [2, 3]]
    """
    validate_value("chain", "n", n, _LENGTHS)
    if isinstance(n, (int, np.integer)):
        return Grid((int(n),), 2, _checked_mask(mask, int(n)))
    lengths = [int(length) for length in n]
    total = sum(lengths)
    ends = np.cumsum(lengths) - 1
    starts = np.setdiff1d(np.arange(total), ends)
    return EdgeGraph.of(total, np.column_stack([starts, starts + 1]), _checked_mask(mask, total))


def grid(shape: Sequence[int], neighbours: int = 4, *, mask: ArrayLike | None = None) -> Grid:
    """Connect neighbours on a regular grid; no edge is stored, whatever the size.

    Parameters
    ----------
    shape
        Two or three lengths. Node order is that of `array.reshape(-1)`.
    neighbours
        4 or 8 within a plane (on three axes: within each slice along the first), 6 or 26 in a volume.
    mask
        True where a node is there, in that shape or flat.

    Examples
    --------
    >>> grid((2, 2)).edges().tolist()
    [[0, 1], [2, 3], [0, 2], [1, 3]]
    >>> grid((313, 549, 74), neighbours=6).n_nodes
    12715938
    """
    lengths = tuple(shape) if isinstance(shape, (tuple, list, np.ndarray)) else (shape,)
    validate_value("grid", "neighbours", neighbours, one_of(4, 8, 6, 26))
    if len(lengths) not in (2, 3) or not all(integer(1).accepts(n) for n in lengths):
        raise InvalidInput(
            f"The shape of a grid is two or three lengths of at least 1. Got {shape!r}. For one axis use "
            "chain(n)."
        )
    if neighbours in (6, 26) and len(lengths) == 2:
        raise InvalidInput(
            f"{neighbours} neighbours need three axes; {shape!r} has two. Use neighbours=4 or 8."
        )
    lengths = tuple(int(n) for n in lengths)
    return Grid(lengths, neighbours, _checked_mask(mask, int(np.prod(lengths))))


def from_edges(edges: ArrayLike, n_nodes: int | None = None, *, mask: ArrayLike | None = None) -> EdgeGraph:
    """Connect the pairs of rows in a list; direction does not matter.

    Parameters
    ----------
    edges
        Pairs of row numbers, shape (m, 2).
    n_nodes
        Number of rows; by default one more than the largest number in `edges`.
    mask
        True where a row is there.

    Raises
    ------
    InvalidInput
        For an edge from a row to itself, one that is given twice, or one to a row that is not there.

    Examples
    --------
    >>> from_edges([(0, 2), (2, 1)]).degrees()
    array([1, 1, 2])
    """
    pairs = _pairs(edges)
    n = int(pairs.max(initial=-1)) + 1 if n_nodes is None else n_nodes
    validate_value("from_edges", "n_nodes", n, integer(1))
    _check_pairs(pairs, int(n))
    return EdgeGraph.of(int(n), np.sort(pairs, axis=1), _checked_mask(mask, int(n)))


def knn_graph(coords: ArrayLike, k: int = 8, *, mask: ArrayLike | None = None) -> EdgeGraph:
    """Connect each place with its k nearest ones (and with those whose k nearest it is among).

    Examples
    --------
    >>> knn_graph([[0.0, 0.0], [1.0, 0.0], [5.0, 0.0]], k=1).edges().tolist()
    [[0, 1], [1, 2]]
    """
    from sklearn.neighbors import NearestNeighbors

    places = as_floats(coords, what="coords")
    present = _checked_mask(mask, len(places))
    rows = np.arange(len(places)) if present is None else np.flatnonzero(present)
    validate_value("knn_graph", "k", k, integer(1, max(len(rows) - 1, 0)))
    near = NearestNeighbors(n_neighbors=k).fit(places[rows]).kneighbors(return_distance=False)
    pairs = np.column_stack([np.repeat(rows, k), rows[near.ravel()]])
    return EdgeGraph.of(len(places), np.unique(np.sort(pairs, axis=1), axis=0), present)


def as_graph(graph: Graph | sparray | spmatrix | NodesAndEdges | None, n_nodes: int) -> Graph:
    """Return a graph of this module for one of the forms people have, after checking its size.

    Parameters
    ----------
    graph
        A graph of this module, a scipy sparse matrix (an entry that is not 0 is an edge, whatever its value
        and direction), a networkx graph (node number i is row i), or None for no edges at all.
    n_nodes
        Number of rows of the data.

    Examples
    --------
    >>> as_graph(chain(3), 4)
    Traceback (most recent call last):
    tellwhy.core.errors.InvalidInput: The graph has 3 nodes and X has 4 rows; expected one row per node, ...
    """
    if graph is None:
        return EdgeGraph.of(n_nodes, np.empty((0, 2)))
    found = _read_graph(graph)
    if found.n_nodes != n_nodes:
        raise InvalidInput(
            f"The graph has {found.n_nodes:,} nodes and X has {n_nodes:,} rows; expected one row per node, "
            "in the same order (mask nodes that are missing rather than leaving their rows out)."
        )
    return found


def _read_graph(graph: object) -> Graph:
    if isinstance(graph, (Grid, EdgeGraph)):
        return graph
    if issparse(graph):
        return _of_sparse(graph)
    if hasattr(graph, "nodes") and hasattr(graph, "edges"):  # networkx need not be installed to be recognised
        return _of_networkx(graph)
    raise InvalidInput(
        "A graph is made by tellwhy.data.graphs (chain, grid, from_edges, knn_graph), or is a scipy sparse "
        f"matrix or a networkx graph. Got {type(graph).__name__}."
    )


def _of_sparse(matrix: Any) -> EdgeGraph:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InvalidInput(f"A matrix of edges is square; got shape {matrix.shape}.")
    listed = matrix.tocoo()
    kept = listed.data != 0  # a sparse matrix may store zeros
    pairs = np.column_stack([listed.row[kept], listed.col[kept]]).astype(np.int64)
    return _undirected(pairs, matrix.shape[0])


def _of_networkx(graph: NodesAndEdges) -> EdgeGraph:
    position = {node: i for i, node in enumerate(graph.nodes)}
    pairs = [(position[edge[0]], position[edge[1]]) for edge in graph.edges]
    return _undirected(np.array(pairs, dtype=np.int64).reshape(-1, 2), len(position))


def _undirected(pairs: NDArray[np.int64], n_nodes: int) -> EdgeGraph:
    """Merge both directions of an edge."""
    return from_edges(np.unique(np.sort(pairs, axis=1), axis=0), n_nodes)


def _pairs(edges: ArrayLike) -> NDArray[np.int64]:
    pairs = np.asarray(edges)
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InvalidInput(f"edges must be pairs of row numbers, shape (m, 2). Got shape {pairs.shape}.")
    if pairs.dtype.kind not in "iu":
        if pairs.dtype.kind != "f" or not np.isfinite(pairs).all() or (pairs % 1 != 0).any():
            raise InvalidInput(f"edges must hold whole row numbers. Got dtype {pairs.dtype}.")
        pairs = pairs.astype(np.int64)
    return pairs.astype(np.int64)


def _check_pairs(pairs: NDArray[np.int64], n: int) -> None:
    outside = (pairs < 0) | (pairs >= n)
    if outside.any():
        at = int(np.argmax(outside.any(axis=1)))
        raise InvalidInput(
            f"Edge {at} joins rows {tuple(pairs[at].tolist())}; expected numbers from 0 to {n - 1}."
        )
    loops = pairs[:, 0] == pairs[:, 1]
    if loops.any():
        at = int(np.argmax(loops))
        raise InvalidInput(
            f"Edge {at} joins row {pairs[at, 0]} with itself ({int(loops.sum())} such edges in all). Leave "
            "them out: a row is no neighbour of its own."
        )
    ordered = np.sort(pairs, axis=1)
    found = np.unique(ordered, axis=0, return_index=True, return_counts=True)
    first = found[1]
    times = found[2]
    repeated = times > 1
    if repeated.any():
        at = int(first[np.argmax(repeated)])
        raise InvalidInput(
            f"The edge between rows {pairs[at, 0]} and {pairs[at, 1]} is given {times[repeated][0]} times "
            f"({int(repeated.sum())} such edges in all; direction does not matter). List each edge once."
        )


def _checked_mask(mask: ArrayLike | None, n: int) -> Mask | None:
    if mask is None:
        return None
    present = np.asarray(mask)
    if present.dtype != np.bool_ or present.size != n:
        raise InvalidInput(
            f"mask must hold True or False for each of {n:,} nodes. Got {present.dtype} of shape "
            f"{present.shape}."
        )
    if not present.any():
        raise InvalidInput("mask leaves no node; at least one must be there.")
    return None if present.all() else np.array(present.ravel())  # a mask that hides nothing costs time
