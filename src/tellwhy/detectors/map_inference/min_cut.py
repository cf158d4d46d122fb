"""Two labels that attract: the exact optimum as a minimum cut."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from tellwhy.core.errors import InvalidInput
from tellwhy.detectors.map_inference.field import Field, Labelling, unlabelled_where_missing
from tellwhy.detectors.map_inference.trw_s import polished

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
