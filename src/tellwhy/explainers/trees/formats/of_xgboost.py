"""XGBoost's boosted trees, read from the JSON that a booster writes of itself."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.score_function import Floats
from tellwhy.explainers.trees.formats.rows import TableRows
from tellwhy.explainers.trees.model import LEFT, RIGHT, RawTree, Trees, join_trees
from tellwhy.scoring.model_rows import ensure_fitted

_LOGISTIC = ("binary:logistic", "reg:logistic", "binary:logitraw")
_LOG = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft")
_CLASSES = ("binary:", "multi:")


def estimator(model: Any) -> Trees:
    """XGBClassifier, XGBRegressor and the others of the scikit-learn kind."""
    ensure_fitted(model)
    classes = getattr(model, "classes_", None)
    stop = int(model._get_iteration_range(None)[1])  # early stopping: as many rounds as `predict` uses
    names = getattr(model, "feature_names_in_", None) if model.get_booster().feature_names else None
    trees = read(
        json.loads(model.get_booster().save_raw("json")),
        name=type(model).__name__,
        classes=None if classes is None else np.asarray(classes).tolist(),
        names=None if names is None else [str(n) for n in names],
        rounds=stop or None,
    )
    return replace(
        trees,
        read=replace(trees.read, empty=float(model.missing)),  # type: ignore[type-var]
        own=lambda X: model.predict(X, output_margin=True),
    )


def booster(model: Any) -> Trees:
    """Booster, as `xgboost.train` returns it."""
    trees = read(json.loads(model.save_raw("json")), names=model.feature_names)
    return replace(trees, own=lambda X: _own_margin(model, X))


def _own_margin(model: Any, X: Any) -> Any:
    """What a booster says of rows; XGBoost is loaded, for the booster is one of its objects."""
    rows = sys.modules["xgboost"].DMatrix(X, feature_names=model.feature_names, enable_categorical=True)
    return model.predict(rows, output_margin=True)


def read(
    saved: dict[str, Any],
    *,
    name: str = "XGBoost",
    classes: list[Any] | None = None,
    names: list[str] | None = None,
    rounds: int | None = None,
) -> Trees:
    """Return the trees of a model that XGBoost saved as JSON."""
    learner = saved["learner"]
    grown = _trees_of(learner)
    n_trees = int(grown["iteration_indptr"][rounds or -1])
    weights = _drop_weights(learner, n_trees)
    kept = zip(grown["trees"][:n_trees], weights, strict=True)
    nodes, value = join_trees([_raw(tree, weight) for tree, weight in kept])
    n_columns = int(learner["learner_model_param"]["num_feature"])
    objective = str(learner["objective"]["name"])
    base = _base(learner, objective)
    names = names or list(learner.get("feature_names", [])) or None
    return Trees(
        nodes=nodes,
        value=value,
        output_of=np.asarray(grown["tree_info"][:n_trees], dtype=np.int64),
        base=base,
        n_columns=n_columns,
        names=names,
        read=TableRows(n_columns, names, single=True, categories=_categories(grown), refuses=name),
        unstored=np.nan,  # XGBoost takes the zeros that a sparse matrix leaves out for empty cells
        **_meaning(objective, name, classes, len(base)),
    )


def _trees_of(learner: dict[str, Any]) -> dict[str, Any]:
    kind = learner["gradient_booster"]["name"]
    if kind not in ("gbtree", "dart"):
        raise UnsupportedModel(
            f"This XGBoost model is a {kind!r}, which has no trees (expected gbtree or dart)."
        )
    grown: dict[str, Any] = learner["gradient_booster"]
    grown = grown["gbtree"]["model"] if kind == "dart" else grown["model"]
    if any(int(tree["tree_param"].get("size_leaf_vector", 1)) > 1 for tree in grown["trees"]):
        raise UnsupportedModel(
            "The leaves of this XGBoost model hold one value per output (multi_strategy is "
            "'multi_output_tree'). Fit it with multi_strategy='one_output_per_tree' to explain it."
        )
    return grown


def _drop_weights(learner: dict[str, Any], n_trees: int) -> Floats:
    """Factor of each tree: 1, or what dropout (DART) made of it."""
    dropped = learner["gradient_booster"].get("weight_drop")
    return (
        np.ones(n_trees)
        if dropped is None
        else np.asarray(dropped, dtype=np.float32).astype(np.float64)[:n_trees]
    )


def _raw(tree: dict[str, Any], weight: float) -> RawTree:
    left = np.asarray(tree["left_children"], dtype=np.int64)
    right = np.asarray(tree["right_children"], dtype=np.int64)
    condition = np.asarray(tree["split_conditions"], dtype=np.float32)
    is_set = np.asarray(tree["split_type"]) == 1
    sets = {
        int(node): np.asarray(tree["categories"][start : start + size], dtype=np.int64)
        for node, start, size in zip(
            tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True
        )
    }
    # Categories of a set go right there, and left here: children are exchanged. An empty cell stays with its
    # child.
    empties_left = (np.asarray(tree["default_left"]) != 0) != is_set
    return RawTree(
        feature=np.asarray(tree["split_indices"], dtype=np.int64),
        # a cell goes left there when it is less than the threshold, here when it is at most the number before
        threshold=np.nextafter(condition, np.float32(-np.inf), dtype=np.float32).astype(np.float64),
        left=np.where(is_set, right, left),
        right=np.where(is_set, left, right),
        cover=np.asarray(tree["sum_hessian"], dtype=np.float32).astype(np.float64),
        value=condition.astype(np.float64) * weight,  # a leaf keeps its value in the place of the condition
        missing=np.where(empties_left, LEFT, RIGHT),
        sets=sets,
    )


def _base(learner: dict[str, Any], objective: str) -> Floats:
    """What is added to the trees, one number per output."""
    stored = learner["learner_model_param"]
    score = np.atleast_1d(np.asarray(json.loads(stored["base_score"].lower()), dtype=np.float64))
    n_outputs = max(int(stored["num_class"]), int(stored["num_target"]), 1)
    if objective in _LOGISTIC:
        score = np.log(score / (1.0 - score))
    elif objective in _LOG:
        score = np.log(score)
    # the library adds it in single precision
    return np.broadcast_to(score.astype(np.float32).astype(np.float64), (n_outputs,)).copy()


def _meaning(objective: str, name: str, classes: list[Any] | None, n_outputs: int) -> dict[str, Any]:
    """What the outputs of a model are."""
    if objective.startswith(_CLASSES):
        link = "softmax" if n_outputs > 1 else "logistic"
        classes = classes or list(range(max(n_outputs, 2)))
        explains = f"the margin (log-odds) of a class by {name}"
        return {"explains": explains, "task": "classification", "link": link, "classes": classes}
    if objective in _LOG:
        return {
            "explains": f"the logarithm of the prediction of {name}",
            "task": "regression",
            "link": "exp",
        }
    if objective == "reg:logistic":
        return {
            "explains": f"the log-odds of the prediction of {name}",
            "task": "regression",
            "link": "logistic",
        }
    return {"explains": f"the prediction of {name}", "task": "regression"}


def _categories(grown: dict[str, Any]) -> dict[int, list[Any]]:
    """For each column of categories what its codes stand for, where the model recorded it."""
    found: dict[int, list[Any]] = {}
    for column, coded in enumerate(grown.get("cats", {}).get("enc", [])):
        offsets = coded.get("offsets")
        values = coded["values"]
        if offsets is not None and len(offsets):  # texts, one after the other in bytes
            found[column] = [_text(values[a:b]) for a, b in pairwise(offsets)]
        elif len(values):
            found[column] = list(values)
    return found


def _text(codes: list[int]) -> str:
    return bytes(int(code) % 256 for code in codes).decode()
