"""Scores of PyOD's detectors, which are high for anomalies already."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.score_function import Floats, ScoreFunction
from tellwhy.scoring.adapters.pyod_tails import TailScore
from tellwhy.scoring.adapters.sklearn_distances import mean_neighbour_distance
from tellwhy.scoring.adapters.sklearn_models import model_score
from tellwhy.scoring.model_rows import ensure_fitted, fitted_names
from tellwhy.scoring.scores.function_score import FunctionScore

# Detectors whose decision_function compares the rows of one call with each other.
SCORED_TOGETHER = frozenset({"CD", "COF", "LMDD", "RGraph", "ROD", "SOD", "SOS"})
_FITTED = ("decision_scores_", "threshold_", "labels_")


def detector(model: Any) -> FunctionScore:
    """Return the decision_function of any detector."""
    ensure_fitted(model, _FITTED)
    name = type(model).__name__
    if name in SCORED_TOGETHER:
        raise UnsupportedModel(
            f"PyOD's {name} compares the rows of one call with each other, so that no row has a score of its "
            "own that could be explained. Use a detector that scores new rows, such as KNN, LOF or IForest."
        )
    describes = f"decision_function of PyOD's {name}"
    return model_score(model, _decision, describes=describes, threshold=_threshold(model))


def tails(model: Any) -> ScoreFunction:
    """ECOD and COPOD, each row as if it were scored alone."""
    ensure_fitted(model, _FITTED)
    name = type(model).__name__
    return TailScore(
        model.X_train,
        is_both_tails=name != "COPOD",
        describes=f"decision_function of PyOD's {name}, of each row as if it were scored alone",
        threshold=_threshold(model),
        feature_names=fitted_names(model),
    )


def angles(model: Any) -> FunctionScore:
    """−log of the variance of angles of ABOD: the variance itself spans many powers of ten."""
    ensure_fitted(model, _FITTED)
    level = _threshold(model)
    return model_score(
        model,
        _minus_log_variance,
        describes="minus the logarithm of the variance of angles of PyOD's ABOD (the order of its scores)",
        threshold=None if level is None else float(_minus_log(np.array([level]))[0]),
    )


def _minus_log_variance(model: Any, X: Any) -> Floats:
    return _minus_log(np.asarray(model.decision_function(X), dtype=np.float64))


def _minus_log(scores: Floats) -> Floats:
    """−log(−score): PyOD's score is minus the variance."""
    return np.asarray(-np.log(np.maximum(-scores, np.finfo(np.float64).tiny)))


def nearest_neighbours(model: Any) -> ScoreFunction:
    """Mean distance to the nearest neighbours for `KNN(method="mean")`; other methods as any detector."""
    if model.method != "mean":
        return detector(model)
    ensure_fitted(model, _FITTED)
    return mean_neighbour_distance(
        model.neigh_,
        describes_model="PyOD's KNN",
        n_neighbours=model.n_neighbors,
        threshold=_threshold(model),
    )


def _decision(model: Any, X: Any) -> Floats:
    return model.decision_function(X)


def _threshold(model: Any) -> float | None:
    """The model's threshold, where it is a number."""
    threshold = getattr(model, "threshold_", None)
    return float(threshold) if isinstance(threshold, numbers.Real) else None
