"""How much distances should count against the graph: θ from the data alone.

For classes that are Gaussians with one variance σ² in all directions, θ = 1/(1 + 2σ²) weighs squared
distances as such a model would. Classes give σ², this gives θ, and θ gives better classes: two rounds, from
k-means on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.score import Floats
from tellwhy.data.graphs import Graph, Grid, chain, grid
from tellwhy.detectors.lccad.alternation import Alternation, Settings, State
from tellwhy.detectors.lccad.costs import squared_distances
from tellwhy.detectors.lccad.couplings import Couplings

MOST_NODES = 20_000  # of a grid or a chain, that θ is suggested from
_ROUNDS = 2
_FARTHEST = 9.0  # times the median squared distance: none counts for more, as one odd node would
_STARTS = 3
_RARE = 0.1  # of the standard deviation
_WITHIN_ONE_DEVIATION = 0.6827  # share of a normal variable; a few odd values do not move this quantile


def suggest_theta(
    features: NDArray[Any],
    graph: Graph,
    settings: Settings,
    rng: np.random.Generator,
    centres: Floats | None = None,
) -> float:
    """Suggest θ from (the middle part of) the nodes, from given centres or from those of k-means on."""
    part, smaller = take_middle_part(features, graph)
    settings = replace(settings, theta=0.5, normalised=False)
    alternation = Alternation(part, smaller, settings, rng)
    starts = [centres] if centres is not None else [alternation.start(rng) for _ in range(_STARTS)]
    there = part[alternation.present]
    nearest = [squared_distances(there, start).min(axis=1) for start in starts]
    variances = [estimate_variance_of(own.astype(np.float64), part.shape[1]) for own in nearest]
    best = int(np.argmin(variances))
    theta = _compute_gaussian_theta(variances[best])
    found = starts[best]
    couplings: Couplings | None = None
    for _ in range(_ROUNDS):
        if theta == 1:
            return theta
        state = Alternation(part, smaller, replace(settings, theta=theta), rng).run(found, couplings)
        found = state.balls.centres
        couplings = state.couplings
        theta = _theta(part, state)
    return theta


def _compute_gaussian_theta(variance: float) -> float:
    return 1.0 / (1.0 + 2.0 * variance) if variance > 0 else 1.0


def _theta(features: NDArray[Any], state: State) -> float:
    labels = state.labelling.labels
    there = np.flatnonzero(labels >= 0)
    distances = squared_distances(features[there], state.balls.centres)
    own = np.take_along_axis(distances, labels[there][:, None].astype(np.int64), axis=1)[:, 0]
    return _compute_gaussian_theta(estimate_variance_of(own.astype(np.float64), features.shape[1]))


def estimate_variance_of(own: NDArray[np.float64], n_columns: int) -> float:
    """Variance within classes in each column, from squared distances; a few odd nodes hardly count."""
    middle = float(np.median(own))
    return float(np.minimum(own, _FARTHEST * middle if middle > 0 else np.inf).mean()) / n_columns


def spread_of(deviations: NDArray[Any]) -> NDArray[np.float64]:
    """How far nodes are from the centres of their classes, in each column; a few odd nodes hardly count."""
    away = np.abs(deviations)
    spread = np.quantile(away, _WITHIN_ONE_DEVIATION, axis=0)
    # Of a label that few nodes have, most deviations are next to nothing: the few tell its spread.
    whole = np.sqrt((away**2).mean(axis=0))
    return np.where(spread > _RARE * whole, spread, whole)


def take_middle_part(X: NDArray[Any], graph: Graph) -> tuple[NDArray[Any], Graph]:
    """The middle of a large grid or chain, with its rows; any other graph whole."""
    if not isinstance(graph, Grid) or graph.n_nodes <= MOST_NODES:
        return X, graph
    axes = len(graph.shape)
    side = int(MOST_NODES ** (1 / axes))
    block = tuple(_middle(n, side) for n in graph.shape)
    inside = np.arange(graph.n_nodes).reshape(graph.shape)[block]
    mask = None if graph.mask is None else graph.mask[inside.ravel()]
    if mask is not None and not mask.any():
        return X, graph
    smaller = chain(inside.size, mask=mask) if axes == 1 else grid(inside.shape, graph.neighbours, mask=mask)
    return X[inside.ravel()], smaller


def _middle(n: int, side: int) -> slice:
    """Up to `side` of n places, as far from one end as from the other."""
    start = max(0, (n - side) // 2)
    return slice(start, start + min(n, side))
