"""Trees of scikit-learn: single ones, forests, boosting, isolation forests; and PyOD's isolation forest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.arrays import refuse_sparse
from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.score import Floats, Integers
from tellwhy.explainers.trees.trees import LEFT, RIGHT, RawTree, TableRows, Trees, join_trees
from tellwhy.scoring.model_rows import ensure_fitted, read_fitted_names, take_own_rows


def tree(model: Any) -> Trees:
    """A decision tree, or an extra tree."""
    ensure_fitted(model)
    return _average_trees(model, [model])


def read_forest(model: Any) -> Trees:
    """A random forest, or extra trees: the mean of their trees."""
    ensure_fitted(model)
    return _average_trees(model, model.estimators_)


def _average_trees(model: Any, estimators: Sequence[Any]) -> Trees:
    from sklearn.utils import get_tags

    is_classifier = hasattr(model, "classes_")
    if is_classifier and model.n_outputs_ > 1:
        raise UnsupportedModel(
            f"{type(model).__name__} was fitted to {model.n_outputs_} labels at once. Fit one model for each "
            "of them to explain it."
        )
    raw = [_raw(e.tree_, _compute_mean_value(e.tree_, is_classifier) / len(estimators)) for e in estimators]
    nodes, value = join_trees(raw)
    name = type(model).__name__
    return Trees(
        nodes=nodes,
        value=value,
        output_of=np.full(len(raw), -1),
        base=np.zeros(value.shape[1]),
        explains=f"the probability of a class by {name}" if is_classifier else f"the prediction of {name}",
        task="classification" if is_classifier else "regression",
        n_columns=int(model.n_features_in_),
        names=read_fitted_names(model),
        classes=model.classes_.tolist() if is_classifier else None,
        read=_rows(model, takes_gaps=bool(get_tags(model).input_tags.allow_nan)),
        own=model.predict_proba if is_classifier else model.predict,
    )


def _rows(model: Any, *, takes_gaps: bool) -> TableRows:
    return TableRows(int(model.n_features_in_), read_fitted_names(model), single=True, takes_gaps=takes_gaps)


def _compute_mean_value(stored: Any, is_classifier: bool) -> Floats:
    """Mean target of each node; of a classifier, the share of each class."""
    if not is_classifier:
        return np.asarray(stored.value[:, :, 0])
    value = stored.value[:, 0, :]
    return np.asarray(value / value.sum(axis=1, keepdims=True))


def _raw(stored: Any, value: Any, columns: Integers | None = None) -> RawTree:
    feature = stored.feature if columns is None else np.asarray(columns)[np.maximum(stored.feature, 0)]
    return RawTree(
        feature=feature,
        threshold=stored.threshold,
        left=stored.children_left,
        right=stored.children_right,
        cover=stored.weighted_n_node_samples,
        value=value,
        missing=np.where(np.asarray(stored.missing_go_to_left) != 0, LEFT, RIGHT),
    )


def read_isolation_forest(model: Any) -> Trees:
    """An isolation forest: minus the mean length of a row's path, in units of that of ordinary rows.

    The anomaly score is 2 to the power of this number, so that log₂ of the score adds up over the trees, and
    the score itself does not.
    """
    ensure_fitted(model)
    unit = float(_compute_mean_path(np.array([model._max_samples]))[0])
    raw = []
    for grown, columns in zip(model.estimators_, model.estimators_features_, strict=True):
        stored = grown.tree_
        length = _compute_depths(stored) + _compute_mean_path(stored.n_node_samples)
        value = -length / (len(model.estimators_) * unit) if unit > 0 else np.full(len(length), -1.0)
        raw.append(_raw(stored, value, columns))
    nodes, value = join_trees(raw)
    return Trees(
        nodes=nodes,
        value=value,
        output_of=np.zeros(len(raw), dtype=np.int64),
        base=np.zeros(1),
        explains=f"log₂ of the anomaly score of {type(model).__name__}: minus the mean length of a row's "
        "path, over that of ordinary rows",
        task="anomaly",
        n_columns=int(model.n_features_in_),
        names=read_fitted_names(model),
        link="power of two",
        threshold=float(np.log2(-float(model.offset_))) if model.offset_ < 0 else None,
        read=_rows(model, takes_gaps=True),
        own=lambda X: np.log2(-model.score_samples(X)),
    )


def _compute_depths(stored: Any) -> Integers:
    """Number of splits above each node."""
    depth = np.zeros(stored.node_count, dtype=np.int64)
    for node in range(stored.node_count):  # parents are stored before their children
        if stored.children_left[node] >= 0:
            depth[stored.children_left[node]] = depth[node] + 1
            depth[stored.children_right[node]] = depth[node] + 1
    return depth


def _compute_mean_path(n: Any) -> Floats:
    """Mean path to a row among n: c(n) = 2 (log(n − 1) + γ) − 2 (n − 1)/n (Liu et al., 2008)."""
    n = np.asarray(n, dtype=np.float64)
    many = np.maximum(n, 3.0)
    length = 2.0 * (np.log(many - 1.0) + np.euler_gamma) - 2.0 * (many - 1.0) / many
    return np.where(n > 2, length, np.where(n == 2, 1.0, 0.0))


def read_pyod_isolation_forest(model: Any) -> Trees:
    """PyOD's isolation forest, which wraps scikit-learn's."""
    ensure_fitted(model, ("decision_scores_", "detector_"))
    return read_isolation_forest(model.detector_)


def read_gradient_boosting(model: Any) -> Trees:
    """Gradient boosting: a constant plus the learning rate times each tree."""
    ensure_fitted(model)
    n_columns = int(model.n_features_in_)
    base = np.atleast_1d(_read_constant_start(model, n_columns))
    n_outputs = model.estimators_.shape[1]
    raw = [_raw(e.tree_, e.tree_.value[:, 0, 0] * model.learning_rate) for e in model.estimators_.ravel()]
    nodes, value = join_trees(raw)
    return Trees(
        nodes=nodes,
        value=value,
        output_of=np.tile(np.arange(n_outputs), len(model.estimators_)),
        base=base,
        n_columns=n_columns,
        names=read_fitted_names(model),
        read=_rows(model, takes_gaps=False),
        **_boosted(model, n_outputs),
    )


def _read_constant_start(model: Any, n_columns: int) -> Floats:
    """Return what boosting starts from, where it is the same for all rows."""
    from sklearn.dummy import DummyClassifier, DummyRegressor

    is_constant = isinstance(model.init_, (DummyClassifier, DummyRegressor)) or model.init_ == "zero"
    if not is_constant:
        raise UnsupportedModel(
            f"{type(model).__name__} starts from {type(model.init_).__name__}, which is no tree. Boosting "
            "that starts from a constant (init=None or 'zero') can be explained by its trees."
        )
    start = model._raw_predict_init(np.zeros((1, n_columns), dtype=np.float32))
    return np.asarray(start, dtype=np.float64).ravel()


def _boosted(model: Any, n_outputs: int) -> dict[str, Any]:
    """What the output of a boosted model is."""
    name = type(model).__name__
    if not hasattr(model, "classes_"):
        loss = str(getattr(model, "loss", ""))
        is_log = loss in ("poisson", "gamma")  # of histogram boosting: the mean is exp of what trees add up
        what = f"the logarithm of the prediction of {name}" if is_log else f"the prediction of {name}"
        own = (lambda X: np.log(model.predict(X))) if is_log else model.predict
        return {"explains": what, "task": "regression", "link": "exp" if is_log else "identity", "own": own}
    return {
        "explains": f"the margin (log-odds) of a class by {name}",
        "task": "classification",
        "link": "logistic" if n_outputs == 1 else "softmax",
        "classes": model.classes_.tolist(),
        "own": model.decision_function,
    }


def read_histogram_boosting(model: Any) -> Trees:
    """Histogram gradient boosting, with empty cells and categories."""
    ensure_fitted(model)
    columns = _read_histogram_columns(model)
    n_outputs = int(model.n_trees_per_iteration_)
    raw = [_read_histogram_tree(grown, columns) for iteration in model._predictors for grown in iteration]
    nodes, value = join_trees(raw)
    return Trees(
        nodes=nodes,
        value=value,
        output_of=np.tile(np.arange(n_outputs), len(model._predictors)),
        base=np.asarray(model._baseline_prediction, dtype=np.float64).ravel(),
        n_columns=len(columns),
        names=read_fitted_names(model),
        read=_HistogramRows(model, columns),
        **_boosted(model, n_outputs),
    )


def _read_histogram_columns(model: Any) -> Integers:
    """The user's column behind each column of the model, which has its categories first."""
    is_category = getattr(model, "is_categorical_", None)
    if is_category is None:
        return np.arange(int(model.n_features_in_))
    return np.concatenate([np.flatnonzero(is_category), np.flatnonzero(~is_category)])


def _read_histogram_tree(grown: Any, columns: Integers) -> RawTree:
    nodes = grown.nodes
    is_leaf = nodes["is_leaf"] != 0
    split = np.flatnonzero(~is_leaf & (nodes["is_categorical"] != 0))
    return RawTree(
        feature=columns[np.where(is_leaf, 0, nodes["feature_idx"]).astype(np.int64)],
        threshold=nodes["num_threshold"],
        left=np.where(is_leaf, -1, nodes["left"].astype(np.int64)),
        right=np.where(is_leaf, -1, nodes["right"].astype(np.int64)),
        cover=nodes["count"],
        value=nodes["value"],
        missing=np.where(nodes["missing_go_to_left"] != 0, LEFT, RIGHT),
        sets={int(node): _members(grown.raw_left_cat_bitsets[nodes["bitset_idx"][node]]) for node in split},
    )


def _members(words: Any) -> Integers:
    bits = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little")
    return np.flatnonzero(bits)


@dataclass(frozen=True, eq=False)
class _HistogramRows:
    """Rows through the coding of categories that the model learned; unknown categories become NaN."""

    model: Any
    columns: Integers

    def __call__(self, X: Any) -> Floats:
        refuse_sparse(X)
        plain = TableRows(len(self.columns), read_fitted_names(self.model))
        coder = getattr(self.model, "_preprocessor", None)
        if coder is None:
            return plain(X)
        coded = np.asarray(coder.transform(take_own_rows(self.model, X)), dtype=np.float64)
        ordered = np.empty_like(coded)
        ordered[:, self.columns] = coded
        return TableRows(len(self.columns))(ordered)
