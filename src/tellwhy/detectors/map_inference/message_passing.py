"""Messages between neighbouring nodes: TRW-S, loopy belief propagation, sum-product.

Sequential tree-reweighted message passing has a lower bound that never falls (Kolmogorov, "Convergent
tree-reweighted message passing for energy minimization", IEEE Transactions on Pattern Analysis and Machine
Intelligence 28, 2006). Loopy belief propagation (max-product), damped, has no bound and may not settle.
Sum-product gives marginals, and log Z, of p(h) ∝ exp(−E(h)).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.errors import NotConverged
from tellwhy.core.progress import track
from tellwhy.core.score import Floats
from tellwhy.data.graphs import EdgeGraph, Graph
from tellwhy.detectors.map_inference.field import Field, Labelling, in_tree_order, received_in_all

TOLERANCE = 1e-5
_MOST_POLISHING = 5


def trw_s(
    field: Field, *, max_sweeps: int = 50, tol: float = TOLERANCE, messages: NDArray[Any] | None = None
) -> Labelling:
    """Return the best labelling met, and the best lower bound.

    Parameters
    ----------
    field
        The energy, on any graph.
    max_sweeps
        The most pairs of passes.
    tol
        Stop when the gap, or what a sweep adds to the bound, is at most this share of the energy.
    messages
        Messages to start from, changed in place: those of a similar energy save sweeps.

    Examples
    --------
    >>> import numpy as np
    >>> from tellwhy.data.graphs import grid
    >>> costs = np.random.default_rng(0).normal(size=(9, 3))
    >>> found = trw_s(Field(costs, 1.0 - np.eye(3), grid((3, 3))))
    >>> found.bound <= found.energy
    True
    """
    arriving = field.no_messages() if messages is None else messages
    labels = field.cheapest_alone()
    best = Labelling(labels, field.energy(labels))
    for _ in track(range(max_sweeps), max_sweeps, "labelling nodes"):
        field.sweep(arriving, backward=False, shared=True)
        bound = field.sweep(arriving, backward=True, shared=True)
        gained = bound - best.bound  # infinite after the first sweep
        labels = field.decode(arriving)
        field.improve(labels)
        energy = field.energy(labels)
        bound = max(bound, best.bound)
        best = replace(best, bound=bound)
        if energy < best.energy:
            best = Labelling(labels, energy, bound)
        if min(best.gap, gained) <= tol * max(abs(best.energy), abs(bound)):
            break
    return polished(field, best)


def polished(field: Field, found: Labelling) -> Labelling:
    """Improve a labelling node by node, a few times over."""
    labels = found.labels.copy()
    for _ in range(_MOST_POLISHING):
        if field.improve(labels) == 0:
            break
    energy = field.energy(labels)
    if energy >= found.energy:
        return found
    return Labelling(labels, energy, min(found.bound, energy))


DAMPING = 0.3  # without it, messages on cycles may swing between two states for ever


def loopy_bp(
    field: Field,
    *,
    max_sweeps: int = 50,
    damping: float = DAMPING,
    tol: float = 1e-4,
    messages: NDArray[Any] | None = None,
) -> Labelling:
    """Return the best labelling met while messages are passed to and fro.

    M_ij(s) ← min_t [pair(s, t) + unary_i(t) + Σ_{k ∈ N(i)∖j} M_ki(t)], each new message a mixture with the
    old one. Labels are read from unary_i(s) + Σ_{k ∈ N(i)} M_ki(s), each node given its earlier neighbours'
    labels.

    Examples
    --------
    >>> from tellwhy.data.graphs import grid
    >>> costs = np.random.default_rng(0).normal(size=(9, 2))
    >>> loopy_bp(Field(costs, 1.0 - np.eye(2), grid((3, 3)))).labels.shape
    (9,)
    """
    arriving = field.no_messages() if messages is None else messages
    labels = field.cheapest_alone()
    best = Labelling(labels, field.energy(labels))
    for _ in track(range(max_sweeps), max_sweeps, "labelling nodes"):
        change = _to_and_fro(field, arriving, damping)
        labels = field.decode(arriving)
        energy = field.energy(labels)
        if energy < best.energy:
            best = Labelling(labels, energy)
        if change <= tol * _unit(field):
            return best
    warnings.warn(
        f"Loopy belief propagation did not settle in {max_sweeps} sweeps; the best labelling it met is used. "
        "inference='trws' always settles and says how far from optimal it may be.",
        NotConverged,
        stacklevel=2,
    )
    return best


def max_marginals(
    field: Field, *, max_sweeps: int = 30, damping: float = DAMPING, tol: float = 1e-4
) -> NDArray[Any]:
    """Return the messages that nodes receive (see `_compiled`), settled or after `max_sweeps`."""
    arriving = field.no_messages()
    for _ in range(max_sweeps):
        if _to_and_fro(field, arriving, damping) <= tol * _unit(field):
            break
    return arriving


def _to_and_fro(field: Field, arriving: NDArray[Any], damping: float) -> float:
    """Sweep both ways; return the largest change of a message."""
    before = arriving.copy()
    for backward in (False, True):
        field.sweep(arriving, backward=backward, damping=damping)
    np.subtract(arriving, before, out=before)
    return float(np.abs(before, out=before).max(initial=0.0))


def _unit(field: Field) -> float:
    """Return the scale of messages: a message differs by no more than the largest cost of a pair."""
    return max(float(np.abs(field.pair).max()), 1e-12)


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
