"""What scikit-learn keeps in compiled objects: trees, trees of neighbours, losses; as arrays, and back.

Compiled loops believe what they are given: an index beyond an array reads memory that is not theirs. So
everything that such a loop follows is checked when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from tellwhy.core.errors import CannotWrite
from tellwhy.storage.codec import Fit
from tellwhy.storage.sklearn_state import unwrapped, wrapped

_LEAF = -1


@dataclass(frozen=True)
class Compiled:
    """How objects of one compiled class are taken apart and made."""

    module: str
    taken: Callable[[Any], Mapping[str, Any]]
    made: Callable[[Mapping[str, Any]], Any]
    fits: Callable[[Any], Iterator[Fit]] = lambda _: iter(())


def _columns(nodes: Any) -> dict[str, Any]:
    return {name: wrapped(np.ascontiguousarray(nodes[name]), name) for name in nodes.dtype.names}


def _records(columns: Mapping[str, Any], dtype: Any) -> Any:
    """Arrays of one length as an array of records; spare bytes are 0."""
    if set(columns) != set(dtype.names):
        raise ValueError(f"nodes have {sorted(columns)}, expected {sorted(dtype.names)}")
    held = {name: unwrapped(column) for name, column in columns.items()}
    found = np.zeros(len(next(iter(held.values()))), dtype=dtype)
    for name, column in held.items():
        if column.shape != found.shape or column.dtype != dtype[name]:
            raise ValueError(f"{name} of the nodes is {column.dtype} {column.shape}, expected {dtype[name]}")
        found[name] = column
    return found


def _tree_taken(tree: Any) -> dict[str, Any]:
    arguments = tree.__reduce__()[1]
    state = tree.__getstate__()
    return {
        "n_features": int(arguments[0]),
        "n_classes": np.asarray(arguments[1]),
        "n_outputs": int(arguments[2]),
        "max_depth": int(state["max_depth"]),
        "nodes": _columns(state["nodes"]),
        "values": state["values"],
    }


def _tree_made(held: Mapping[str, Any]) -> Any:
    from sklearn.tree._tree import NODE_DTYPE, Tree

    nodes = _records(held["nodes"], NODE_DTYPE)
    n_features = int(held["n_features"])
    is_leaf = nodes["left_child"] == _LEAF  # as the compiled loop asks: any other number is followed
    _check_children(nodes["left_child"], nodes["right_child"], is_leaf)
    feature = nodes["feature"][~is_leaf]
    if len(feature) and (feature.min() < 0 or feature.max() >= n_features):
        raise ValueError("a split of a tree is on a column that there is not")
    tree = Tree(n_features, np.asarray(held["n_classes"], dtype=np.intp), int(held["n_outputs"]))
    state = {"max_depth": int(held["max_depth"]), "node_count": len(nodes), "nodes": nodes}
    tree.__setstate__({**state, "values": held["values"]})
    return tree


def _check_children(left: Any, right: Any, is_leaf: Any) -> None:
    """A tree ends: each child comes after its parent, and is one of the nodes."""
    n = len(left)
    places = np.arange(n)[~is_leaf]
    for child in (left[~is_leaf].astype(np.int64), right[~is_leaf].astype(np.int64)):
        if n == 0 or (child <= places).any() or (child >= n).any():
            raise ValueError("the nodes of a tree do not follow one another")


def _predictor_taken(predictor: Any) -> dict[str, Any]:
    return {
        "nodes": _columns(predictor.nodes),
        "binned": predictor.binned_left_cat_bitsets,
        "raw": predictor.raw_left_cat_bitsets,
    }


def _predictor_made(held: Mapping[str, Any]) -> Any:
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    nodes = _records(held["nodes"], PREDICTOR_RECORD_DTYPE)
    _check_children(nodes["left"], nodes["right"], nodes["is_leaf"].astype(bool))
    sets = [np.asarray(held[name], dtype=np.uint32).reshape(-1, 8) for name in ("binned", "raw")]
    is_set = nodes["is_categorical"].astype(bool)
    if is_set.any() and nodes["bitset_idx"][is_set].max() >= min(map(len, sets)):
        raise ValueError("a split of a tree is on categories that there are not")
    return TreePredictor(nodes, *sets)


_METRICS = {"EuclideanDistance64": "euclidean", "ManhattanDistance64": "manhattan"}
_METRICS |= {"ChebyshevDistance64": "chebyshev", "MinkowskiDistance64": "minkowski"}


def _neighbours_taken(tree: Any) -> dict[str, Any]:
    state = tree.__getstate__()
    metric = type(state[11]).__name__
    if metric not in _METRICS:
        raise CannotWrite(f"Distances of {metric} cannot be saved; expected one of {', '.join(_METRICS)}.")
    told = {"p": float(state[11].__getstate__()[0])} if metric == "MinkowskiDistance64" else {}
    weights = None if state[12] is None else np.asarray(state[12])
    points = np.ascontiguousarray(state[0])
    return {
        "points": points,
        "leaf_size": int(state[4]),
        "metric": _METRICS[metric],
        "weights": weights,
        **told,
    }


def _neighbours_made(name: str) -> Callable[[Mapping[str, Any]], Any]:
    def made(held: Mapping[str, Any]) -> Any:
        cls = getattr(import_module("sklearn.neighbors"), name)
        if held["metric"] not in _METRICS.values():
            raise ValueError(f"{held['metric']!r} is no distance")
        more = {"p": held["p"]} if held["metric"] == "minkowski" else {}
        # Grown from the same points it is the same tree.
        return cls(
            held["points"],
            leaf_size=held["leaf_size"],
            metric=held["metric"],
            sample_weight=held["weights"],
            **more,
        )

    return made


def _loss_taken(loss: Any) -> dict[str, Any]:
    told: dict[str, Any] = (
        {"n_classes": int(loss.n_classes)} if type(loss).__name__ == "HalfMultinomialLoss" else {}
    )
    for name in ("quantile", "delta"):
        if name in vars(loss) or hasattr(loss.closs, name):
            told[name] = float(getattr(loss, name, None) or getattr(loss.closs, name))
    return told


def _loss_made(name: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda held: getattr(import_module("sklearn._loss.loss"), name)(**held)


_LOSSES = (
    "HalfBinomialLoss",
    "HalfMultinomialLoss",
    "HalfSquaredError",
    "AbsoluteError",
    "PinballLoss",
    "HuberLoss",
    "HalfPoissonLoss",
    "HalfGammaLoss",
    "ExponentialLoss",
)
COMPILED: dict[str, Compiled] = {
    "Tree": Compiled("sklearn.tree._tree", _tree_taken, _tree_made),
    "TreePredictor": Compiled(
        "sklearn.ensemble._hist_gradient_boosting.predictor", _predictor_taken, _predictor_made
    ),
    "KDTree": Compiled("sklearn.neighbors", _neighbours_taken, _neighbours_made("KDTree")),
    "BallTree": Compiled("sklearn.neighbors", _neighbours_taken, _neighbours_made("BallTree")),
    **{name: Compiled("sklearn._loss.loss", _loss_taken, _loss_made(name)) for name in _LOSSES},
}
