"""Scores of PyOD's detectors, which are high for anomalies already.

ECOD and COPOD are sums over columns of how far out a cell is in its column's tails: they are scored in closed
form.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from tellwhy.core.arrays import as_floats, check_columns
from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.running import track_batches
from tellwhy.core.score import Floats, ScoreFunction
from tellwhy.scoring.adapters.sklearn_distances import measure_neighbours
from tellwhy.scoring.adapters.sklearn_models import make_model_score
from tellwhy.scoring.function_scores import FunctionScore
from tellwhy.scoring.model_rows import ensure_fitted, read_fitted_names


class TailScore:
    """o(x) = Σ_i O_i(x_i), each row judged as if it were scored alone.

    Of the training rows and the row itself, let F be the share whose cell is at most x_i and G the share
    whose cell is at least x_i; l = −log F, r = −log G, and s is the one on the longer tail by the sign of the
    skewness (l + r where it is zero). ECOD takes O = max(l, r, s), COPOD O = max(s, (l + r)/2). PyOD does so
    over all rows of a call, so that a row's score changes with its company; of a row alone both agree.

    Parameters
    ----------
    rows
        The training rows.
    is_both_tails
        Whether the larger tail counts (ECOD) or the mean of the two (COPOD).
    """

    def __init__(
        self,
        rows: Floats,
        *,
        is_both_tails: bool,
        describes: str,
        threshold: float | None,
        feature_names: Sequence[str] | None = None,
    ):
        self.rows = np.asarray(rows, dtype=np.float64)
        self.is_both_tails = is_both_tails
        self.describes = describes
        self.threshold = threshold
        self.feature_names = feature_names
        self.feature_shape = self.rows.shape[1:]
        self._sorted = np.sort(self.rows, axis=0)
        self._mean = self.rows.mean(axis=0)
        centred = self.rows - self._mean
        self._moments = [centred.sum(axis=0), (centred**2).sum(axis=0), (centred**3).sum(axis=0)]

    def feature_errors(self, X: Any) -> Floats:
        """O_i of each cell; those of a row add up to its score."""
        check_columns(X, self.feature_names)
        array = as_floats(X, n_columns=self.feature_shape[0])
        found = np.empty_like(array)
        for rows in track_batches(len(array), 64 * array.shape[1], "scoring rows"):
            found[rows] = self._tails(array[rows])
        return found

    def value(self, X: Any) -> Floats:
        """Return the score of each row."""
        return np.asarray(self.feature_errors(X).sum(axis=1))

    def _tails(self, X: Floats) -> Floats:
        n = len(self.rows)
        below = np.empty(X.shape)
        above = np.empty(X.shape)
        for column, values in enumerate(self._sorted.T):
            below[:, column] = np.searchsorted(values, X[:, column], side="right") + 1
            above[:, column] = n - np.searchsorted(values, X[:, column], side="left") + 1
        left = -np.log(below / (n + 1))
        right = -np.log(above / (n + 1))
        sign = self._find_skewness_signs(X)
        longer = np.where(sign > 0, right, np.where(sign < 0, left, left + right))
        other = np.maximum(left, right) if self.is_both_tails else (left + right) / 2
        return np.asarray(np.maximum(longer, other))

    def _find_skewness_signs(self, X: Floats) -> Floats:
        """Sign of the skewness of each column with the row's own cell added."""
        n = len(self.rows) + 1
        z = X - self._mean
        first = (self._moments[0] + z) / n
        second = (self._moments[1] + z**2) / n
        third = (self._moments[2] + z**3) / n
        return np.asarray(np.sign(third - 3 * first * second + 2 * first**3))


# Detectors whose decision_function compares the rows of one call with each other.
SCORED_TOGETHER = frozenset({"CD", "COF", "LMDD", "RGraph", "ROD", "SOD", "SOS"})
_FITTED = ("decision_scores_", "labels_")  # XGBOD has labels without a threshold


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
    return make_model_score(model, _decision, describes=describes, threshold=_threshold(model))


def tails(model: Any) -> ScoreFunction:
    """ECOD and COPOD, each row as if it were scored alone."""
    ensure_fitted(model, _FITTED)
    name = type(model).__name__
    return TailScore(
        model.X_train,
        is_both_tails=name != "COPOD",
        describes=f"decision_function of PyOD's {name}, of each row as if it were scored alone",
        threshold=_threshold(model),
        feature_names=read_fitted_names(model),
    )


def read_angles(model: Any) -> FunctionScore:
    """−log of the variance of angles of ABOD: the variance itself spans many powers of ten."""
    ensure_fitted(model, _FITTED)
    level = _threshold(model)
    return make_model_score(
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
    return measure_neighbours(
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
