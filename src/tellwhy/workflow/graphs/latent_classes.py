"""Latent classes that neighbours share, fitted to the nodes of a grid, a sequence or a graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.params import generator
from tellwhy.core.score_function import Floats
from tellwhy.data.graphs import Graph
from tellwhy.detectors import LCCAD, suggest_lccad
from tellwhy.detectors.lccad.weight import middle_part, spread_of
from tellwhy.workflow.graphs.graph_input import GraphRequest, NodeData

MOST_CLASSES = 5
NODES_OF_A_CLASS = 4  # at least, on average, of as many classes as are tried
SAME = 1.1  # times as wide as before, within the classes, columns are taken to be as they were
_ROUNDS = 4  # of counting classes and of measuring how wide columns are within them


def fit_latent_classes(nodes: NodeData, request: GraphRequest) -> tuple[NodeData, LCCAD]:
    """Fit twice: with columns of equal spread, then of equal spread within the classes that were found.

    A column that tells the classes apart has most of its spread between them: what is odd within a class
    would hardly count. Returns the nodes with the columns as they were fitted last, and the model.
    """
    n_classes = request.n_classes
    scale = np.ones(nodes.X.shape[1])
    if n_classes is None:
        n_classes, scale = _counted(*middle_part(nodes.X, nodes.graph), request)
    first = _fitted(nodes.X / scale.astype(nodes.X.dtype), nodes.graph, n_classes, request)
    again = _spread(first)
    scale = (scale * again).astype(nodes.X.dtype)
    nodes = replace(nodes, X=nodes.X / scale)
    # From the classes that were found on: in other units, k-means might start elsewhere.
    return nodes, _fitted(nodes.X, nodes.graph, n_classes, request, init=first.centres_ / again)


def _counted(X: NDArray[Any], graph: Graph, request: GraphRequest) -> tuple[int, Floats]:
    """Number of classes, and the spread of columns within them by which it was found.

    Columns of equal spread over all nodes hide classes that one column tells and others do not. Classes that
    were found tell the spread within them, and with columns of equal spread there more may be found. The
    criterion by which numbers of classes are compared is that of a density: in other units it is another one
    by a known number, so that all rounds can be compared.
    """
    most = min(MOST_CLASSES, max(1, len(X) // NODES_OF_A_CLASS))
    n_nodes = len(X) if graph.mask is None else int(graph.mask.sum())
    scale = np.ones(X.shape[1])
    best = np.inf
    chosen = (1, scale)
    for _ in range(_ROUNDS):
        scaled = X / scale.astype(X.dtype)
        found = suggest_lccad(scaled, graph, max_classes=most, random_state=request.random_state)
        criterion = min(c.criterion for c in found.candidates) + 2 * n_nodes * float(np.log(scale).sum())
        if criterion >= best:
            break
        best = criterion
        chosen = (found.n_classes, scale)
        again = _spread(_fitted(scaled, graph, found.n_classes, request))
        if again.max() <= SAME * again.min():
            break
        scale = scale * again
    return chosen


def _spread(model: LCCAD) -> Floats:
    """Spread of each column within the classes; 1 for columns that have none."""
    there = model.labels_ >= 0
    spread = spread_of(model.training_X_[there] - model.centres_[model.labels_[there]])
    return np.where(spread > 0, spread, 1.0)


def _fitted(X: NDArray[Any], graph: Graph, n_classes: int, request: GraphRequest, **start: Any) -> LCCAD:
    theta: str | float = "auto" if request.theta is None else request.theta
    seed = int(generator(request.random_state).integers(2**31 - 1))
    return LCCAD(n_classes, theta, random_state=seed, **start).fit(X, graph)
