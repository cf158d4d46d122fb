"""Latent classes that neighbours share, fitted to the nodes of a grid, a sequence or a graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tellwhy.core.params import generator
from tellwhy.detectors import LCCAD, suggest_lccad
from tellwhy.detectors.lccad.weight import middle_part, spread_of
from tellwhy.workflow.graphs.graph_input import GraphRequest, NodeData

MOST_CLASSES = 5
NODES_OF_A_CLASS = 4  # at least, on average, of as many classes as are tried


def fit_latent_classes(nodes: NodeData, request: GraphRequest) -> tuple[NodeData, LCCAD]:
    """Fit twice: with columns of equal spread, then of equal spread within the classes that were found.

    A column that tells the classes apart has most of its spread between them: what is odd within a class
    would hardly count. Returns the nodes with the columns as they were fitted last, and the model.
    """
    first = _fitted(nodes, request)
    there = first.labels_ >= 0
    spread = spread_of(nodes.X[there] - first.centres_[first.labels_[there]])
    scale = np.where(spread > 0, spread, 1.0).astype(nodes.X.dtype)
    nodes = replace(nodes, X=nodes.X / scale)
    theta: str | float = "auto" if request.theta is None else request.theta
    # From the classes that were found on: in other units, k-means might start elsewhere.
    again = LCCAD(first.n_classes, theta, init=first.centres_ / scale, random_state=_seed(request))
    return nodes, again.fit(nodes.X, nodes.graph)


def _fitted(nodes: NodeData, request: GraphRequest) -> LCCAD:
    """Fit with what was asked for, and with what (a part of) the nodes suggest for the rest."""
    n_classes = request.n_classes
    if n_classes is None:
        X, graph = middle_part(nodes.X, nodes.graph)
        most = min(MOST_CLASSES, max(1, len(X) // NODES_OF_A_CLASS))
        found = suggest_lccad(X, graph, max_classes=most, random_state=request.random_state)
        n_classes = found.n_classes
    theta: str | float = "auto" if request.theta is None else request.theta
    return LCCAD(n_classes, theta, random_state=_seed(request)).fit(nodes.X, nodes.graph)


def _seed(request: GraphRequest) -> int:
    return int(generator(request.random_state).integers(2**31 - 1))
