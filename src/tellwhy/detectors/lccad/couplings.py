"""Learning how classes go together: couplings V of neighbouring classes, emissions W of each class.

Together they are called v = (V, W). They give each labelling h of the nodes a probability,

    p(h | x) = exp(Σ_(i,j) V[h_i, h_j] + Σ_i ⟨W[h_i], φ_i⟩) / Z,

where (i, j) are the edges and V is symmetric. Z is the sum of the numerator over all labellings. v is chosen
so that the labels found are likely, while γ/2·‖v‖² keeps it small. Z can be computed on chains and trees
only. Elsewhere the pseudo-likelihood takes the place of p: the product of each node's probability given the
labels of its neighbours, which needs no Z.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize

from tellwhy.core.score import Floats, Integers
from tellwhy.data.graphs import Graph
from tellwhy.detectors.map_inference import Field, marginals, neighbour_counts
from tellwhy.detectors.map_inference.field import Labels

MOST_NODES = 100_000  # a pseudo-likelihood of more nodes is estimated from a random sample of so many
_MOST_STEPS = 200
_HALVINGS = 12  # of the range of log γ, which is then known to 0.5 %


@dataclass(frozen=True, eq=False)
class Couplings:
    """V, shape (K, K), and W, shape (K, D + 1); the last column of W belongs to a constant feature, 1."""

    pair: Floats
    emission: Floats

    @property
    def squared_norm(self) -> float:
        """‖v‖² over ordered pairs of classes and emissions."""
        return float((self.pair**2).sum() + (self.emission**2).sum())


@dataclass(frozen=True, eq=False)
class Evidence:
    """What couplings are learned from: some nodes, and what is around them."""

    labels: NDArray[Any]  # class of each node, (m,)
    counts: Floats  # its neighbours of each class, (m, K)
    features: Floats  # its features and a constant 1, (m, D + 1)
    share: Floats | float  # how many nodes of the graph each listed one stands for

    @property
    def n_nodes(self) -> float:
        """How many nodes of the graph all stand for."""
        return float(np.broadcast_to(self.share, self.labels.shape).sum())


def make_no_couplings(n_classes: int, n_features: int) -> Couplings:
    """V = 0 and W = 0."""
    return Couplings(np.zeros((n_classes, n_classes)), np.zeros((n_classes, n_features + 1)))


def gather(features: NDArray[Any], labels: Labels, graph: Graph, n_classes: int, rows: Integers) -> Evidence:
    """Return what the nodes in `rows` say.

    Without features, nodes of one class with the same neighbours say the same, and are listed once.
    """
    counts = neighbour_counts(labels, graph, n_classes)[rows]
    own = labels[rows]
    share = int((labels >= 0).sum()) / max(len(own), 1)
    if features.shape[1]:
        with_constant = np.hstack([features[rows], np.ones((len(own), 1))])
        return Evidence(own, counts.astype(np.float64), with_constant, share)
    alike = pd.DataFrame(np.column_stack([own, counts])).value_counts(sort=False)
    kinds = np.array(alike.index.to_list(), dtype=np.int64).reshape(len(alike), 1 + n_classes)
    constant = np.ones((len(kinds), 1))
    return Evidence(
        kinds[:, 0], kinds[:, 1:].astype(np.float64), constant, share * alike.to_numpy(np.float64)
    )


def log_pseudo_likelihood(couplings: Couplings, evidence: Evidence) -> float:
    """Σ_i log p(h_i | labels of its neighbours, φ_i): every edge is in the terms of both its ends."""
    logits = evidence.counts @ couplings.pair + evidence.features @ couplings.emission.T
    most = logits.max(axis=1)  # taken out, because exponentials overflow
    log_mass = most + np.log(np.exp(logits - most[:, None]).sum(axis=1))
    own = np.take_along_axis(logits, evidence.labels[:, None].astype(np.int64), axis=1)[:, 0]
    return float(((own - log_mass) * evidence.share).sum())


def fit_by_pseudo_likelihood(start: Couplings, evidence: Evidence, gamma: float) -> Couplings:
    """Return the v that maximises the log pseudo-likelihood − γ/2·‖v‖², a concave problem."""
    onehot = np.eye(len(start.pair))[evidence.labels]
    scale = 1.0 / evidence.n_nodes
    share = np.broadcast_to(evidence.share, evidence.labels.shape)

    def cost(couplings: Couplings) -> tuple[float, Couplings]:
        logits = evidence.counts @ couplings.pair + evidence.features @ couplings.emission.T
        logits -= logits.max(axis=1, keepdims=True)
        own = (onehot * logits).sum(axis=1)
        np.exp(logits, out=logits)  # in place: this array is the largest one
        mass = logits.sum(axis=1, keepdims=True)
        error = onehot - logits / mass
        value = -float((own - np.log(mass[:, 0])) @ share)
        error *= share[:, None]
        return value, Couplings(-(evidence.counts.T @ error), -(error.T @ evidence.features))

    return _minimise_cost(cost, start, gamma, scale)


def fit_by_marginals(
    start: Couplings, features: NDArray[Any], labels: Labels, graph: Graph, gamma: float
) -> Couplings:
    """Return the v that minimises γ/2·‖v‖² − log p(h | x).

    The slope of log Z is what p expects: how often each class, and each pair of classes on an edge. These
    expectations (marginals) come from sum-product messages, which are exact on chains and trees.
    """
    there = labels >= 0
    extended = np.hstack([features, np.ones((len(features), 1))]) * there[:, None]
    observed_pairs = _pair_counts(labels, graph, len(start.pair))
    onehot = np.eye(len(start.pair))[np.maximum(labels, 0)] * there[:, None]

    def cost(couplings: Couplings) -> tuple[float, Couplings]:
        expected = marginals(Field(-(extended @ couplings.emission.T), -couplings.pair, graph))
        value = expected.log_z - float((couplings.pair * observed_pairs).sum())
        value -= float((couplings.emission * (onehot.T @ extended)).sum())
        gap = expected.nodes * there[:, None] - onehot
        return value, Couplings(expected.pairs - observed_pairs, gap.T @ extended)

    return _minimise_cost(cost, start, gamma, 1.0 / max(int(there.sum()), 1))


def compute_log_likelihood(
    couplings: Couplings, features: NDArray[Any], labels: Labels, graph: Graph
) -> float:
    """log p(h | x): exact on chains and trees, with an approximation of log Z (Bethe's) otherwise."""
    there = labels >= 0
    extended = np.hstack([features, np.ones((len(features), 1))]) * there[:, None]
    field = Field(-(extended @ couplings.emission.T), -couplings.pair, graph)
    return -field.energy(labels) - marginals(field).log_z


def find_balancing_gamma(start: Couplings, evidence: Evidence) -> float:
    """Return the γ for which the couplings learned from the evidence have ‖v‖ = 1.

    Where no γ between 1e-6 and 100 per node does, the end of that range that comes closest is returned.
    """
    n = evidence.n_nodes
    low = np.log(1e-6 * n)
    high = np.log(1e2 * n)
    found = start  # each solution is the start of the next, which is not far away
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = fit_by_pseudo_likelihood(found, evidence, float(np.exp(middle)))
        if found.squared_norm > 1:
            low = middle
        else:
            high = middle
    return float(np.exp((low + high) / 2))


def _pair_counts(labels: Labels, graph: Graph, n_classes: int) -> Floats:
    """Edges between each two classes; half of those between different classes in each of two cells."""
    counts = neighbour_counts(labels, graph, n_classes)
    there = labels >= 0
    return np.asarray(np.eye(n_classes)[labels[there]].T @ counts[there] / 2.0)


def _minimise_cost(
    cost: Callable[[Couplings], tuple[float, Couplings]], start: Couplings, gamma: float, scale: float
) -> Couplings:
    """Minimise scale · (cost(v) + γ/2·‖v‖²) by L-BFGS.

    The free numbers are the upper triangle of V and all of W. V_st and V_ts are one number, which counts
    twice in ‖v‖.
    """
    n_classes = len(start.pair)
    upper = np.triu_indices(n_classes)
    times = np.where(upper[0] == upper[1], 1.0, 2.0)

    def opened(flat: Floats) -> Couplings:
        pair = np.zeros((n_classes, n_classes))
        pair[upper] = flat[: len(times)]
        pair = pair + np.triu(pair, 1).T
        return Couplings(pair, flat[len(times) :].reshape(start.emission.shape))

    def flat_cost(flat: Floats) -> tuple[float, Floats]:
        couplings = opened(flat)
        value, slope = cost(couplings)
        both = slope.pair + slope.pair.T
        by_pair = np.where(times == 1, slope.pair[upper], both[upper])
        by_pair = by_pair + gamma * times * couplings.pair[upper]
        by_emission = slope.emission + gamma * couplings.emission
        whole = np.concatenate([by_pair, by_emission.ravel()])
        return scale * (value + gamma / 2 * couplings.squared_norm), scale * whole

    first = np.concatenate([start.pair[upper], start.emission.ravel()])
    options = {"maxiter": _MOST_STEPS, "gtol": 1e-7}
    found = minimize(flat_cost, first, jac=True, method="L-BFGS-B", options=options)
    return opened(found.x)
