"""Normal versions of table rows, looked for in the user's columns.

This is for encodings that cannot be undone cell by cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import PandasRows
from tellwhy.counterfactuals.choices import Mask
from tellwhy.counterfactuals.explained_rows import ExplainedRows
from tellwhy.counterfactuals.nearest_normal import nearest_normal
from tellwhy.counterfactuals.row_space import RowSpace, named_columns
from tellwhy.counterfactuals.surroundings import column_scales
from tellwhy.counterfactuals.written import Limits
from tellwhy.scoring.observed import observed_by, whole_columns
from tellwhy.scoring.scores.encoded import EncodedScore

if TYPE_CHECKING:
    import pandas as pd

_ROUNDING = 1e-9


class TableRows:
    """Rows of a table whose score encodes them; see `UserRows`. Rows with missing numbers are left aside."""

    def __init__(self, explained: ExplainedRows):
        self._explained = explained
        score = explained.score
        ordinary = ordinary_rows(score, explained.background)
        self._data = named_columns(explained.data, score.feature_names)
        self._space = RowSpace.of([ordinary, self._data])
        self.X = self._space.numbers(self._data)
        prototypes = self._space.numbers(ordinary)
        self._prototypes = without_noise(prototypes[~np.isnan(prototypes).any(axis=1)])

    @property
    def limits(self) -> Limits:
        """Whole numbers, and the 0 and 1 that stand for labels, stay as they were found."""
        P = self._prototypes
        return Limits(~whole_columns(P), np.zeros(P.shape[1]), P.min(axis=0), P.max(axis=0))

    def nearest(self, rows: Integers) -> Floats:
        """Search in the user's columns; every trial is encoded."""
        explained = self._explained
        points = np.full((len(rows), self.X.shape[1]), np.nan)
        known = np.flatnonzero(~np.isnan(self.X[rows]).any(axis=1))
        if len(known) and len(self._prototypes):
            points[known] = nearest_normal(
                _SpaceScore(explained.score, self._space),
                self.X[rows[known]],
                prototypes=self._prototypes,
                threshold=explained.threshold,
                owner=self._space.owner,
                ranking=explained.values[rows[known]],
                left_out=explained.points(rows[known], explained.score.inner),
            ).points
        return points

    def is_normal(self, Y: Floats, rows: Integers) -> Mask:
        """Score points as the rows of a table that they stand for."""
        explained = self._explained
        left_out = explained.points(rows, explained.score.inner)
        score = _SpaceScore(explained.score, self._space)
        found = score.value(Y) if left_out is None else score.value(Y, left_out)
        return np.asarray(found <= explained.threshold)

    def table(self, Y: Floats, rows: Integers) -> Any:
        """Return rows of numbers as an array, rows with text as a frame."""
        if self._space.is_numeric:
            return Y
        index = self._data.index[rows] if isinstance(self._data, PandasRows) else None
        return _table(self._space, Y, index)


class _SpaceScore:
    """A score of raw rows as one of the numbers that stand for them."""

    def __init__(self, score: EncodedScore, space: RowSpace):
        self._score = score
        self._space = space
        self.describes = score.describes
        self.feature_shape = (len(space.owner),)
        self.feature_names: Sequence[str] | None = None
        self.threshold = score.threshold

    def value(self, X: ArrayLike, *left_out: Integers) -> Floats:
        """Score of each row."""
        inner: Any = self._score.inner
        rows = self._space.rows(np.asarray(X))
        return np.asarray(inner.value(self._score.encode(rows), *left_out))


def ordinary_rows(score: EncodedScore, background: Any) -> Any:
    """Ordinary rows in the user's columns: those given, or those that the model keeps."""
    if background is None:
        seen: Any = observed_by(score.inner)
        assert score.decode is not None  # `normal_versions` asks before
        background = score.decode(seen.rows)
    return named_columns(background, score.feature_names)


def without_noise(X: Floats) -> Floats:
    """Return rows with whole numbers where decoding missed them by a rounding error."""
    nearest = np.round(X)
    missed = np.abs(X - nearest) > _ROUNDING * column_scales(X)[0] if len(X) else nearest != X
    return np.where(missed.any(axis=0), X, nearest)


def _table(space: RowSpace, points: Floats, index: pd.Index | None) -> Any:
    """Return rows with text as a frame, empty where nothing was found."""
    import pandas as pd

    found = np.asarray(np.isfinite(points).all(axis=1))
    frame = pd.DataFrame(space.rows(np.where(found[:, None], points, 0.0)))
    frame.columns = pd.Index(space.names)
    frame = frame if found.all() else frame.where(pd.Series(found), np.nan)
    return frame if index is None else frame.set_axis(index, axis=0)
