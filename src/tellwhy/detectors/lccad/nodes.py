"""Nodes as they come in: one row of finite numbers for each, and a graph of as many nodes."""

from __future__ import annotations

import warnings
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellwhy.core.capabilities import Capability
from tellwhy.core.errors import DataNotice, InvalidInput, NotConverged
from tellwhy.core.rows.masked import without_mask
from tellwhy.core.score_function import Floats
from tellwhy.core.tables import check_finite
from tellwhy.data.graphs import Graph, Grid, as_graph


@runtime_checkable
class Transformer(Protocol, metaclass=Capability):
    """Makes features from rows, as scikit-learn's transformers do."""

    def fit(self, X: ArrayLike) -> Any:
        """Learn from rows."""
        ...

    def transform(self, X: ArrayLike) -> Any:
        """Return one line of features per row."""
        ...


def checked_nodes(X: ArrayLike, graph: Any, names: list[str] | None) -> tuple[NDArray[Any], Graph]:
    """Return rows as finite floats (missing nodes aside) and a graph of as many nodes."""
    rows = _as_rows(X, graph)
    checked = as_graph(graph, len(rows))
    try:
        check_finite(rows_there(rows, checked), names)
    except InvalidInput as error:
        raise InvalidInput(
            f"{error} Or mask those nodes: graph(…, mask=~np.isnan(X).any(axis=1))."
        ) from error
    return rows, checked


def rows_there(rows: NDArray[Any], graph: Graph) -> NDArray[Any]:
    """Return the rows of nodes that are not missing."""
    return rows if graph.mask is None else rows[graph.mask]


def middle_of(rows: NDArray[Any], graph: Graph) -> Floats:
    """Mean of the rows, after checking that squared distances from it stay finite."""
    present = rows_there(rows, graph)
    middle = present.mean(axis=0, dtype=np.float64)
    reach = max(float(present.max()), -float(present.min()))
    # A margin of 1e4 below the root of the largest number leaves room for sums over many columns.
    if not reach < np.sqrt(float(np.finfo(rows.dtype).max)) / 1e4:
        raise InvalidInput(
            f"X holds values up to {reach:.1e}, whose squared distances leave the range of {rows.dtype}. "
            "Scale the columns first, for example with a StandardScaler."
        )
    return np.asarray(middle)


def node_features(
    transformer: Transformer | None, middle: Floats | float, rows: NDArray[Any], graph: Graph
) -> NDArray[Any]:
    """φ of each row: the row itself, centred, or what a transformer makes of it; 0 for missing nodes."""
    present = rows_there(rows, graph)
    if transformer is None:
        found = present - np.asarray(middle, dtype=rows.dtype)
    else:
        found = np.asarray(transformer.transform(present))
    if graph.mask is None:
        return found
    features = np.zeros((len(rows), found.shape[1]), dtype=found.dtype)
    features[graph.mask] = found
    return features


def check_enough_nodes(n_nodes: int, n_classes: int) -> None:
    """Raise if there are more classes than nodes."""
    if n_classes > n_nodes:
        raise InvalidInput(
            f"n_classes={n_classes} needs as many nodes; there are {n_nodes}. Take fewer classes."
        )


def warn_of_empty_classes(n_used: int, n_classes: int) -> None:
    """Say that fewer classes were found than asked for."""
    if n_used < n_classes:
        warnings.warn(
            f"Only {n_used} of {n_classes} classes have nodes: the couplings outweigh the distances. "
            "Raise theta, take fewer classes, or ask tellwhy.detectors.suggest_lccad for both.",
            NotConverged,
            stacklevel=3,
        )


def warn_of_emissions(model: str) -> None:
    """Say that the paper's model makes little of the graph."""
    if model == "crf":
        warnings.warn(
            "model='crf' learns linear scores that repeat the classes it starts from, so that the graph adds "
            "little; model='mrf', the default, finds what is odd beside its neighbours.",
            DataNotice,
            stacklevel=3,
        )


def warn_of_lonely_nodes(graph: Graph) -> None:
    """Say that some nodes, but not all, have no neighbours."""
    if isinstance(graph, Grid):  # its nodes have neighbours, but for gaps
        return
    alone = graph.degrees() == 0
    n_alone = int((alone if graph.mask is None else alone & graph.mask).sum())
    if 0 < n_alone < graph.n_nodes:  # a graph without any edges is meant to be one
        warnings.warn(
            f"{n_alone} of {graph.n_nodes} nodes have no neighbours: only their values tell their class.",
            DataNotice,
            stacklevel=3,
        )


def _as_rows(X: ArrayLike, graph: Any) -> NDArray[Any]:
    """Return one row per node; float32 stays float32, which halves the memory of large grids."""
    raw = np.asarray(without_mask(X))
    if isinstance(graph, Grid) and raw.ndim == len(graph.shape) + 1 and raw.shape[:-1] == graph.shape:
        raw = raw.reshape(graph.n_nodes, raw.shape[-1])
    if raw.ndim != 2 or 0 in raw.shape:
        raise InvalidInput(
            "X must have one row per node and at least one column: shape (n, d), or (*shape, d) for a grid. "
            f"Got {raw.shape}."
        )
    if raw.dtype in (np.float32, np.float64):
        return raw
    if np.iscomplexobj(raw):
        raise InvalidInput(f"Complex data not supported: X has dtype {raw.dtype}; expected real numbers.")
    try:
        return raw.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"X cannot be read as numbers ({error}). Encode text and categories first."
        ) from error
