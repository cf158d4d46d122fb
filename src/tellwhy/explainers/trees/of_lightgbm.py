"""LightGBM's boosted trees, read from the text that a booster writes of itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.score import Floats, Integers
from tellwhy.explainers.trees.trees import (
    AS_ZERO,
    LEFT,
    RIGHT,
    ZERO_LEFT,
    ZERO_RIGHT,
    RawTree,
    TableRows,
    Trees,
    join_trees,
)
from tellwhy.scoring.model_rows import ensure_fitted

_LOG = ("poisson", "gamma", "tweedie")
_ONE_AGAINST_REST = ("binary", "cross_entropy", "multiclassova")


def estimator(model: Any) -> Trees:
    """LGBMClassifier, LGBMRegressor and the others of the scikit-learn kind."""
    ensure_fitted(model)
    classes = getattr(model, "classes_", None)
    text = model.booster_.model_to_string()  # early stopping: it writes as many rounds as `predict` uses
    trees = read(
        text,
        name=type(model).__name__,
        classes=None if classes is None else np.asarray(classes).tolist(),
        names=_names(model.booster_),
    )
    return replace(trees, own=_own_margin(model, text))


def booster(model: Any) -> Trees:
    """Booster, as `lightgbm.train` returns it."""
    text = model.model_to_string()
    trees = read(text, names=_names(model))
    return replace(trees, own=_own_margin(model, text))


def _own_margin(model: Any, text: str) -> Callable[[Any], Any] | None:
    """What the library says of rows; of a forest it gives sums, not means, and nothing to compare with."""
    return None if _is_averaged(text) else lambda X: model.predict(X, raw_score=True)


def _is_averaged(text: str) -> bool:
    return "\naverage_output\n" in text


def _names(model: Any) -> list[str] | None:
    """Names of the columns, unless LightGBM made them up."""
    return _read_given_names([str(name) for name in model.feature_name()])


def _read_given_names(names: list[str]) -> list[str] | None:
    return None if names == [f"Column_{i}" for i in range(len(names))] else names


def read(
    text: str, *, name: str = "LightGBM", classes: list[Any] | None = None, names: list[str] | None = None
) -> Trees:
    """Return the trees of a model that LightGBM saved as text."""
    head, *blocks = text.split("\n\nend of trees", maxsplit=1)[0].split("\nTree=")
    settings = dict(_settings(head))
    n_outputs = int(settings["num_tree_per_iteration"])
    factor = n_outputs / len(blocks) if _is_averaged(text) and blocks else 1.0
    nodes, value = join_trees([_raw(dict(_settings(block)), factor) for block in blocks])
    n_columns = int(settings["max_feature_idx"]) + 1
    names = names or _read_given_names(settings["feature_names"].split())
    return Trees(
        nodes=nodes,
        value=value,
        output_of=np.tile(np.arange(n_outputs), len(blocks) // n_outputs),
        base=np.zeros(n_outputs),  # LightGBM adds it to the leaves of the first trees
        n_columns=n_columns,
        names=names,
        read=TableRows(n_columns, names, categories=_categories(text, settings)),
        **_meaning(settings.get("objective", ""), name, classes, n_outputs),
    )


def _settings(block: str) -> Iterator[tuple[str, str]]:
    """Lines of the kind name=value."""
    for line in block.splitlines():
        if "=" in line:
            name, value = line.split("=", maxsplit=1)
            yield name, value


def _raw(stored: dict[str, str], factor: float) -> RawTree:
    if stored.get("is_linear", "0") == "1":
        raise UnsupportedModel(
            "The leaves of this LightGBM model hold linear models (linear_tree=True). Fit it without them."
        )
    leaf_value = _numbers(stored, "leaf_value")
    n_splits = int(stored["num_leaves"]) - 1
    if n_splits == 0:
        return _make_single_leaf(float(leaf_value[0]) * factor)
    n_leaves = n_splits + 1
    decision = _numbers(stored, "decision_type").astype(np.int64)
    padding = np.zeros(n_leaves)
    ends = np.full(n_leaves, -1)
    return RawTree(
        feature=np.concatenate([_numbers(stored, "split_feature"), padding]).astype(np.int64),
        threshold=np.concatenate([_numbers(stored, "threshold"), padding]),
        left=np.concatenate([_find_children(stored, "left_child", n_splits), ends]),
        right=np.concatenate([_find_children(stored, "right_child", n_splits), ends]),
        cover=np.concatenate([_numbers(stored, "internal_count"), _numbers(stored, "leaf_count")]),
        value=np.concatenate([np.zeros(n_splits), leaf_value * factor]),
        missing=np.concatenate([_missing(decision), padding]).astype(np.int8),
        sets=_read_sets(stored, decision),
    )


def _make_single_leaf(value: float) -> RawTree:
    return RawTree(feature=[0], threshold=[0.0], left=[-1], right=[-1], cover=[1.0], value=[value])


def _numbers(stored: dict[str, str], name: str) -> Floats:
    return np.asarray(stored[name].split(), dtype=np.float64)


def _find_children(stored: dict[str, str], name: str, n_splits: int) -> Integers:
    """Places of children: splits come first, then leaves, which LightGBM counts down from −1."""
    child = _numbers(stored, name).astype(np.int64)
    return np.where(child < 0, n_splits + ~child, child)


def _missing(decision: Integers) -> NDArray[np.int8]:
    """What splits do with empty cells: bit 1 is the side, bits 2 and 3 what counts as empty."""
    is_left = (decision >> 1) & 1 == 1
    kind = (decision >> 2) & 3
    on_numbers = np.select(
        [kind == 0, kind == 1],
        [AS_ZERO, np.where(is_left, ZERO_LEFT, ZERO_RIGHT)],
        np.where(is_left, LEFT, RIGHT),
    )
    return np.where(decision & 1 == 1, RIGHT, on_numbers).astype(np.int8)


def _read_sets(stored: dict[str, str], decision: Integers) -> dict[int, Integers]:
    """Categories that go left; the threshold of such a split is the number of its set."""
    splits = np.flatnonzero(decision & 1 == 1)
    if not len(splits):
        return {}
    bounds = _numbers(stored, "cat_boundaries").astype(np.int64)
    words = np.asarray([int(word) for word in stored["cat_threshold"].split()], dtype=np.uint32)
    # thresholds of the other splits may be too large for a whole number
    numbers = _numbers(stored, "threshold")[splits].astype(np.int64)
    found = {}
    for split, number in zip(splits, numbers, strict=True):
        part = words[bounds[number] : bounds[number + 1]]
        found[int(split)] = np.flatnonzero(np.unpackbits(part.view(np.uint8), bitorder="little"))
    return found


def _meaning(objective: str, name: str, classes: list[Any] | None, n_outputs: int) -> dict[str, Any]:
    """What the outputs of a model are."""
    kind = objective.partition(" ")[0]
    if kind.startswith("multiclass") or kind == "binary":
        link = "logistic" if kind in _ONE_AGAINST_REST else "softmax"
        classes = classes or list(range(max(n_outputs, 2)))
        explains = f"the margin (log-odds) of a class by {name}"
        return {"explains": explains, "task": "classification", "link": link, "classes": classes}
    if kind in _LOG:
        what = f"the logarithm of the prediction of {name}"
        return {"explains": what, "task": "regression", "link": "exp"}
    if kind == "cross_entropy":
        what = f"the log-odds of the prediction of {name}"
        return {"explains": what, "task": "regression", "link": "logistic"}
    return {"explains": f"the prediction of {name}", "task": "regression"}


def _categories(text: str, settings: dict[str, str]) -> dict[int, list[Any]]:
    """For each column of categories what its codes stand for, where the model was fitted on a frame."""
    marker = "\npandas_categorical:"
    if marker not in text:
        return {}
    lists = json.loads(text.rsplit(marker, 1)[1].splitlines()[0]) or []
    # LightGBM keeps one list for each such column, in their order; a column of codes has no range like [a:b]
    infos = settings.get("feature_infos", "").split(" ")
    columns = [j for j, info in enumerate(infos) if info != "none" and not info.startswith("[")]
    return dict(zip(columns, lists, strict=False))
