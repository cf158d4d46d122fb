"""What a node should have, by its class or by its neighbours: whichever tells more of a column.

Classes cut what changes smoothly from place to place (heights, temperatures, prices) into steps, and a node
that its neighbours contradict may still be ordinary for its class. So each column is predicted in three ways:

- "class": by the centre c of the class;
- "both": by c + λ·m, where m is the middle (median) of what the neighbours are off their own classes;
- "neighbours": by the middle of the neighbours' values.

The way is taken for which the errors of all nodes are the likeliest under a Cauchy law, which hears of narrow
errors and of long tails alike; the neighbours must gain something over the class alone. A node scores
Σ_j (error_j / spread_j)², and each column has its own term of the sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.arrays import spread_evenly
from tellwhy.core.params import Fit
from tellwhy.core.score import Floats, Integers
from tellwhy.data.graphs import EdgeGraph, Graph
from tellwhy.detectors import LCCAD
from tellwhy.detectors.lccad.theta import spread_of
from tellwhy.detectors.map_inference.field import Labels

WAYS = ("class", "both", "neighbours")
GAIN = 0.05  # of the log likelihood of a node, that neighbours must bring
FEWEST = 50  # nodes with neighbours, to learn from
FEW_VALUES = 10  # a column of no more is a code, of which a middle says nothing
SAMPLE = 200_000  # nodes that are learned from, at most
LEAST_SPREAD = 1e-6
_ROUNDS = 10
_BATCH = 2**20  # nodes of a grid at once


@dataclass(frozen=True, eq=False)
class NeighbourLaw:
    """How each column is predicted, and how far it is off.

    Attributes
    ----------
    ways
        One of `WAYS` for each column.
    slopes
        λ of each column.
    spreads
        Spread of the errors of each column.
    """

    ways: tuple[str, ...]
    slopes: Floats
    spreads: Floats

    def measure(self, X: NDArray[Any], graph: Graph, labels: Labels, centres: Floats) -> Floats:
        """Return (error / spread)² of each node in each column; 0 for nodes that are missing."""
        parts = np.zeros(X.shape)
        there = labels >= 0
        for j, way in enumerate(self.ways):
            expected = _predict(way, X[:, j], centres[labels, j], graph, float(self.slopes[j]))
            error = X[:, j].astype(np.float64) - expected
            parts[there, j] = (error[there] / self.spreads[j]) ** 2
        return parts

    def list_columns(self) -> Integers:
        """Columns in which neighbours are asked."""
        return np.flatnonzero([way != "class" for way in self.ways])

    def _require(self) -> Iterator[Fit]:
        yield "ways", set(self.ways) <= set(WAYS), True
        yield "slopes", self.slopes.shape, (len(self.ways),)
        yield "spreads", self.spreads.shape, (len(self.ways),)
        yield "spreads", bool((self.spreads > 0).all()), True


def learn_law(X: NDArray[Any], graph: Graph, classes: LCCAD) -> NeighbourLaw | None:
    """Learn how the columns of nodes are best predicted; None where neighbours add nothing to the classes."""
    labels = classes.labels_
    usable = np.flatnonzero((labels >= 0) & (graph.degrees() > 0))
    if len(usable) < FEWEST:
        return None
    some = usable[spread_evenly(len(usable), SAMPLE)]
    found = [_learn_column(X[:, j], classes.centres_[labels, j], graph, some) for j in range(X.shape[1])]
    if all(way == "class" for way, _, _ in found):
        return None
    return NeighbourLaw(
        tuple(way for way, _, _ in found),
        np.array([slope for _, slope, _ in found]),
        np.array([spread for _, _, spread in found]),
    )


def _learn_column(x: NDArray[Any], centre: Floats, graph: Graph, some: Integers) -> tuple[str, float, float]:
    """The best way to predict a column, its slope, and the spread of its errors."""
    own = x.astype(np.float64) - centre
    plain = max(_spread(own[some]), LEAST_SPREAD)
    if len(np.unique(x[some][:1000])) <= FEW_VALUES:
        return "class", 0.0, plain
    middle = find_middle_of_neighbours(own, graph)
    slope = _fit_slope(own[some], middle[some])
    beside = x.astype(np.float64) - find_middle_of_neighbours(x.astype(np.float64), graph)
    errors = {"both": (own - slope * middle)[some], "neighbours": beside[some]}
    best, way = min((_cost(error), way) for way, error in errors.items())
    if _cost(own[some]) - best < GAIN:
        return "class", 0.0, plain
    return way, slope, max(_spread(errors[way]), LEAST_SPREAD * plain)


def _predict(way: str, x: NDArray[Any], centre: Floats, graph: Graph, slope: float) -> Floats:
    if way == "class":
        return centre
    if way == "both":
        middle = find_middle_of_neighbours(x.astype(np.float64) - centre, graph)
        return centre + slope * np.where(np.isnan(middle), 0.0, middle)
    middle = find_middle_of_neighbours(x.astype(np.float64), graph)
    return np.where(np.isnan(middle), centre, middle)


def find_middle_of_neighbours(values: Floats, graph: Graph) -> Floats:
    """Return the median of the neighbours of each node, NaN for one without any.

    Examples
    --------
    >>> from tellwhy.data.graphs import chain
    >>> find_middle_of_neighbours(np.array([1.0, 5.0, 2.0, 9.0]), chain(4))
    array([5. , 1.5, 7. , 2. ])
    """
    if isinstance(graph, EdgeGraph):
        return _find_middle_of_lists(values, graph)
    box = graph.box
    field = np.where(graph.mask, values, np.nan) if graph.mask is not None else values
    padded = np.pad(field.reshape(box), 1, constant_values=np.nan)
    found = np.empty(box)
    planes = max(_BATCH // (box[1] * box[2]), 1)
    for start in range(0, box[0], planes):
        end = min(start + planes, box[0])
        around = [
            padded[1 + start + z : 1 + end + z, 1 + y : 1 + y + box[1], 1 + x : 1 + x + box[2]]
            for z, y, x in graph.steps.tolist()
        ]
        found[start:end] = _find_middle(np.stack(around))
    return found.ravel()


def _find_middle(stack: Floats) -> Floats:
    """Median along the first axis of what is not NaN."""
    ordered = np.sort(stack, axis=0)  # NaN comes last
    counts = (~np.isnan(ordered)).sum(axis=0)
    low = np.take_along_axis(ordered, np.maximum(counts - 1, 0)[None] // 2, axis=0)[0]
    high = np.take_along_axis(ordered, np.minimum(counts // 2, len(ordered) - 1)[None], axis=0)[0]
    return np.where(counts > 0, (low + high) / 2, np.nan)


def _find_middle_of_lists(values: Floats, graph: EdgeGraph) -> Floats:
    counts = graph.degrees()
    owner = np.repeat(np.arange(graph.n_nodes), counts)
    beside = values[graph.indices]
    ordered = beside[np.lexsort((beside, owner))]
    found = np.full(graph.n_nodes, np.nan)
    has = np.flatnonzero(counts > 0)
    start = graph.indptr[has]
    found[has] = (ordered[start + (counts[has] - 1) // 2] + ordered[start + counts[has] // 2]) / 2
    return found


def _spread(error: Floats) -> float:
    return float(spread_of(error[:, None])[0])


def _fit_slope(own: Floats, middle: Floats) -> float:
    """λ between 0 and 1 by which neighbours predict, by least squares in which far-off nodes count little."""
    slope = 0.0
    weights = np.minimum(1.0, 3 * _spread(own) / np.maximum(np.abs(own), 1e-300))
    for _ in range(_ROUNDS):
        total = float((weights * middle**2).sum())
        slope = float((weights * own * middle).sum() / total) if total > 0 else 0.0
        error = own - slope * middle
        weights = np.minimum(1.0, 1.5 * _spread(error) / np.maximum(np.abs(error), 1e-300))
    return float(np.clip(slope, 0.0, 1.0))


def _cost(error: Floats) -> float:
    """Mean negative log likelihood under a Cauchy law of the best width, but for a constant."""
    width = _spread(error)
    if width <= 0:
        return np.inf
    tried = [width * factor for factor in (0.35, 0.5, 0.7, 1.0, 1.4)]
    return min(float(np.log(w) + np.log1p((error / w) ** 2).mean()) for w in tried)
