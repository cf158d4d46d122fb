"""XGBoost's boosted trees, read from the JSON or UBJSON that a booster writes of itself, or from saved files.

UBJSON is Universal Binary JSON: numbers after a letter that tells their type. Files of LightGBM are told
apart here too; neither library is needed.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tellwhy.core.errors import UnreadableFile, UnsupportedModel
from tellwhy.core.score import Floats
from tellwhy.explainers.trees import of_lightgbm
from tellwhy.explainers.trees.trees import LEFT, RIGHT, RawTree, TableRows, Trees, join_trees
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
    grown = _list_trees_of(learner)
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


def _list_trees_of(learner: dict[str, Any]) -> dict[str, Any]:
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


_NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_CONSTANTS = {"Z": None, "T": True, "F": False}
_DEEPEST = 64  # levels of objects inside each other; models have a dozen


def decode(content: bytes) -> Any:
    r"""Return what the bytes hold: dictionaries, lists, arrays, texts and numbers.

    Examples
    --------
    >>> decode(b"{U\x01aSU\x02hiU\x01b[$U#U\x02\x07\x08}")
    {'a': 'hi', 'b': array([7, 8], dtype=uint8)}
    """
    return _Reader(content).value(0)


class _Reader:
    """Goes through the bytes once, from the beginning to the end."""

    def __init__(self, content: bytes):
        self._content = content
        self._at = 0

    def value(self, depth: int, kind: str | None = None) -> Any:
        """Read one value, of a kind that was told before, or after the letter of its own."""
        if depth > _DEEPEST:
            raise self._report_broken("objects inside each other without end")
        kind = self._read_letter() if kind is None else kind
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind in _NUMBERS:
            return self._numbers(kind, 1)[0].item()
        if kind == "S":
            return self._text()
        if kind == "{":
            return self._object(depth)
        if kind == "[":
            return self._array(depth)
        raise self._report_broken(f"no value begins with {kind!r}")

    def _read_letter(self) -> str:
        return chr(self._bytes(1)[0])

    def _bytes(self, n: int) -> bytes:
        taken = self._content[self._at : self._at + n]
        if n < 0 or len(taken) < n:
            raise self._report_broken("it ends too early")
        self._at += n
        return taken

    def _numbers(self, kind: str, n: int) -> Any:
        dtype = np.dtype(_NUMBERS[kind])
        return np.frombuffer(self._bytes(n * dtype.itemsize), dtype=dtype).astype(dtype.newbyteorder("="))

    def _count(self) -> int:
        kind = self._read_letter()
        if kind not in "iUIlL":
            raise self._report_broken(f"a number of entries cannot begin with {kind!r}")
        return int(self._numbers(kind, 1)[0])

    def _text(self) -> str:
        return self._bytes(self._count()).decode(errors="replace")

    def _take_if_next(self, letter: str) -> bool:
        """Whether the next letter is this one, which is then taken."""
        if self._content[self._at : self._at + 1] != letter.encode():
            return False
        self._at += 1
        return True

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not self._take_if_next("}"):
            name = self._text()
            found[name] = self.value(depth + 1)
        return found

    def _array(self, depth: int) -> Any:
        kind = self._read_letter() if self._take_if_next("$") else None
        if not self._take_if_next("#"):
            found = []
            while not self._take_if_next("]"):
                found.append(self.value(depth + 1, kind))
            return found
        n = self._count()
        if kind in _NUMBERS:
            return self._numbers(kind, n)
        return [self.value(depth + 1, kind) for _ in range(n)]

    def _report_broken(self, what: str) -> UnreadableFile:
        return UnreadableFile(f"This is no XGBoost model in UBJSON: {what}, at byte {self._at:,}.")


_EXPECTED = (
    "Expected what `save_model` of XGBoost (.json, .ubj) or LightGBM (.txt) wrote. Save the model so, "
    "or pass it itself."
)


def read_saved_model(path: str | Path) -> Trees:
    """Return the trees of a saved model, told apart by how the file begins."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise UnreadableFile(f"The model file {str(path)!r} cannot be read ({error.strerror}).") from error
    try:
        return _read(content)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise UnreadableFile(
            f"{str(path)!r} is no model of trees ({type(error).__name__}: {error}). {_EXPECTED}"
        ) from error


def _read(content: bytes) -> Trees:
    if content.startswith(b"tree\n"):
        return of_lightgbm.read(content.decode())
    if not content.startswith(b"{"):
        raise ValueError("it begins like none")
    # JSON goes on with a quotation mark; in UBJSON a letter tells the type of the first name's length
    is_json = content[1:].lstrip()[:1] == b'"'
    saved: Any = json.loads(content) if is_json else decode(content)
    return read(saved)
