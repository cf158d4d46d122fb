"""What a saved `LCCAD` is made of: its graph, the scores of its classes, and how they must fit together."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.data.graphs import chain, grid
from tellwhy.data.graphs.kinds import EdgeGraph, Grid
from tellwhy.detectors.lccad.class_scores import ClassScores
from tellwhy.detectors.lccad.lccad import LCCAD
from tellwhy.storage.codec import Fit, Part, by_name


def _without_missing(model: LCCAD) -> LCCAD:
    """Return the model with zeros for rows of missing nodes, which may hold anything and are never read."""
    mask = model.graph_.mask
    if mask is None:
        return model
    kept = copy(model)
    kept.training_X_ = np.where(mask[:, None], model.training_X_, 0)
    return kept


def _model(model: LCCAD) -> Iterator[Fit]:
    """Check everything that compiled code walks along, then label and score one node."""
    n, d = model.training_X_.shape
    K = int(model.n_classes)
    there = np.ones(n, dtype=bool) if model.graph_.mask is None else model.graph_.mask
    width = d if model.transformer_ is None else model.transformer_.map_.n_features
    n_emissions = width if model.model == "crf" else 0
    yield "n_features_in_", model.n_features_in_, d
    yield "graph_", model.graph_.n_nodes, n
    yield "labels_", model.labels_.shape, (n,)
    yield "labels_", _are_labels(model.labels_, there, K), True
    yield "centres_", model.centres_.shape, (K, width)
    yield "scores_.centres", model.scores_.centres.shape, (K, width)
    yield "scores_.expansions", len(model.scores_.expansions or range(K)), K
    yield "squared_radii_", model.squared_radii_.shape, (K,)
    yield "class_sizes_", model.class_sizes_.shape, (K,)
    yield "couplings_", model.couplings_.shape, (K, K)
    yield "emissions_", model.emissions_.shape, (K, n_emissions + 1)
    yield "middle_", np.shape(model.middle_), (d,) if model.transformer_ is None else ()
    first = model.training_X_[there][:1]  # a node that is there, with a row that is close to the data
    yield "predict", model.predict(first).shape, (1,)
    own = model.scores_.own(first, model.labels_[there][:1], is_training=False)
    yield "scores_", own.shape, (1,)


def _are_labels(labels: NDArray[Any], there: NDArray[np.bool_], n_classes: int) -> bool:
    """Whether exactly the nodes that are there have a class, and one that exists."""
    return bool(((labels >= 0) == there).all() and (labels < n_classes).all())


def _grid(graph: Grid) -> Iterator[Fit]:
    # Made anew from what the file says: its own checks then hold, and the two must agree.
    made: Any = chain(graph.shape[0]) if len(graph.shape) == 1 else grid(graph.shape, graph.neighbours)
    yield "neighbours", graph.neighbours, made.neighbours
    yield "mask", _is_mask(graph.mask, made.n_nodes), True


def _edge_graph(graph: EdgeGraph) -> Iterator[Fit]:
    n_nodes = graph.n_nodes
    for name, array in (("indptr", graph.indptr), ("indices", graph.indices), ("reverse", graph.reverse)):
        yield name, (array.ndim, array.dtype), (1, np.dtype(np.int64))
    n_entries = len(graph.indices)
    sizes = np.diff(graph.indptr)
    yield "indptr", len(graph.indptr), n_nodes + 1
    yield "indptr", (graph.indptr[0], graph.indptr[-1]), (0, n_entries)
    yield "indptr", bool((sizes >= 0).all()), True
    yield "reverse", len(graph.reverse), n_entries
    yield "indices", _are_places(graph.indices, n_nodes), True
    yield "reverse", _are_places(graph.reverse, n_entries), True
    # Each edge is listed at both of its ends, and `reverse` says where its other entry is.
    owners = np.repeat(np.arange(n_nodes), sizes)
    yield "reverse", bool((owners[graph.reverse] == graph.indices).all()), True
    yield "indices", bool((graph.indices[graph.reverse] == owners).all()), True
    yield "mask", _is_mask(graph.mask, n_nodes), True


def _are_places(numbers: NDArray[np.int64], n: int) -> bool:
    return bool(((numbers >= 0) & (numbers < n)).all())


def _is_mask(mask: NDArray[Any] | None, n: int) -> bool:
    return mask is None or (mask.shape == (n,) and mask.dtype == np.bool_ and bool(mask.any()))


def _class_scores(scores: ClassScores) -> Iterator[Fit]:
    yield "centres", scores.centres.ndim, 2


LCCAD_PART = Part(LCCAD, _model, written=_without_missing)
LCCAD_PARTS = by_name(
    Part(Grid, _grid),
    Part(EdgeGraph, _edge_graph),
    Part(ClassScores, _class_scores),
)
