"""Scores of PyOD's ECOD and COPOD: sums over columns of how far out a cell is in its column's tails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tellwhy.core.parallel import tracked_batches
from tellwhy.core.score_function import Floats
from tellwhy.core.tables import as_floats
from tellwhy.scoring.model_rows import check_columns


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
        for rows in tracked_batches(len(array), 64 * array.shape[1], "scoring rows"):
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
        sign = self._skewness_signs(X)
        longer = np.where(sign > 0, right, np.where(sign < 0, left, left + right))
        other = np.maximum(left, right) if self.is_both_tails else (left + right) / 2
        return np.asarray(np.maximum(longer, other))

    def _skewness_signs(self, X: Floats) -> Floats:
        """Sign of the skewness of each column with the row's own cell added."""
        n = len(self.rows) + 1
        z = X - self._mean
        first = (self._moments[0] + z) / n
        second = (self._moments[1] + z**2) / n
        third = (self._moments[2] + z**3) / n
        return np.asarray(np.sign(third - 3 * first * second + 2 * first**3))
