"""The committee's surprise as a score function."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.score_function import Floats, Integers, RememberedRows
from tellwhy.core.tables import as_floats
from tellwhy.detectors.committee.member import ColumnScales
from tellwhy.detectors.committee.panel import Panel
from tellwhy.scoring.training_rows import matching_points


class CommitteeScore:
    """T(S(x)): −log of the probability that an ordinary row is as surprising to the members together."""

    def __init__(
        self,
        panel: Panel,
        columns: ColumnScales,
        points: Floats,
        remembered: Integers,
        n_training: int,
        *,
        feature_names: Sequence[str] | None = None,
        threshold: float | None = None,
    ):
        self.panel = panel
        self.columns = columns
        self.remembered = RememberedRows(points, remembered, n_training)
        self.feature_shape = points.shape[1:]
        self.feature_names = feature_names
        self.describes = "surprise of a committee: −log of the probability of an ordinary row as odd as this"
        self.threshold = threshold

    def value(self, X: ArrayLike, left_out: Integers | None = None) -> Floats:
        """Surprise of each row; row i is judged without remembered row `left_out[i]`."""
        return self.panel.value(self._in_scale(X), left_out)

    def shares(self, X: ArrayLike, left_out: Integers | None = None) -> Floats:
        """What each column contributed to the surprise of each row."""
        return self.panel.shares(self._in_scale(X), left_out)

    def match(self, X: ArrayLike) -> Integers:
        """Remembered row that each row is, or −1."""
        return self.leave_some(matching_points(as_floats(X), self.remembered))

    def leave_some(self, left_out: Integers) -> Integers:
        """Leave nothing out where too few rows would remain."""
        return left_out if len(self.remembered.points) > 3 else np.full_like(left_out, -1)

    def points_of(self, training_rows: Integers) -> Integers:
        """Remembered row that each training row is, or −1."""
        return self.leave_some(self._places[training_rows])

    def _in_scale(self, X: ArrayLike) -> Floats:
        return self.columns.of(as_floats(X, n_columns=self.feature_shape[0]))

    @cached_property
    def _places(self) -> Integers:
        places = np.full(self.remembered.n_training or 0, -1, dtype=np.int64)
        places[self.remembered.training_rows] = np.arange(len(self.remembered.points))
        return places
