"""A pairwise energy on a graph, a labelling of it, and the passes that every algorithm is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from tellwhy.data.graphs import EdgeGraph, Graph, Grid
from tellwhy.detectors.map_inference import _compiled as _typed
from tellwhy.detectors.map_inference._compiled import Cells, Costs, Links, Pass

Labels = NDArray[np.int32]
_compiled: Any = _typed
_NOBODY_MISSING = np.empty(0, dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class Field:
    """E(h) = Σ_i unary[i, h_i] + Σ_(i,j)∈edges pair[h_i, h_j], to be minimised.

    Parameters
    ----------
    unary
        Cost of each label at each node, shape (n, K), float32 or float64; zero at missing nodes.
    pair
        Cost of the labels at the two ends of an edge, symmetric, shape (K, K).
    graph
        Which nodes are neighbours.
    """

    unary: NDArray[Any]
    pair: NDArray[Any]
    graph: Graph

    @property
    def n_classes(self) -> int:
        """Number of labels K."""
        return int(self.unary.shape[1])

    def no_messages(self) -> NDArray[Any]:
        """Return messages that say nothing."""
        graph = self.graph
        n = graph.n_nodes * len(graph.steps) if isinstance(graph, Grid) else len(graph.indices)
        return np.zeros((n, self.n_classes), self.unary.dtype)

    def sweep(
        self,
        arriving: NDArray[Any],
        *,
        backward: bool,
        shared: bool = False,
        damping: float = 0.0,
        soft: bool = False,
    ) -> float:
        """Pass messages once over the nodes, in place.

        Parameters
        ----------
        arriving
            Messages that the nodes receive (see `_compiled`).
        backward
            Whether the pass goes from the last node to the first.
        shared
            Whether each node's cost is split among the chains through it, as TRW-S needs it.
        damping
            Share of the old messages in the new ones.
        soft
            Whether messages sum probabilities instead of taking the least cost.

        Returns
        -------
        The sum of what was taken off costs and messages to make the least of each 0. After a backward pass
        with `shared`, it is a bound that no labelling can be below.
        """
        how = Pass(backward, shared, self.unary.dtype.type(damping), soft)
        costs = self._make_costs(self.unary.dtype)
        if isinstance(self.graph, Grid):
            return float(_compiled.sweep_grid(costs, arriving, _cells(self.graph), how))
        return float(_compiled.sweep_edges(costs, arriving, _list_links(self.graph), how))

    def _make_costs(self, dtype: DTypeLike) -> Costs:
        return Costs(self.unary, self.pair.astype(dtype))

    def decode(self, arriving: NDArray[Any]) -> Labels:
        """Read a labelling from messages, each node given the labels of its earlier neighbours."""
        labels = np.empty(self.graph.n_nodes, dtype=np.int32)
        costs = self._make_costs(self.unary.dtype)
        if isinstance(self.graph, Grid):
            _compiled.decode_grid(costs, arriving, _cells(self.graph), labels)
        else:
            _compiled.decode_edges(costs, arriving, _list_links(self.graph), labels)
        return unlabel_missing(labels, self.graph)

    def improve(self, labels: Labels) -> int:
        """Give each node in turn its cheapest label, in place; return how many changed."""
        costs = self._make_costs(np.float64)
        if isinstance(self.graph, Grid):
            return int(_compiled.improve_grid(costs, labels, _cells(self.graph)))
        return int(_compiled.improve_edges(costs, labels, _list_links(self.graph)))

    def energy(self, labels: Labels) -> float:
        """Return E(h)."""
        costs = self._make_costs(np.float64)
        if isinstance(self.graph, Grid):
            return float(_compiled.compute_energy_grid(costs, labels, _cells(self.graph)))
        return float(_compiled.compute_energy_edges(costs, labels, _list_links(self.graph)))

    def cheapest_alone(self) -> Labels:
        """Return the labelling that ignores neighbours."""
        return unlabel_missing(self.unary.argmin(axis=1).astype(np.int32), self.graph)


@dataclass(frozen=True, eq=False)
class Labelling:
    """Labels (−1 where a node is missing), their energy, and a bound that no labelling can be below."""

    labels: Labels
    energy: float
    bound: float = -np.inf

    @property
    def gap(self) -> float:
        """How much lower the energy could possibly be; infinite for methods without a bound."""
        return max(self.energy - self.bound, 0.0)


def neighbour_counts(labels: Labels, graph: Graph, n_classes: int) -> NDArray[Any]:
    """Count, for each node, its neighbours of each label, shape (n, K)."""
    if isinstance(graph, Grid):
        counts = np.zeros((graph.n_nodes, n_classes), dtype=np.uint8)  # a cell has at most 26 neighbours
        _compiled.count_grid(labels, _cells(graph), counts)
        return counts
    counts = np.zeros((graph.n_nodes, n_classes), dtype=np.int32)
    _compiled.count_edges(labels, _list_links(graph), counts)
    return counts


def unlabel_missing(labels: Labels, graph: Graph) -> Labels:
    """Set the labels of missing nodes to −1, in place."""
    if graph.mask is not None:
        labels[~graph.mask] = -1
    return labels


def renumber_as_tree(field: Field) -> tuple[Field, NDArray[np.int64] | None]:
    """Renumber the nodes of a forest so that each has at most one earlier neighbour.

    Returns the field with its nodes renumbered, and the old number of each node: None for grids, whose chains
    have that order already.
    """
    graph = field.graph
    if isinstance(graph, Grid):
        return field, None
    order = _compiled.order_breadth_first(graph.indptr, graph.indices)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    mask = None if graph.mask is None else graph.mask[order]
    renumbered = EdgeGraph.of(graph.n_nodes, place[graph.edges()], mask)
    return Field(field.unary[order], field.pair, renumbered), order


def received_in_all(graph: Graph, arriving: NDArray[Any]) -> NDArray[Any]:
    """Sum the messages that each node receives, shape (n, K)."""
    if isinstance(graph, Grid):
        return np.asarray(arriving.reshape(graph.n_nodes, -1, arriving.shape[1]).sum(axis=1))
    # Row i of this matrix has a 1 for each message that node i receives.
    n = len(arriving)
    receives = csr_array((np.ones(n), np.arange(n), graph.indptr), shape=(graph.n_nodes, n))
    return np.asarray(receives @ arriving)


def received_by(graph: Graph, arriving: NDArray[Any], node: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the neighbours of a node and the message that it receives from each."""
    if isinstance(graph, EdgeGraph):
        places = slice(graph.indptr[node], graph.indptr[node + 1])
        return graph.indices[places], arriving[places]
    here = np.array(np.unravel_index(node, graph.box))
    there = here + graph.steps
    inside = ((there >= 0) & (there < graph.box)).all(axis=1)
    neighbours = np.ravel_multi_index(there[inside].T, graph.box)
    kept = np.ones(len(neighbours), bool) if graph.mask is None else graph.mask[neighbours]
    places = node * len(graph.steps) + np.flatnonzero(inside)[kept]
    return neighbours[kept], arriving[places]


def _cells(graph: Grid) -> Cells:
    return Cells(_NOBODY_MISSING if graph.mask is None else graph.mask, graph.box, graph.steps)


def _list_links(graph: EdgeGraph) -> Links:
    return Links(graph.indptr, graph.indices, graph.reverse)
