"""Normal versions of rows of numbers, which the score takes as they are."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import as_floats
from tellwhy.counterfactuals.choices import Mask
from tellwhy.counterfactuals.explained_rows import ExplainedRows
from tellwhy.counterfactuals.nearest_normal import nearest_normal
from tellwhy.counterfactuals.row_scores import RowScores
from tellwhy.counterfactuals.written import Limits
from tellwhy.scoring.observed import Observed, observed_by


class NumberRows:
    """Rows of numbers; see `UserRows`."""

    def __init__(self, explained: ExplainedRows):
        self._explained = explained
        self.X = as_floats(explained.data)
        ordinary = explained.background
        seen = observed_by(explained.score) if ordinary is None else Observed.of(as_floats(ordinary))
        assert seen is not None  # `normal_versions` asks before
        self._seen = seen

    @cached_property
    def limits(self) -> Limits:
        """Whole numbers are found as such and stay as they were found."""
        nothing = np.zeros(self.X.shape[1])
        return Limits(~self._seen.whole, nothing, self._seen.low, self._seen.high)

    def nearest(self, rows: Integers) -> Floats:
        """Search in the columns themselves."""
        explained = self._explained
        seen = self._seen
        return nearest_normal(
            explained.score,
            self.X[rows],
            prototypes=seen.rows,
            threshold=explained.threshold,
            low=seen.low,
            high=seen.high,
            integers=seen.whole,
            ranking=explained.values[rows],
            left_out=explained.points(rows, explained.score),
        ).points

    def is_normal(self, Y: Floats, rows: Integers) -> Mask:
        """Score points that were made from some of the rows."""
        explained = self._explained
        scores = RowScores(explained.score, self.X[rows], explained.points(rows, explained.score))
        return np.asarray(scores.value(Y, np.arange(len(Y))) <= explained.threshold)

    def table(self, Y: Floats, rows: Integers) -> Any:  # noqa: ARG002
        """Numbers are what the user has."""
        return Y
