"""The numbers that classifiers and regressors of several libraries give: margins, probabilities."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidParameter, UnsupportedModel
from tellwhy.core.score_function import Floats
from tellwhy.scoring.adapters.class_names import lookup
from tellwhy.scoring.model_rows import own_rows
from tellwhy.scoring.scores.log_odds import log_odds
from tellwhy.scoring.scores.prediction_score import LinearOutputs

OUTPUTS = ("auto", "margin", "probability")
Function = Callable[[Any], Any]

# Keyword of `predict` that gives the sum of the trees, before it is made a probability.
_RAW: dict[str, dict[str, Any]] = {
    "xgboost.sklearn.XGBModel": {"output_margin": True},
    "lightgbm.sklearn.LGBMModel": {"raw_score": True},
    "catboost.core.CatBoost": {"prediction_type": "RawFormulaVal"},
}


def classifier_outputs(model: Any, output: str) -> tuple[Function, str]:
    """Return a function that gives one column per class, and the words for a column.

    "auto" is the margin where the model has one (its decision_function, or the sum of its trees), else the
    probability, else whether the class is predicted.
    """
    name = type(model).__name__
    margin = _margin(model)
    if output in ("auto", "margin") and margin is not None:
        return margin
    if hasattr(model, "predict_proba"):
        if output == "margin":
            return partial(_log_odds, model), f"log-odds of {{which}} by {name}"
        return partial(_called, model, "predict_proba"), f"probability of {{which}} by {name}"
    if output != "auto":
        raise InvalidParameter(
            f"{name} gives no probabilities, so output={output!r} cannot be explained: leave output at "
            "'auto', or wrap the model in sklearn.calibration.CalibratedClassifierCV."
        )
    return partial(_votes, model), f"whether {name} predicts {{which}} (1) or not (0)"


def _margin(model: Any) -> tuple[Function, str] | None:
    name = type(model).__name__
    raw = lookup(_RAW, model)
    if raw is not None:
        return partial(
            _both_signs, partial(_called, model, "predict", **raw)
        ), f"margin of {{which}} by {name}"
    if hasattr(model, "decision_function"):
        words = f"margin (decision_function) of {{which}} by {name}"
        return partial(_decision, model), words
    return None


def _decision(model: Any, X: Any) -> Any:
    found = _both_signs(partial(_called, model, "decision_function"), X)
    n_classes = len(model.classes_)
    if found.shape[1] != n_classes:  # one column per pair of classes: SVC(decision_function_shape="ovo")
        raise UnsupportedModel(
            f"The decision_function of {type(model).__name__} gives {found.shape[1]} columns for {n_classes} "
            "classes. Set decision_function_shape='ovr', or pass output='probability'."
        )
    return found


def _both_signs(function: Function, X: Any) -> Any:
    """Return one column per class, also of a model of two classes, which gives only the second's margin."""
    found = np.asarray(function(X))
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    return np.column_stack([-found, found]) if found.ndim == 1 else found


def _log_odds(model: Any, X: Any) -> Floats:
    return log_odds(np.asarray(_called(model, "predict_proba", X), dtype=np.float64))


def _called(model: Any, method: str, X: Any, **options: Any) -> Any:
    found = getattr(model, method)(own_rows(model, X), **options)
    if isinstance(found, list):  # one array for each of several labels
        raise UnsupportedModel(
            f"{type(model).__name__} predicts several labels at once: pass a function that picks one, e.g. "
            f"lambda X: model.{method}(X)[0], with task='prediction'."
        )
    return found


def _votes(model: Any, X: Any) -> Floats:
    return np.asarray(
        np.asarray(_called(model, "predict", X))[:, None] == np.asarray(model.classes_), dtype=np.float64
    )


def predicted_class(model: Any, X: Any) -> Any:
    """Return the number, among the model's classes, of the class that it predicts for each row."""
    classes = list(model.classes_)
    labels = np.asarray(_called(model, "predict", X)).reshape(len(X), -1)[:, 0]
    return np.array([classes.index(label) for label in labels], dtype=np.int64)


def regressor_output(model: Any, X: Any) -> Any:
    """Return the prediction of a regressor."""
    return _called(model, "predict", X)


def linear_outputs(model: Any, n_outputs: int | None) -> LinearOutputs | None:
    """Return the weights of a model that has them (`coef_`, `intercept_`); None for others.

    Whether the outputs are what these weights give is for the caller to check: those of a Poisson regression
    are not.
    """
    coef = getattr(model, "coef_", None)
    intercept = getattr(model, "intercept_", None)
    if coef is None or intercept is None:
        return None
    dense = np.atleast_2d(np.asarray(coef.toarray() if hasattr(coef, "toarray") else coef, dtype=np.float64))
    offsets = np.broadcast_to(np.asarray(intercept, dtype=np.float64).reshape(-1), len(dense))
    if n_outputs == 2 and len(dense) == 1:  # two classes: the margin of the first is minus that of the second
        dense = np.vstack([-dense, dense])
        offsets = np.array([-offsets[0], offsets[0]])
    return LinearOutputs(dense, np.array(offsets, dtype=np.float64))
