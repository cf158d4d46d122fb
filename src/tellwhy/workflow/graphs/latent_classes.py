"""Latent classes that neighbours share, fitted to the nodes of a grid, a sequence or a graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tellwhy.core.params import generator
from tellwhy.data.graphs import Grid, chain, grid
from tellwhy.detectors import LCCAD, suggest_lccad
from tellwhy.workflow.graphs.graph_input import GraphRequest, NodeData

MOST_NODES_TO_SUGGEST_FROM = 20_000
MOST_CLASSES = 5
WITHIN_ONE_DEVIATION = 0.6827  # share of a normal variable; a few odd values do not move this quantile


def fit_latent_classes(nodes: NodeData, request: GraphRequest) -> tuple[NodeData, LCCAD]:
    """Fit twice: with columns of equal spread, then of equal spread within the classes that were found.

    A column that tells the classes apart has most of its spread between them: what is odd within a class
    would hardly count. Returns the nodes with the columns as they were fitted last, and the model.
    """
    first = _fitted(nodes, request)
    there = first.labels_ >= 0
    deviations = np.abs(nodes.X[there] - first.centres_[first.labels_[there]])
    spread = np.quantile(deviations, WITHIN_ONE_DEVIATION, axis=0)
    X = nodes.X / np.where(spread > 0, spread, 1.0).astype(nodes.X.dtype)
    nodes = replace(nodes, X=X)
    return nodes, _fitted(nodes, request)


def _fitted(nodes: NodeData, request: GraphRequest) -> LCCAD:
    """Fit with what was asked for, and with what a sample of the nodes suggests for the rest."""
    rng = generator(request.random_state)
    parameters: dict[str, Any] = {"model": "mrf", "gamma": 1.0, "random_state": int(rng.integers(2**31 - 1))}
    if request.n_classes is None or request.theta is None:
        X, graph = _sample(nodes)
        found = suggest_lccad(
            X, graph, max_classes=MOST_CLASSES, n_classes=request.n_classes, random_state=request.random_state
        )
        # θ/(2 − θ) gives distances half their weight against the context. With all of it, a single odd node
        # would be cheaper as a change of class than as an odd member of its class.
        parameters |= found.parameters | {"theta": found.theta / (2 - found.theta)}
    given = {"n_classes": request.n_classes, "theta": request.theta}
    parameters |= {name: value for name, value in given.items() if value is not None}
    return LCCAD(**parameters).fit(nodes.X, nodes.graph)


def _sample(nodes: NodeData) -> tuple[Any, Any]:
    """The middle of a large grid or chain; a graph whole."""
    graph = nodes.graph
    if not isinstance(graph, Grid) or graph.n_nodes <= MOST_NODES_TO_SUGGEST_FROM:
        return nodes.X, graph
    axes = len(graph.shape)
    side = int(MOST_NODES_TO_SUGGEST_FROM ** (1 / axes))
    block = tuple(_middle(n, side) for n in graph.shape)
    inside = np.arange(graph.n_nodes).reshape(graph.shape)[block]
    mask = None if graph.mask is None else graph.mask[inside.ravel()]
    if mask is not None and not mask.any():
        return nodes.X, graph
    smaller = chain(inside.size, mask=mask) if axes == 1 else grid(inside.shape, graph.neighbours, mask=mask)
    return nodes.X[inside.ravel()], smaller


def _middle(n: int, side: int) -> slice:
    """Up to `side` of n places, as far from one end as from the other."""
    start = max(0, (n - side) // 2)
    return slice(start, start + min(n, side))
