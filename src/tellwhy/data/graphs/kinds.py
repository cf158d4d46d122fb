"""The two kinds of graphs: grids, whose edges follow from their shape, and graphs that list their edges."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

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
        found = [_shifted(index, tuple(step)) for step in STEPS[self.neighbours]]
        edges = np.concatenate(found)
        return edges if self.mask is None else edges[self.mask[edges].all(axis=1)]

    def degrees(self) -> NDArray[np.int64]:
        """Count the neighbours of each node."""
        there = np.ones(self.box, bool) if self.mask is None else self.mask.reshape(self.box)
        counts = np.zeros(self.box, dtype=np.int64)
        for step in STEPS[self.neighbours]:
            here, other = _pair_of_slices(tuple(step))
            both = there[here] & there[other]
            counts[here] += both
            counts[other] += both
        return counts.ravel()


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


Graph = Grid | EdgeGraph


def _pair_of_slices(step: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Slices of the nodes that have a neighbour at that step, and of those neighbours."""
    here = tuple(slice(max(0, -s), -s if s > 0 else None) for s in step)
    other = tuple(slice(max(0, s), s if s < 0 else None) for s in step)
    return here, other


def _shifted(index: NDArray[np.int64], step: tuple[int, ...]) -> NDArray[np.int64]:
    here, other = _pair_of_slices(step)
    return np.column_stack([index[here].ravel(), index[other].ravel()])
