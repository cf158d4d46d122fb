"""Sum-product message passing: marginals, and log Z, of p(h) ∝ exp(−E(h))."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.score_function import Floats
from tellwhy.data.graphs.kinds import EdgeGraph, Graph
from tellwhy.detectors.map_inference.field import Field, in_tree_order, received_in_all
from tellwhy.detectors.map_inference.loopy_bp import DAMPING


@dataclass(frozen=True, eq=False)
class Marginals:
    """Probabilities of labels, and how often each pair of labels is expected over the edges.

    Attributes
    ----------
    nodes
        p(h_i = k), shape (n, K).
    pairs
        Σ over edges of p(h_i = s, h_j = t), symmetrised, shape (K, K).
    log_z
        log Σ_h exp(−E(h)): exact on forests, Bethe's approximation otherwise.
    """

    nodes: Floats
    pairs: Floats
    log_z: float


def marginals(field: Field, *, max_sweeps: int = 100, tol: float = 1e-6) -> Marginals:
    """Return the marginals: exact on forests, by one pass each way; else by loopy belief propagation, damped.

    Examples
    --------
    >>> from tellwhy.data.graphs import chain
    >>> found = marginals(Field(np.zeros((2, 2)), -np.eye(2), chain(2)))
    >>> round(float(np.exp(found.log_z)), 6) == round(2 * np.e + 2, 6)
    True
    """
    exact = field.graph.is_forest
    ordered, order = in_tree_order(field) if exact else (field, None)
    smooth = Field(ordered.unary.astype(np.float64, copy=False), ordered.pair, ordered.graph)
    arriving = smooth.no_messages()
    for _ in range(1 if exact else max_sweeps):
        before = None if exact else arriving.copy()
        for backward in (True, False):
            smooth.sweep(arriving, backward=backward, damping=0.0 if exact else DAMPING, soft=True)
        if before is not None and np.abs(arriving - before).max(initial=0.0) <= tol:
            break
    return _read(smooth, arriving, order)


def _read(field: Field, arriving: NDArray[Any], order: NDArray[np.int64] | None) -> Marginals:
    """Beliefs of nodes and edges; log Z = Σ_e log z_e − Σ_i (deg_i − 1) log z_i, in which messages cancel."""
    graph, n_classes = field.graph, field.n_classes
    i, j = graph.edges().T
    from_j, from_i = _both_ways(graph, arriving)
    total = field.unary + received_in_all(graph, arriving)
    nodes, node_log = _normalised(-total)
    # What a node knows without the message over an edge, from both ends of the edge.
    joint = (total[i] - from_j)[:, :, None] + (total[j] - from_i)[:, None, :] + field.pair
    pairs, pair_log = _normalised(-joint.reshape(len(i), n_classes**2))
    expected = pairs.sum(axis=0).reshape(n_classes, n_classes)
    there = np.ones(len(nodes), dtype=bool) if graph.mask is None else graph.mask
    log_z = float(node_log[there].sum() + (pair_log - node_log[i] - node_log[j]).sum())
    if order is not None:
        nodes[order] = nodes.copy()
    return Marginals(nodes, (expected + expected.T) / 2, log_z)


def _both_ways(graph: Graph, arriving: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Messages along `graph.edges()`: those that the first nodes receive, and those that the second do."""
    if isinstance(graph, EdgeGraph):
        once = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr)) < graph.indices
        return arriving[once], arriving[graph.reverse[once]]
    half = len(graph.steps) // 2
    edges = graph.edges()
    stride = np.array([graph.box[1] * graph.box[2], graph.box[2], 1])
    flat = graph.steps @ stride
    # Steps are in order of their distances in memory: an edge's own distance tells its direction.
    direction = half + np.searchsorted(flat[half:], edges[:, 1] - edges[:, 0])
    here, there = edges.T * len(flat)
    return arriving[here + direction], arriving[there + len(flat) - 1 - direction]


def _normalised(log_values: Floats) -> tuple[Floats, Floats]:
    """Probabilities ∝ exp(log_values) in each row, and the logarithm of what they were divided by."""
    most = log_values.max(axis=1, keepdims=True, initial=-np.inf)  # taken out, so that none overflows
    shares = np.exp(log_values - most)
    mass = shares.sum(axis=1, keepdims=True)
    return shares / mass, (most + np.log(mass))[:, 0]
