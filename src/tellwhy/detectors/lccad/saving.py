"""What a saved `LCCAD` is made of: its graph, the scores of its classes, and how they must fit together."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.storage.saved_models import Records
from tellwhy.data.graphs import chain, grid
from tellwhy.data.graphs.kinds import EdgeGraph, Grid
from tellwhy.detectors.lccad.class_scores import ClassScores
from tellwhy.detectors.lccad.lccad import LCCAD


def without_missing(model: LCCAD) -> LCCAD:
    """Return the model with zeros for rows of missing nodes, which may hold anything and are never read."""
    mask = model.graph_.mask
    if mask is None:
        return model
    kept = copy(model)
    kept.training_X_ = np.where(mask[:, None], model.training_X_, 0)
    return kept


def try_out(model: LCCAD) -> None:
    """Label and score one node, after checking everything that compiled code walks along."""
    n, d = model.training_X_.shape
    K = int(model.n_classes)
    there = np.ones(n, dtype=bool) if model.graph_.mask is None else model.graph_.mask
    width = d if model.transformer_ is None else model.transformer_.map_.n_features
    shapes = {
        "n_features_in_": (model.n_features_in_, d),
        "graph_": (model.graph_.n_nodes, n),
        "labels_": (model.labels_.shape, (n,)),
        "labels of nodes": (bool(((model.labels_ >= 0) == there).all() and (model.labels_ < K).all()), True),
        "centres_": (model.centres_.shape, (K, width)),
        "scores_": (model.scores_.centres.shape, (K, width)),
        "squared_radii_": (model.squared_radii_.shape, (K,)),
        "class_sizes_": (model.class_sizes_.shape, (K,)),
        "couplings_": (model.couplings_.shape, (K, K)),
        "emissions_": (model.emissions_.shape, (K, 1 + (width if model.model == "crf" else 0))),
        "middle_": (np.shape(model.middle_), (d,) if model.transformer_ is None else ()),
        "expansions": (len(model.scores_.expansions or range(K)), K),
    }
    for part, (found, expected) in shapes.items():
        if found != expected:
            raise ValueError(f"its {part} is {found}, expected {expected}.")
    first = model.training_X_[there][:1]
    model.predict(first)
    model.scores_.own(first, model.labels_[there][:1], is_training=False)


def _is_grid(record: Grid) -> bool:
    made: Any = chain(record.shape[0]) if len(record.shape) == 1 else grid(record.shape, record.neighbours)
    return made.neighbours == record.neighbours and _is_mask(record.mask, made.n_nodes)


def _is_edge_graph(record: EdgeGraph) -> bool:
    n, starts, ends, reverse = record.n_nodes, record.indptr, record.indices, record.reverse
    if (
        any(part.dtype != np.int64 or part.ndim != 1 for part in (starts, ends, reverse))
        or len(starts) != n + 1
    ):
        return False
    sizes = np.diff(starts)
    if starts[0] != 0 or (sizes < 0).any() or not len(ends) == len(reverse) == starts[-1]:
        return False
    owners = np.repeat(np.arange(n), sizes)
    return (
        _are_places(ends, n)
        and _are_places(reverse, len(ends))
        and bool((owners[reverse] == ends).all() and (ends[reverse] == owners).all())
        and _is_mask(record.mask, n)
    )


def _are_places(numbers: NDArray[np.int64], n: int) -> bool:
    return bool(((numbers >= 0) & (numbers < n)).all())


def _is_mask(mask: NDArray[Any] | None, n: int) -> bool:
    return mask is None or (mask.shape == (n,) and mask.dtype == np.bool_ and bool(mask.any()))


RECORDS: Records = {
    "Grid": (Grid, _is_grid),
    "EdgeGraph": (EdgeGraph, _is_edge_graph),
    "ClassScores": (ClassScores, lambda record: record.centres.ndim == 2),
}
