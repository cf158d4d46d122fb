"""Series, grids and graphs of two to four classes, whose columns have any units and go together or tell nothing.

Three nodes are planted in each: two have values of the nearest other class, one is 16 σ off in one column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.data.graphs import Grid, chain, grid, knn_graph

KINDS = ("series", "grid", "graph")
LEAST_SHARE = 0.1
SHORTEST, LONGEST = 25, 120  # visits of a class in a series


@dataclass(frozen=True)
class Case:
    """Nodes with three planted ones, the same without them, and what is true of them."""

    X: np.ndarray
    clean: np.ndarray
    graph: Any
    shape: tuple[int, ...] | None
    n_classes: int
    odd: np.ndarray
    known: np.ndarray  # squared distance from the centre of the true class, in σ


def varied(kind: str, gap: float, rng: np.random.Generator) -> Case:
    """Draw one: the nearest two classes are `gap` σ apart."""
    n_classes = int(rng.integers(2, 5))
    graph, classes, shape = _places(kind, n_classes, rng)
    beside = _beside(graph, len(classes))
    n_telling = int(rng.integers(2, 6))
    n_noise = int(rng.choice([0, 0, 1, 3]))
    centres = np.hstack([_centres(n_classes, n_telling, gap, rng), np.zeros((n_classes, n_noise))])
    noise = np.hstack([_noise(len(classes), n_telling, rng), rng.normal(size=(len(classes), n_noise))])
    clean = centres[classes] + noise
    X = clean.copy()
    odd = rng.choice(_inside(classes, beside), 3, replace=False)
    away = ((centres[:, None] - centres[None]) ** 2).sum(axis=2) + np.diag(np.full(n_classes, np.inf))
    for node in odd[:2]:
        X[node] = centres[away[classes[node]].argmin()] + noise[node]
    X[odd[2], rng.integers(X.shape[1])] += 16 * rng.choice([-1, 1])
    units = 10.0 ** rng.uniform(-2, 3, size=X.shape[1])
    known = ((X - centres[classes]) ** 2).sum(axis=1)
    return Case(X * units, clean * units, graph, shape, n_classes, odd, known)


def _places(
    kind: str, n_classes: int, rng: np.random.Generator
) -> tuple[Any, np.ndarray, tuple[int, ...] | None]:
    """A graph, the class of each node, and the shape of a grid."""
    shares = LEAST_SHARE + (1 - n_classes * LEAST_SHARE) * rng.dirichlet(np.full(n_classes, 2.0))
    if kind == "series":
        order = np.concatenate([rng.permutation(n_classes) for _ in range(3)])
        order = order[np.append(True, np.diff(order) != 0)]
        classes = np.repeat(order, rng.integers(SHORTEST, LONGEST, size=len(order)))
        return chain(len(classes)), classes, None
    if kind == "grid":
        shape = (int(rng.integers(20, 50)), int(rng.integers(40, 60)))
        edges = np.round(np.cumsum(shares)[:-1] * shape[1])
        classes = np.broadcast_to(np.digitize(np.arange(shape[1]), edges), shape).ravel()
        return grid(shape), classes, shape
    places = rng.random((int(rng.integers(400, 1000)), 2))
    slanted = places[:, 0] + 0.3 * places[:, 1]
    classes = np.digitize(slanted, np.quantile(slanted, np.cumsum(shares)[:-1]))
    graph = knn_graph(places, 6)
    return graph, _as_neighbours(classes, _beside(graph, len(classes))), None


def _as_neighbours(classes: np.ndarray, beside: list[list[int]]) -> np.ndarray:
    """Every node in the class of most of its neighbours: none but the planted ones is odd in its context."""
    for _ in range(30):
        counts = np.array([np.bincount(classes[near], minlength=classes.max() + 1) for near in beside])
        is_most = counts.max(axis=1) > counts.sum(axis=1) / 2
        classes = np.where(is_most, counts.argmax(axis=1), classes)
    return classes


def _beside(graph: Grid | Any, n_nodes: int) -> list[list[int]]:
    beside: list[list[int]] = [[] for _ in range(n_nodes)]
    for one, other in graph.edges().tolist():
        beside[one].append(other)
        beside[other].append(one)
    return beside


def _inside(classes: np.ndarray, beside: list[list[int]]) -> np.ndarray:
    """Nodes that are of one class with their neighbours and the neighbours of these."""
    wide = [{second for first in near for second in beside[first]} for near in beside]
    return np.array([i for i, near in enumerate(wide) if len(set(classes[list(near)])) == 1])


def _centres(n_classes: int, n_columns: int, gap: float, rng: np.random.Generator) -> np.ndarray:
    while True:
        centres = rng.normal(size=(n_classes, n_columns))
        apart = np.sqrt(((centres[:, None] - centres[None]) ** 2).sum(axis=2))[np.triu_indices(n_classes, 1)]
        if apart.max() < 3 * apart.min():
            return centres * gap / apart.min()


def _noise(n_nodes: int, n_columns: int, rng: np.random.Generator) -> np.ndarray:
    """Of variance 1 in each column; in half of the cases, columns go together."""
    noise = rng.normal(size=(n_nodes, n_columns))
    if rng.random() < 0.5:
        return noise
    return np.sqrt(0.5) * (noise + rng.normal(size=(n_nodes, 1)) * rng.choice([-1, 1], size=n_columns))
