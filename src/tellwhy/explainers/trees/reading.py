"""From any model of trees to its trees as arrays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tellwhy.explainers.trees.formats import of_lightgbm, of_sklearn, of_xgboost
from tellwhy.explainers.trees.formats.files import saved_model
from tellwhy.explainers.trees.model import Trees
from tellwhy.scoring.adapters.class_names import lookup

READERS: dict[str, Callable[[Any], Trees]] = {
    "sklearn.tree.BaseDecisionTree": of_sklearn.tree,
    "sklearn.ensemble.ForestClassifier": of_sklearn.forest,
    "sklearn.ensemble.ForestRegressor": of_sklearn.forest,
    "sklearn.ensemble.IsolationForest": of_sklearn.isolation_forest,
    "sklearn.ensemble.BaseGradientBoosting": of_sklearn.gradient_boosting,
    "sklearn.ensemble.gradient_boosting.BaseHistGradientBoosting": of_sklearn.histogram_boosting,
    "pyod.models.iforest.IForest": of_sklearn.pyod_isolation_forest,
    "xgboost.sklearn.XGBModel": of_xgboost.estimator,
    "xgboost.core.Booster": of_xgboost.booster,
    "lightgbm.sklearn.LGBMModel": of_lightgbm.estimator,
    "lightgbm.basic.Booster": of_lightgbm.booster,
}


def read_trees(model: Any) -> Trees | None:
    """Return the trees of a fitted model; None for a model of another kind.

    Reads scikit-learn's decision trees, extra trees, forests, gradient boosting, histogram gradient boosting
    and isolation forests, PyOD's isolation forest, and the models of XGBoost and LightGBM, which are read
    from the JSON or text that they write of themselves.

    Raises
    ------
    UnsupportedModel
        For a model of trees that does more than to add them up, such as XGBoost's `gblinear` or LightGBM's
        linear leaves; the message says what to do.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> trees = read_trees(DecisionTreeRegressor(max_depth=1).fit([[0.0], [1.0]], [10.0, 20.0]))
    >>> trees.nodes.feature, trees.value.ravel()
    (array([ 0, -1, -1]), array([15., 10., 20.]))
    >>> read_trees(print) is None
    True
    """
    if isinstance(model, (str, Path)):
        return saved_model(model)
    reader = None if isinstance(model, type) else lookup(READERS, model)
    return None if reader is None else reader(model)
