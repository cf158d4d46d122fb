"""What models of scikit-learn hold, as plain values, and back: words of Python, and compiled objects.

Trees, trees of neighbours and losses are compiled. Compiled loops believe what they are given: an index
beyond an array reads memory that is not theirs. So everything that such a loop follows is checked when it is
read; of estimators, too (`find_checks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from tellwhy.core.errors import CannotWrite
from tellwhy.core.params import Fit

_LEAF = -1
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, partial, np.ufunc, type)
_NUMBERS = ("float64", "float32", "int64", "int32", "uint8", "bool")


def wrap(value: Any, name: str) -> Any:
    """A value as a saved model can hold it; what only Python has becomes a small table that says what it is.

    Examples
    --------
    >>> wrap(slice(0, 3), "columns")
    {'is_a': 'slice', 'of': [0, 3, None]}
    >>> unwrap(wrap(np.array([np.nan, 1.0]), "statistics"))
    array([nan,  1.])
    """
    if isinstance(value, (np.random.RandomState, np.random.Generator)):
        return None  # the state of random numbers is of no use to a fitted model
    if isinstance(value, dict):
        return {"is_a": "dict", "of": [[wrap(k, name), wrap(v, name)] for k, v in value.items()]}
    if type(value) in (list, tuple):
        return type(value)(wrap(item, name) for item in value)
    if isinstance(value, np.ndarray):
        return _wrap_array(value, name)
    return _wrap_word(value, name)


def _wrap_word(value: Any, name: str) -> Any:
    """Slices and types of numbers; everything else as it is."""
    if isinstance(value, slice):
        return {"is_a": "slice", "of": [value.start, value.stop, value.step]}
    if isinstance(value, np.dtype):
        return {"is_a": "dtype", "of": value.name}
    if isinstance(value, type) and issubclass(value, (np.generic, float, int)):
        return {"is_a": "type", "of": np.dtype(value).name}
    if isinstance(value, partial) and value.func is check_array and not value.args:
        # The one function that scikit-learn itself puts into a model: boosting with categories.
        return {"is_a": "check_array", "of": wrap(dict(value.keywords), name)}
    if isinstance(value, _FUNCTIONS):
        raise CannotWrite(
            f"{name} is a function, which no file can hold: name the columns, the kernel or the metric, or "
            "leave it out."
        )
    return value


def _wrap_array(value: Any, name: str) -> Any:
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        # Missing categories and endless thresholds are kept as their bits.
        bits = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}")
        return {"is_a": "bits", "of": [value.dtype.name, bits]}
    if value.ndim == 2 and value.dtype.kind in "biuf" and not _is_dense(value):
        return {"is_a": "corner", "of": [_enlarge_array(value), *map(int, value.shape)]}
    is_text = all(isinstance(item, str) for item in value.ravel()) if value.dtype.kind == "O" else True
    if value.dtype.kind == "O" and not (is_text and value.ndim == 1):
        items = [wrap(item, name) for item in value.ravel().tolist()]
        return {"is_a": "objects", "of": [list(value.shape), items]}
    return value


def _is_dense(array: Any) -> bool:
    return bool(array.flags.c_contiguous or array.flags.f_contiguous)


def _enlarge_array(array: Any) -> Any:
    """A larger array, 0 elsewhere, whose first rows and columns are these, as they lay in memory.

    Products with a part of an array round otherwise than those with a copy of that part.
    """
    steps = [abs(step) // array.itemsize for step in array.strides]
    by_column = steps[0] < steps[1]
    lead = max(steps[1 if by_column else 0], array.shape[0 if by_column else 1])
    shape = (lead, array.shape[1]) if by_column else (array.shape[0], lead)
    found = np.zeros(shape, dtype=array.dtype, order="F" if by_column else "C")
    found[: array.shape[0], : array.shape[1]] = array
    return found


def unwrap(value: Any) -> Any:
    """What `wrapped` was given."""
    if type(value) in (list, tuple):
        return type(value)(unwrap(item) for item in value)
    if isinstance(value, dict):
        if set(value) != {"is_a", "of"} or value["is_a"] not in _UNWRAP:
            raise ValueError("it holds a table that is none of scikit-learn's values")
        return _UNWRAP[value["is_a"]](value["of"])
    if sparse.issparse(value):
        return sparse.csr_matrix(value)
    return value


def _read_dtype(name: Any) -> Any:
    if name not in _NUMBERS and name != "object" and not str(name).startswith("str"):
        raise ValueError(f"{name!r} is no type of numbers")
    return np.dtype(name)


def _read_objects(held: Any) -> Any:
    shape, items = held
    found = np.empty(len(items), dtype=object)
    for place, item in enumerate(items):
        found[place] = unwrap(item)
    return found.reshape(shape)


def _read_bits(held: Any) -> Any:
    name, bits = held
    if name not in ("float64", "float32", "float16") or bits.dtype.kind != "u":
        raise ValueError(f"{name!r} is no type of numbers")
    return bits.view(name)


def _check_array(held: Any) -> Any:
    told = unwrap(held)
    if not set(told) <= {"dtype", "ensure_all_finite"}:
        raise ValueError("it holds settings of check_array that no model has")
    return partial(check_array, **told)


_UNWRAP = {
    "corner": lambda held: held[0][: held[1], : held[2]],
    "check_array": _check_array,
    "dict": lambda pairs: {unwrap(key): unwrap(item) for key, item in pairs},
    "slice": lambda ends: slice(*ends),
    "dtype": _read_dtype,
    "type": lambda name: _read_dtype(name).type,
    "objects": _read_objects,
    "bits": _read_bits,
}


@dataclass(frozen=True)
class Compiled:
    """How objects of one compiled class are taken apart and made."""

    module: str
    taken: Callable[[Any], Mapping[str, Any]]
    made: Callable[[Mapping[str, Any]], Any]
    fits: Callable[[Any], Iterator[Fit]] = lambda _: iter(())


def _split_columns(nodes: Any) -> dict[str, Any]:
    return {name: wrap(np.ascontiguousarray(nodes[name]), name) for name in nodes.dtype.names}


def _join_records(columns: Mapping[str, Any], dtype: Any) -> Any:
    """Arrays of one length as an array of records; spare bytes are 0."""
    if set(columns) != set(dtype.names):
        raise ValueError(f"nodes have {sorted(columns)}, expected {sorted(dtype.names)}")
    held = {name: unwrap(column) for name, column in columns.items()}
    found = np.zeros(len(next(iter(held.values()))), dtype=dtype)
    for name, column in held.items():
        if column.shape != found.shape or column.dtype != dtype[name]:
            raise ValueError(f"{name} of the nodes is {column.dtype} {column.shape}, expected {dtype[name]}")
        found[name] = column
    return found


def _take_tree(tree: Any) -> dict[str, Any]:
    arguments = tree.__reduce__()[1]
    state = tree.__getstate__()
    return {
        "n_features": int(arguments[0]),
        "n_classes": np.asarray(arguments[1]),
        "n_outputs": int(arguments[2]),
        "max_depth": int(state["max_depth"]),
        "nodes": _split_columns(state["nodes"]),
        "values": state["values"],
    }


def _make_tree(held: Mapping[str, Any]) -> Any:
    from sklearn.tree._tree import NODE_DTYPE, Tree

    nodes = _join_records(held["nodes"], NODE_DTYPE)
    n_features = int(held["n_features"])
    n_classes = np.asarray(held["n_classes"], dtype=np.intp)
    if n_classes.shape != (held["n_outputs"],) or len(n_classes) == 0 or n_classes.min() < 1:
        raise ValueError("the classes of a tree are not those of its outputs")
    is_leaf = nodes["left_child"] == _LEAF  # as the compiled loop asks: any other number is followed
    if _measure_depth(nodes["left_child"], nodes["right_child"], is_leaf) != held["max_depth"]:
        raise ValueError("a tree is not as deep as it says")  # paths are written into room of that size
    feature = nodes["feature"][~is_leaf]
    if len(feature) and (feature.min() < 0 or feature.max() >= n_features):
        raise ValueError("a split of a tree is on a column that there is not")
    tree = Tree(n_features, n_classes, int(held["n_outputs"]))
    state = {"max_depth": int(held["max_depth"]), "node_count": len(nodes), "nodes": nodes}
    tree.__setstate__({**state, "values": held["values"]})
    return tree


def _measure_depth(left: Any, right: Any, is_leaf: Any) -> int:
    """The depth of a tree, whose nodes are each, but the first, the child of one node before them."""
    n = len(left)
    parents = np.flatnonzero(~is_leaf)
    children = np.concatenate([left[parents], right[parents]]).astype(np.int64)
    follow = (children > np.tile(parents, 2)).all()
    if n == 0 or not follow or not np.array_equal(np.sort(children), np.arange(1, n)):
        raise ValueError("the nodes of a tree do not follow one another")
    depth = 0
    level = parents[parents == 0]
    while len(level):
        depth += 1
        below = np.concatenate([left[level], right[level]]).astype(np.int64)
        level = below[~is_leaf[below]]
    return depth


def _take_predictor(predictor: Any) -> dict[str, Any]:
    return {
        "nodes": _split_columns(predictor.nodes),
        "binned": predictor.binned_left_cat_bitsets,
        "raw": predictor.raw_left_cat_bitsets,
    }


def _make_predictor(held: Mapping[str, Any]) -> Any:
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    nodes = _join_records(held["nodes"], PREDICTOR_RECORD_DTYPE)
    _measure_depth(nodes["left"], nodes["right"], nodes["is_leaf"].astype(bool))
    sets = [np.asarray(held[name], dtype=np.uint32).reshape(-1, 8) for name in ("binned", "raw")]
    is_set = nodes["is_categorical"].astype(bool)
    if is_set.any() and nodes["bitset_idx"][is_set].max() >= min(map(len, sets)):
        raise ValueError("a split of a tree is on categories that there are not")
    return TreePredictor(nodes, *sets)


_METRICS = {"EuclideanDistance64": "euclidean", "ManhattanDistance64": "manhattan"}
_METRICS |= {"ChebyshevDistance64": "chebyshev", "MinkowskiDistance64": "minkowski"}


def _take_neighbours(tree: Any) -> dict[str, Any]:
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


def _make_neighbours(name: str) -> Callable[[Mapping[str, Any]], Any]:
    def made(held: Mapping[str, Any]) -> Any:
        cls = getattr(import_module("sklearn.neighbors"), name)
        weights = held["weights"]
        if weights is not None and weights.shape != (len(held["points"]),):
            raise ValueError("points have other weights than one each")
        if held["metric"] not in _METRICS.values():
            raise ValueError(f"{held['metric']!r} is no distance")
        more = {"p": held["p"]} if held["metric"] == "minkowski" else {}
        # Grown from the same points it is the same tree.
        return cls(
            held["points"],
            leaf_size=held["leaf_size"],
            metric=held["metric"],
            sample_weight=weights,
            **more,
        )

    return made


def _take_loss(loss: Any) -> dict[str, Any]:
    told: dict[str, Any] = (
        {"n_classes": int(loss.n_classes)} if type(loss).__name__ == "HalfMultinomialLoss" else {}
    )
    for name in ("quantile", "delta"):
        if name in vars(loss) or hasattr(loss.closs, name):
            told[name] = float(getattr(loss, name, None) or getattr(loss.closs, name))
    return told


def _make_loss(name: str) -> Callable[[Mapping[str, Any]], Any]:
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
    "Tree": Compiled("sklearn.tree._tree", _take_tree, _make_tree),
    "TreePredictor": Compiled(
        "sklearn.ensemble._hist_gradient_boosting.predictor", _take_predictor, _make_predictor
    ),
    "KDTree": Compiled("sklearn.neighbors", _take_neighbours, _make_neighbours("KDTree")),
    "BallTree": Compiled("sklearn.neighbors", _take_neighbours, _make_neighbours("BallTree")),
    **{name: Compiled("sklearn._loss.loss", _take_loss, _make_loss(name)) for name in _LOSSES},
}


Fits = Callable[[Any], Iterator[Fit]]


def _check_nothing(_: Any) -> Iterator[Fit]:
    yield from ()


def _check_tree(model: Any) -> Iterator[Fit]:
    if hasattr(model, "tree_"):
        yield "tree_", model.tree_.n_features, model.n_features_in_


def _check_forest(model: Any) -> Iterator[Fit]:
    """All trees see the same columns, or those that are named for each."""
    trees = list(np.ravel(getattr(model, "estimators_", [])))
    chosen = getattr(model, "estimators_features_", None)
    if chosen is None:
        yield "estimators_", {tree.n_features_in_ for tree in trees} <= {model.n_features_in_}, True
        return
    yield "estimators_features_", len(chosen), len(trees)
    for tree, columns in zip(trees, chosen, strict=True):
        yield "estimators_features_", len(columns), tree.n_features_in_
        yield (
            "estimators_features_",
            bool((columns >= 0).all() and (columns < model.n_features_in_).all()),
            True,
        )


def _check_boosted(model: Any) -> Iterator[Fit]:
    """Stages of trees, one of each stage for each column of what the first guess gives."""
    yield from _check_forest(model)
    trees = getattr(model, "estimators_", None)
    if trees is None:
        return
    yield "estimators_", trees.ndim == 2 and trees.size > 0, True
    yield "n_trees_per_iteration_", model.n_trees_per_iteration_, trees.shape[1]
    yield "estimators_", {tree.tree_.value.shape[1:] for tree in trees.ravel()}, {(1, 1)}
    guess = model._raw_predict_init(np.zeros((1, model.n_features_in_)))
    yield "init_", guess.shape, (1, trees.shape[1])


def _check_histograms(model: Any) -> Iterator[Fit]:
    n = getattr(model, "n_features_in_", 0)
    if hasattr(model, "_bin_mapper"):
        yield "_bin_mapper", len(model._bin_mapper.is_categorical_), n
    for predictor in (tree for trees in getattr(model, "_predictors", []) for tree in trees):
        used = predictor.nodes["feature_idx"][predictor.nodes["is_leaf"] == 0]
        yield "_predictors", bool((used >= 0).all() and (used < n).all()), True
        labelled = predictor.nodes["feature_idx"][predictor.nodes["is_categorical"] != 0]
        yield "_predictors", bool(np.all(model._bin_mapper.is_categorical_[labelled])), True
        mapper = model._bin_mapper
        yield "_predictors", bool(predictor.nodes["bin_threshold"].max() <= mapper.n_bins), True


def _support_vectors(model: Any) -> Iterator[Fit]:
    if not hasattr(model, "support_"):
        return
    n = len(model.support_)
    vectors = model.support_vectors_
    yield "support_vectors_", vectors.shape, (n, model.n_features_in_)
    for name in ("_dual_coef_", "dual_coef_"):
        yield name, getattr(model, name).shape[1], n
    yield "support_", bool((model.support_ >= 0).all() and (model.support_ < model.shape_fit_[0]).all()), True
    counts = model._n_support  # of a model without classes twice that of all
    n_classes = len(getattr(model, "classes_", "ab"))
    n_pairs = n_classes * (n_classes - 1) // 2
    yield "_n_support", counts.shape, (n_classes,)
    yield "_n_support", counts.dtype, np.int32
    if hasattr(model, "classes_"):
        yield "_n_support", bool((counts >= 0).all()) and int(counts.sum(dtype=np.int64)) == n, True
    else:
        yield "_n_support", counts.tolist(), [n, n]
    yield "_intercept_", len(model._intercept_), n_pairs
    yield "_dual_coef_", len(model._dual_coef_), n_classes - 1
    for name in ("_probA", "_probB"):
        yield name, len(getattr(model, name)) in (0, n_pairs), True
    yield "_sparse", model._sparse, sparse.issparse(vectors)
    if model._sparse:  # compiled code takes their numbers alone, as if none were 0
        yield "_dual_coef_", len(model._dual_coef_.data), n * (n_classes - 1)


def _check_points(model: Any) -> Iterator[Fit]:
    rows = getattr(model, "_fit_X", None)
    if rows is not None:
        yield "_fit_X", rows.shape, (model.n_samples_fit_, model.n_features_in_)


def _check_centres(model: Any) -> Iterator[Fit]:
    centres = getattr(model, "cluster_centers_", None)
    if centres is not None:
        yield "cluster_centers_", centres.shape[1:], (model.n_features_in_,)


_BY_NAME: dict[str, Fits] = {
    **dict.fromkeys(("SVC", "SVR", "OneClassSVM"), _support_vectors),
    **dict.fromkeys(("NearestNeighbors", "LocalOutlierFactor"), _check_points),
    **dict.fromkeys(("KMeans", "MiniBatchKMeans"), _check_centres),
    **dict.fromkeys(("HistGradientBoostingClassifier", "HistGradientBoostingRegressor"), _check_histograms),
    **dict.fromkeys(
        ("DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier", "ExtraTreeRegressor"),
        _check_tree,
    ),
    **dict.fromkeys(
        (
            "RandomForestClassifier",
            "RandomForestRegressor",
            "ExtraTreesClassifier",
            "ExtraTreesRegressor",
            "IsolationForest",
        ),
        _check_forest,
    ),
    **dict.fromkeys(("GradientBoostingClassifier", "GradientBoostingRegressor"), _check_boosted),
}


def find_checks(name: str) -> Fits:
    """The checks of a class, by its name."""
    return _BY_NAME.get(name, _check_nothing)
