"""Which algorithm labels which graph, and the algorithms that are exact or a baseline.

Dynamic programming on chains and trees gives the optimum. Two labels that attract have it as a minimum cut.
Iterated conditional modes, where each node in turn takes the label that suits its neighbours, is a baseline.
All other graphs are left to `message_passing`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.detectors.map_inference.field import (
    Field,
    Labelling,
    Labels,
    in_tree_order,
    unlabelled_where_missing,
)
from tellwhy.detectors.map_inference.message_passing import loopy_bp, polished, trw_s


def viterbi(field: Field) -> Labelling:
    """Return the best labelling of a forest: one pass of messages to the roots, and backtracking.

    Ties are broken by backtracking: each node is labelled given its parent's label, never on its own. The
    costs are taken in float64, whatever the field's, so that the optimum is exact.

    Examples
    --------
    >>> from tellwhy.data.graphs import chain
    >>> costs = np.array([[0.0, 1.0], [0.6, 0.0], [0.0, 1.0]])
    >>> viterbi(Field(costs, 0.5 - 0.5 * np.eye(2), chain(3))).labels
    array([0, 0, 0], dtype=int32)
    """
    ordered, order = in_tree_order(field)
    exact = Field(ordered.unary.astype(np.float64, copy=False), field.pair, ordered.graph)
    arriving = exact.no_messages()
    exact.sweep(arriving, backward=True)
    labels = exact.decode(arriving)
    if order is not None:
        back = np.empty_like(labels)
        back[order] = labels
        labels = back
    energy = field.energy(labels)
    return Labelling(labels, energy, energy)


_LARGEST = 2**31 - 1


def is_attractive(field: Field) -> bool:
    """Whether there are two labels and equal ones cost no more than different ones: p00 + p11 ≤ p01 + p10."""
    pair = field.pair
    return field.n_classes == 2 and bool(pair[0, 0] + pair[1, 1] <= pair[0, 1] + pair[1, 0])


def min_cut(field: Field) -> Labelling:
    """Return the best labelling for two attractive labels.

    With w = p01 − (p00 + p11)/2 ≥ 0, an edge costs p00 + (p11 − p00)/2·(h_i + h_j) + w·|h_i − h_j|: a unary
    part and a capacity. Capacities are whole numbers of 31 bits, so that the bound is below the optimum by
    the rounding.

    Examples
    --------
    >>> from tellwhy.data.graphs import grid
    >>> costs = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [1.5, 0.0]])
    >>> min_cut(Field(costs, 1.0 - np.eye(2), grid((2, 2)))).labels
    array([0, 0, 0, 0], dtype=int32)
    """
    if not is_attractive(field):
        raise InvalidInput(
            "A minimum cut needs two labels that attract: pair[0, 0] + pair[1, 1] ≤ 2·pair[0, 1]."
        )
    n, pair = field.graph.n_nodes, field.pair.astype(np.float64)
    weight = pair[0, 1] - (pair[0, 0] + pair[1, 1]) / 2
    ones_cost = (field.unary[:, 1] - field.unary[:, 0]).astype(np.float64)
    ones_cost += field.graph.degrees() * (pair[1, 1] - pair[0, 0]) / 2
    edges = field.graph.edges()
    scale = _scale(ones_cost, weight)
    capacities, error = _capacities(ones_cost * scale, weight * scale, edges, n)
    flow = maximum_flow(capacities, n, n + 1)
    labels = _far_side(capacities - flow.flow, n)
    # What every labelling costs: all nodes at label 0, less what nodes save that would rather have label 1.
    constant = float(field.unary[:, 0].sum(dtype=np.float64)) + len(edges) * pair[0, 0]
    constant += np.minimum(ones_cost, 0).sum()
    bound = constant + (float(flow.flow_value) - error) / scale
    labels = unlabelled_where_missing(labels, field.graph)
    energy = field.energy(labels)
    return polished(field, Labelling(labels, energy, min(bound, energy)))


def _scale(ones_cost: NDArray[np.float64], weight: float) -> float:
    """Largest factor for which neither a capacity nor the whole flow leaves 31 bits."""
    most = max(float(np.maximum(ones_cost, 0).sum()), float(np.maximum(-ones_cost, 0).sum()), weight)
    return 0.5 * _LARGEST / most if most > 0 else 1.0


def _capacities(
    ones_cost: NDArray[np.float64], weight: float, edges: NDArray[np.int64], n: int
) -> tuple[csr_array, float]:
    """Return the network, and the most that rounding may have changed of a cut's cost.

    Node n is the source (label 0), node n + 1 the sink (label 1).
    """
    nodes = np.arange(n)
    whole = np.rint(ones_cost).astype(np.int64)
    to_node = whole > 0
    to_sink = whole < 0
    start = np.concatenate([edges[:, 0], edges[:, 1], np.full(to_node.sum(), n), nodes[to_sink]])
    end = np.concatenate([edges[:, 1], edges[:, 0], nodes[to_node], np.full(to_sink.sum(), n + 1)])
    between = np.full(2 * len(edges), round(weight))
    values = np.concatenate([between, whole[to_node], -whole[to_sink]]).astype(np.int32)
    error = float(np.abs(whole - ones_cost).sum()) + len(edges) * abs(round(weight) - weight)
    return csr_array((values, (start, end)), shape=(n + 2, n + 2)), error


def _far_side(residual: csr_array, n: int) -> NDArray[np.int32]:
    """Label 1 where the source no longer reaches."""
    residual.eliminate_zeros()
    reached = breadth_first_order(residual, n, directed=True, return_predecessors=False)
    labels = np.ones(n + 2, dtype=np.int32)
    labels[reached] = 0
    return labels[:n]


def icm(field: Field, *, start: Labels | None = None, max_sweeps: int = 1000) -> Labelling:
    """Descend to a labelling that no change of a single node improves.

    It starts from `start`, or from the labelling that ignores neighbours.

    Besag, "On the statistical analysis of dirty pictures", Journal of the Royal Statistical Society B 48
    (1986).

    Examples
    --------
    >>> import numpy as np
    >>> from tellwhy.data.graphs import chain
    >>> icm(Field(np.array([[0.0, 1.0], [0.6, 0.0], [0.0, 1.0]]), 0.5 - 0.5 * np.eye(2), chain(3))).labels
    array([0, 0, 0], dtype=int32)
    """
    labels = field.cheapest_alone() if start is None else start.copy()
    for _ in range(max_sweeps):
        if field.improve(labels) == 0:
            break
    return Labelling(labels, field.energy(labels))


METHODS = ("auto", "exact", "trws", "lbp", "icm")
MOST_NODES_TO_CUT = 5_000  # beyond, TRW-S finds the same cut sooner


def best_labelling(
    field: Field, method: str = "auto", *, max_sweeps: int = 50, messages: NDArray[Any] | None = None
) -> Labelling:
    """Label the nodes at least cost.

    Parameters
    ----------
    field
        The energy.
    method
        'auto': dynamic programming on forests, a minimum cut for two attractive labels on small graphs, else
        TRW-S. 'exact': one of the first two, whatever the size. 'trws', 'lbp' and 'icm' by name.
    max_sweeps
        The most sweeps of 'trws' and 'lbp'.
    messages
        Messages for 'trws' and 'lbp' to start from, changed in place.
    """
    if method in ("auto", "exact"):
        if not field.pair.any():  # neighbours do not matter: each node by itself is exact
            found = field.cheapest_alone()
            energy = field.energy(found)
            return Labelling(found, energy, energy)
        if field.graph.is_forest:
            return viterbi(field)
        if is_attractive(field) and (method == "exact" or field.graph.n_nodes <= MOST_NODES_TO_CUT):
            return min_cut(field)
        if method == "exact":
            raise InvalidParameter(
                "inference='exact' labels chains and trees, and two classes that attract each other on any "
                f"graph; this graph has cycles and there are {field.n_classes} classes. Use inference='auto' "
                "or 'trws', whose gap_ says how far from optimal the labels may be."
            )
    if method == "icm":
        return icm(field)
    return (loopy_bp if method == "lbp" else trw_s)(field, max_sweeps=max_sweeps, messages=messages)
