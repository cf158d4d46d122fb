"""Which rows are neighbours: sequences, grids, lists of edges, nearest places.

The two kinds of graphs: grids, whose edges follow from their shape, and graphs that list their edges.

Which rows are neighbours: sequences, grids, lists of edges, nearest places.

Node i of a graph is row i of the data. A mask says which nodes are there: a missing one keeps its row, which
is ignored, and has no neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse, sparray, spmatrix
from scipy.sparse.csgraph import connected_components

from tellwhy.core.arrays import as_floats
from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import Fit, Rule, integer, one_of, validate_value

Mask = NDArray[np.bool_]

# Number of neighbours -> steps (axis by axis, the last three axes) to half of them: those of larger index.
STEPS: dict[int, tuple[tuple[int, int, int], ...]] = {
    2: ((0, 0, 1),),
    4: ((0, 0, 1), (0, 1, 0)),
    8: ((0, 0, 1), (0, 1, -1), (0, 1, 0), (0, 1, 1)),
    6: ((0, 0, 1), (0, 1, 0), (1, 0, 0)),
    26: (
        *((0, 0, 1), (0, 1, -1), (0, 1, 0), (0, 1, 1)),
        *((1, y, x) for y in (-1, 0, 1) for x in (-1, 0, 1)),
    ),
}


@dataclass(frozen=True, eq=False)
class Grid:
    """Nodes on a regular grid in C order (the last axis fastest); edges are implied, never stored.

    With 4 or 8 neighbours on three axes, each slice along the first axis is a part of its own.
    """

    shape: tuple[int, ...]
    neighbours: int
    mask: Mask | None = field(default=None, repr=False)  # flat; False where a node is missing

    @property
    def n_nodes(self) -> int:
        """Number of nodes, missing ones included."""
        return int(np.prod(self.shape))

    @property
    def box(self) -> tuple[int, int, int]:
        """The shape as three axes."""
        full = (1,) * (3 - len(self.shape)) + self.shape
        return full[0], full[1], full[2]

    @cached_property
    def steps(self) -> NDArray[np.int64]:
        """Steps to all neighbours, shape (neighbours, 3), smaller indices first; k and −1−k are opposite."""
        ahead = np.array(STEPS[self.neighbours], dtype=np.int64)
        return np.concatenate([-ahead[::-1], ahead])

    @property
    def is_forest(self) -> bool:
        """Whether no path of edges comes back to where it started, whatever the mask."""
        used = np.abs(self.steps).max(axis=0) > 0
        return int((np.array(self.box)[used] > 1).sum()) <= 1

    def edges(self) -> NDArray[np.int64]:
        """List the edges between nodes that are there, shape (m, 2), smaller index first."""
        index = np.arange(self.n_nodes).reshape(self.box)
        found = [_shift_index(index, tuple(step)) for step in STEPS[self.neighbours]]
        edges = np.concatenate(found)
        return edges if self.mask is None else edges[self.mask[edges].all(axis=1)]

    def degrees(self) -> NDArray[np.int64]:
        """Count the neighbours of each node."""
        there = np.ones(self.box, bool) if self.mask is None else self.mask.reshape(self.box)
        counts = np.zeros(self.box, dtype=np.int64)
        for step in STEPS[self.neighbours]:
            here, other = _slice_pairs(tuple(step))
            both = there[here] & there[other]
            counts[here] += both
            counts[other] += both
        return counts.ravel()

    def _require(self) -> Iterator[Fit]:
        # Made anew from what the file says: its own checks then hold, and the two must agree.

        made: Any = chain(self.shape[0]) if len(self.shape) == 1 else grid(self.shape, self.neighbours)
        yield "neighbours", self.neighbours, made.neighbours
        yield "mask", _is_mask(self.mask, made.n_nodes), True


@dataclass(frozen=True, eq=False)
class EdgeGraph:
    """Nodes 0 … n−1 with listed edges, kept as sorted neighbours of each node (compressed rows).

    `reverse[e]` is the place of edge j → i for the edge i → j at place e.
    """

    n_nodes: int
    indptr: NDArray[np.int64] = field(repr=False)
    indices: NDArray[np.int64] = field(repr=False)
    reverse: NDArray[np.int64] = field(repr=False)
    mask: Mask | None = field(default=None, repr=False)

    @classmethod
    def of(cls, n_nodes: int, edges: ArrayLike, mask: Mask | None = None) -> EdgeGraph:
        """Build from checked edges, shape (m, 2); those of missing nodes are left out."""
        pairs = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
        if mask is not None:
            pairs = pairs[mask[pairs].all(axis=1)]
        m = len(pairs)
        # Each edge stands in both directions: i → j at place e, j → i at place e + m, before sorting.
        start, end = np.concatenate([pairs, pairs[:, ::-1]]).T
        order = np.lexsort((end, start))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        twin = np.concatenate([place[m:], place[:m]])
        indptr = np.concatenate([[0], np.cumsum(np.bincount(start, minlength=n_nodes))])
        return cls(n_nodes, indptr.astype(np.int64), end[order], twin[order], mask)

    @cached_property
    def is_forest(self) -> bool:
        """Whether no path of edges comes back to where it started."""
        # A tree of n nodes has n − 1 edges, and every edge more closes a path.
        return len(self.indices) // 2 == self.n_nodes - self.n_parts

    @cached_property
    def n_parts(self) -> int:
        """Number of connected parts; a missing node is one of its own."""
        shape = (self.n_nodes, self.n_nodes)
        matrix = csr_array(
            (np.ones(len(self.indices), dtype=np.int8), self.indices, self.indptr), shape=shape
        )
        return int(connected_components(matrix, directed=False, return_labels=False))

    def edges(self) -> NDArray[np.int64]:
        """List the edges, shape (m, 2), smaller index first."""
        start = np.repeat(np.arange(self.n_nodes), np.diff(self.indptr))
        once = start < self.indices
        return np.column_stack([start[once], self.indices[once]])

    def degrees(self) -> NDArray[np.int64]:
        """Count the neighbours of each node."""
        return np.diff(self.indptr)

    def _require(self) -> Iterator[Fit]:
        n_nodes = self.n_nodes
        for name, array in (("indptr", self.indptr), ("indices", self.indices), ("reverse", self.reverse)):
            yield name, (array.ndim, array.dtype), (1, np.dtype(np.int64))
        n_entries = len(self.indices)
        sizes = np.diff(self.indptr)
        yield "indptr", len(self.indptr), n_nodes + 1
        yield "indptr", (self.indptr[0], self.indptr[-1]), (0, n_entries)
        yield "indptr", bool((sizes >= 0).all()), True
        yield "reverse", len(self.reverse), n_entries
        yield "indices", _are_places(self.indices, n_nodes), True
        yield "reverse", _are_places(self.reverse, n_entries), True
        # Each edge is listed at both of its ends, and `reverse` says where its other entry is.
        owners = np.repeat(np.arange(n_nodes), sizes)
        yield "reverse", bool((owners[self.reverse] == self.indices).all()), True
        yield "indices", bool((self.indices[self.reverse] == owners).all()), True
        yield "mask", _is_mask(self.mask, n_nodes), True


Graph = Grid | EdgeGraph


def _slice_pairs(step: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Slices of the nodes that have a neighbour at that step, and of those neighbours."""
    here = tuple(slice(max(0, -s), -s if s > 0 else None) for s in step)
    other = tuple(slice(max(0, s), s if s < 0 else None) for s in step)
    return here, other


def _shift_index(index: NDArray[np.int64], step: tuple[int, ...]) -> NDArray[np.int64]:
    here, other = _slice_pairs(step)
    return np.column_stack([index[here].ravel(), index[other].ravel()])


def _are_places(numbers: NDArray[np.int64], n: int) -> bool:
    return bool(((numbers >= 0) & (numbers < n)).all())


def _is_mask(mask: Mask | None, n: int) -> bool:
    return mask is None or (mask.shape == (n,) and mask.dtype == np.bool_ and bool(mask.any()))


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
        return Grid((int(n),), 2, _check_mask(mask, int(n)))
    lengths = [int(length) for length in n]
    total = sum(lengths)
    ends = np.cumsum(lengths) - 1
    starts = np.setdiff1d(np.arange(total), ends)
    return EdgeGraph.of(total, np.column_stack([starts, starts + 1]), _check_mask(mask, total))


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
    return Grid(lengths, neighbours, _check_mask(mask, int(np.prod(lengths))))


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
    pairs = _read_pairs(edges)
    n = int(pairs.max(initial=-1)) + 1 if n_nodes is None else n_nodes
    validate_value("from_edges", "n_nodes", n, integer(1))
    _check_pairs(pairs, int(n))
    return EdgeGraph.of(int(n), np.sort(pairs, axis=1), _check_mask(mask, int(n)))


def knn_graph(coords: ArrayLike, k: int = 8, *, mask: ArrayLike | None = None) -> EdgeGraph:
    """Connect each place with its k nearest ones (and with those whose k nearest it is among).

    Examples
    --------
    >>> knn_graph([[0.0, 0.0], [1.0, 0.0], [5.0, 0.0]], k=1).edges().tolist()
    [[0, 1], [1, 2]]
    """
    from sklearn.neighbors import NearestNeighbors

    places = as_floats(coords, what="coords")
    present = _check_mask(mask, len(places))
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
        return _read_sparse(graph)
    if hasattr(graph, "nodes") and hasattr(graph, "edges"):  # networkx need not be installed to be recognised
        return _read_networkx(graph)
    raise InvalidInput(
        "A graph is made by tellwhy.data.graphs (chain, grid, from_edges, knn_graph), or is a scipy sparse "
        f"matrix or a networkx graph. Got {type(graph).__name__}."
    )


def _read_sparse(matrix: Any) -> EdgeGraph:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InvalidInput(f"A matrix of edges is square; got shape {matrix.shape}.")
    listed = matrix.tocoo()
    kept = listed.data != 0  # a sparse matrix may store zeros
    pairs = np.column_stack([listed.row[kept], listed.col[kept]]).astype(np.int64)
    return _merge_directions(pairs, matrix.shape[0])


def _read_networkx(graph: NodesAndEdges) -> EdgeGraph:
    position = {node: i for i, node in enumerate(graph.nodes)}
    pairs = [(position[edge[0]], position[edge[1]]) for edge in graph.edges]
    return _merge_directions(np.array(pairs, dtype=np.int64).reshape(-1, 2), len(position))


def _merge_directions(pairs: NDArray[np.int64], n_nodes: int) -> EdgeGraph:
    """Merge both directions of an edge."""
    return from_edges(np.unique(np.sort(pairs, axis=1), axis=0), n_nodes)


def _read_pairs(edges: ArrayLike) -> NDArray[np.int64]:
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


def _check_mask(mask: ArrayLike | None, n: int) -> Mask | None:
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
