"""What must be true of an estimator of scikit-learn that was read, so that compiled loops stay in bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tellwhy.storage.codec import Fit

Fits = Callable[[Any], Iterator[Fit]]


def _nothing(_: Any) -> Iterator[Fit]:
    yield from ()


def _tree(model: Any) -> Iterator[Fit]:
    if hasattr(model, "tree_"):
        yield "tree_", model.tree_.n_features, model.n_features_in_


def _forest(model: Any) -> Iterator[Fit]:
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


def _histograms(model: Any) -> Iterator[Fit]:
    n = getattr(model, "n_features_in_", 0)
    for predictor in (tree for trees in getattr(model, "_predictors", []) for tree in trees):
        used = predictor.nodes["feature_idx"][predictor.nodes["is_leaf"] == 0]
        yield "_predictors", bool((used >= 0).all() and (used < n).all()), True
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
    n_classes = len(getattr(model, "classes_", ()))
    one_of_pairs = n_classes * (n_classes - 1) // 2 if n_classes else 1
    yield "_n_support", int(np.sum(model.n_support_)) in (n, 2 * n), True
    yield "_intercept_", len(model._intercept_), one_of_pairs
    yield "_dual_coef_", len(model._dual_coef_), max(n_classes - 1, 1)


def _points(model: Any) -> Iterator[Fit]:
    rows = getattr(model, "_fit_X", None)
    if rows is not None:
        yield "_fit_X", rows.shape[1], model.n_features_in_


def _centres(model: Any) -> Iterator[Fit]:
    centres = getattr(model, "cluster_centers_", None)
    if centres is not None:
        yield "cluster_centers_", centres.shape[1:], (model.n_features_in_,)


_BY_NAME: dict[str, Fits] = {
    **dict.fromkeys(("SVC", "SVR", "OneClassSVM"), _support_vectors),
    **dict.fromkeys(("NearestNeighbors", "LocalOutlierFactor"), _points),
    **dict.fromkeys(("KMeans", "MiniBatchKMeans"), _centres),
    **dict.fromkeys(("HistGradientBoostingClassifier", "HistGradientBoostingRegressor"), _histograms),
    **dict.fromkeys(
        ("DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier", "ExtraTreeRegressor"),
        _tree,
    ),
    **dict.fromkeys(
        (
            "RandomForestClassifier",
            "RandomForestRegressor",
            "ExtraTreesClassifier",
            "ExtraTreesRegressor",
            "GradientBoostingClassifier",
            "GradientBoostingRegressor",
            "IsolationForest",
        ),
        _forest,
    ),
}


def fits_of(name: str) -> Fits:
    """The checks of a class, by its name."""
    return _BY_NAME.get(name, _nothing)
