"""Which algorithm labels which graph, and the algorithms.

Dynamic programming on chains and trees gives the optimum. Two labels that attract have it as a minimum cut.
Iterated conditional modes, where each node in turn takes the label that suits its neighbours, is a baseline.
All other graphs are left to messages between neighbouring nodes: sequential tree-reweighted message passing,
whose lower bound never falls (Kolmogorov, "Convergent tree-reweighted message passing for energy
minimization", IEEE Transactions on Pattern Analysis and Machine Intelligence 28, 2006), and loopy belief
propagation (max-product), damped, which has no bound and may not settle. Sum-product gives marginals, and
log Z, of p(h) ∝ exp(−E(h)).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from tellwhy.core.errors import InvalidInput, InvalidParameter, NotConverged
from tellwhy.core.progress import track
from tellwhy.core.score import Floats
from tellwhy.data.graphs import EdgeGraph, Graph
from tellwhy.detectors.map_inference.field import (
    Field,
    Labelling,
    Labels,
    received_in_all,
    renumber_as_tree,
    unlabel_missing,
)


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
    ordered, order = renumber_as_tree(field)
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
    capacities, error = _make_capacities(ones_cost * scale, weight * scale, edges, n)
    flow = maximum_flow(capacities, n, n + 1)
    labels = _label_far_side(capacities - flow.flow, n)
    # What every labelling costs: all nodes at label 0, less what nodes save that would rather have label 1.
    constant = float(field.unary[:, 0].sum(dtype=np.float64)) + len(edges) * pair[0, 0]
    constant += np.minimum(ones_cost, 0).sum()
    bound = constant + (float(flow.flow_value) - error) / scale
    labels = unlabel_missing(labels, field.graph)
    energy = field.energy(labels)
    return polish_labelling(field, Labelling(labels, energy, min(bound, energy)))


def _scale(ones_cost: NDArray[np.float64], weight: float) -> float:
    """Largest factor for which neither a capacity nor the whole flow leaves 31 bits."""
    most = max(float(np.maximum(ones_cost, 0).sum()), float(np.maximum(-ones_cost, 0).sum()), weight)
    return 0.5 * _LARGEST / most if most > 0 else 1.0


def _make_capacities(
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


def _label_far_side(residual: csr_array, n: int) -> NDArray[np.int32]:
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
    return polish_labelling(field, best)


def polish_labelling(field: Field, found: Labelling) -> Labelling:
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
        change = _sweep_to_and_fro(field, arriving, damping)
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
        if _sweep_to_and_fro(field, arriving, damping) <= tol * _unit(field):
            break
    return arriving


def _sweep_to_and_fro(field: Field, arriving: NDArray[Any], damping: float) -> float:
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
    ordered, order = renumber_as_tree(field) if exact else (field, None)
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
    from_j, from_i = _collect_both_ways(graph, arriving)
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


def _collect_both_ways(graph: Graph, arriving: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
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
