"""What is drawn of nodes that were judged: all of them, or the slice of a volume that holds the oddest."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest

from tellwhy.core.explanation import Explanation
from tellwhy.core.score import Floats, Integers
from tellwhy.data.graphs import Grid
from tellwhy.detectors import ClusterSVDD
from tellwhy.kinds.graph_input import NodeData
from tellwhy.results.node_picture import NodePicture

MOST_TRAINED_ON = 200_000  # rows that the isolation forest learns from


class Plane(NamedTuple):
    """What can be drawn at once."""

    nodes: Integers
    shape: tuple[int, ...]
    at: int | None  # the slice of a volume


def choose_plane(nodes: NodeData, oddest: int) -> Plane:
    """The slice of a volume that holds the oddest node, else all nodes."""
    everyone = np.arange(len(nodes.X))
    if not isinstance(nodes.graph, Grid) or len(nodes.graph.shape) == 1:
        return Plane(everyone, (len(everyone),), None)
    shape = nodes.graph.shape[-2:]
    if len(nodes.graph.shape) == 2:
        return Plane(everyone, shape, None)
    size = int(np.prod(shape))
    at = oddest // size
    return Plane(everyone[at * size : (at + 1) * size], shape, at)


def make_picture(
    nodes: NodeData,
    labels: NDArray[Any],
    scores: Floats,
    plane: Plane,
    *,
    told: Explanation,
    threshold: float,
) -> NodePicture:
    """Return what is drawn of a plane; `told` explains each of its nodes that is there."""
    shown = plane.nodes
    there = labels[shown] >= 0
    values = np.full((len(shown), nodes.frame.shape[1]), np.nan)
    values[there] = sum_by_owner(told.values, nodes)
    context = np.full(len(shown), np.nan)
    context[there] = told.extras["context"]
    return NodePicture(
        kind=nodes.kind,
        shape=plane.shape,
        at=plane.at,
        names=tuple(nodes.frame.columns),
        data=_read_numbers(nodes.frame.iloc[shown]),
        classes=labels[shown].astype(np.int64),
        scores=scores[shown],
        context=context,
        values=values,
        others=_score_by_others(nodes.X[shown], there, int(labels.max()) + 1),
        places=tuple(nodes.names(int(node)) for node in shown) if nodes.kind == "time" else (),
        all_classes=labels.astype(np.int8),
        threshold=threshold,
    )


def sum_by_owner(values: Floats, nodes: NodeData) -> Floats:
    """Sum values per encoded column over the user's columns."""
    summed = np.zeros((len(values), nodes.frame.shape[1]))
    for column, owner in enumerate(nodes.owner):
        summed[:, owner] += values[:, column]
    return summed


def _read_numbers(frame: pd.DataFrame) -> Floats:
    """Columns as numbers to draw; NaN where they are none."""
    return np.column_stack(
        [pd.to_numeric(frame[c], errors="coerce").to_numpy(np.float64) for c in frame.columns]
    )


def _score_by_others(X: NDArray[Any], there: NDArray[np.bool_], n_classes: int) -> dict[str, Floats]:
    """Scores of detectors that do not see the graph, to compare with."""
    rows = X[there].astype(np.float64)
    if len(rows) <= n_classes:
        return {}
    forest = -IsolationForest(random_state=0).fit(rows[:MOST_TRAINED_ON]).score_samples(rows)
    clusters = ClusterSVDD(n_classes, n_init=2).fit(rows).outlierness(rows)
    found = {}
    for name, scores in (("isolation forest", forest), ("ClusterSVDD", clusters)):
        found[name] = np.full(len(X), np.nan)
        found[name][there] = scores
    return found
