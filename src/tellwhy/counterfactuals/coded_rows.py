"""Normal versions of table rows, looked for in the model's columns and told in the user's cells."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.core.score import Floats, Integers
from tellwhy.counterfactuals.choices import Mask
from tellwhy.counterfactuals.nearest_normal import nearest_normal
from tellwhy.counterfactuals.user_rows import ExplainedRows, as_pandas, named_columns, ordinary_rows
from tellwhy.counterfactuals.written import Limits

if TYPE_CHECKING:
    import pandas as pd

_DAY = 86_400.0
OWN_CELL = -1.0


class CodedRows:
    """Rows of a table whose encoding can be undone cell by cell; see `UserRows`.

    In a column of numbers or dates, a cell is told by its number (dates by the seconds since 1970). In any
    other column (text, booleans, two numbers that stand for yes and no) it is told by the number of an
    ordinary row that has the cell, −1 for the row's own cell: such a cell only becomes one that occurs.
    """

    def __init__(self, explained: ExplainedRows):
        self._explained = explained
        score = explained.score
        names = score.feature_names
        self._data = as_pandas(named_columns(explained.data, names))
        self._ordinary = as_pandas(ordinary_rows(score, explained.background))
        self._Z = score.encode(self._data)
        self._reference_rows = score.encode(self._ordinary)

    @cached_property
    def X(self) -> Floats:
        """Numbers are decoded: where a cell is missing, that gives the one which the encoding puts there."""
        return np.where(self.limits.is_number, self._decoded(self._Z), OWN_CELL)

    @cached_property
    def limits(self) -> Limits:
        """Steps of 1 where all ordinary rows have whole numbers, of a day or a second for dates."""
        columns = [self._ordinary.iloc[:, c] for c in range(self._ordinary.shape[1])]
        is_number = np.array([_is_number(column) for column in columns])
        steps = np.zeros(len(columns))
        low = np.full(len(columns), -np.inf)
        high = np.full(len(columns), np.inf)
        for c in np.flatnonzero(is_number):
            cells = _numbers(columns[c])
            filled = cells[~np.isnan(cells)]
            steps[c] = _step(columns[c], filled)
            low[c] = filled.min()
            high[c] = filled.max()
        return Limits(is_number, steps, low, high)

    def nearest(self, rows: Integers) -> Floats:
        """Search in the model's columns, where nothing needs to be encoded, and tell the result in cells."""
        explained = self._explained
        score = explained.score
        nearest = nearest_normal(
            score.inner,
            self._Z[rows],
            reference_rows=self._reference_rows,
            threshold=explained.threshold,
            integers=np.zeros(self._Z.shape[1], dtype=bool),
            owner=score.owner,
            listed=~self.limits.is_number[score.owner],
            ranking=explained.values[rows],
            left_out=explained.points(rows, score.inner),
        )
        Y = self._told(nearest.points, nearest.changed, rows)
        # A change that is too small to be told in cells is none to the user, and so no solution.
        lost = ~nearest.found | (nearest.changed.any(axis=1) & (self.X[rows] == Y).all(axis=1))
        Y[lost] = np.nan
        return Y

    def is_normal(self, Y: Floats, rows: Integers) -> Mask:
        """Encode points as the rows of a table that they stand for, and score them."""
        explained = self._explained
        inner = explained.score.inner
        Z = explained.score.encode(self.frame(Y, rows))
        left_out = explained.points(rows, inner)
        scores = inner.value(Z) if left_out is None else inner.value(Z, left_out)
        return np.asarray(scores <= explained.threshold)

    def table(self, Y: Floats, rows: Integers) -> Any:
        """Return rows of numbers as an array, others as a frame."""
        import pandas as pd

        found = np.asarray(~np.isnan(Y).any(axis=1))
        frame = self.frame(np.where(found[:, None], Y, self.X[rows]), rows)
        if all(pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes):
            numbers = frame.to_numpy(dtype=np.float64, na_value=np.nan)
            return np.where(found[:, None], numbers, np.nan)
        return frame if found.all() else frame.where(pd.Series(found, index=frame.index))

    def frame(self, Y: Floats, rows: Integers) -> pd.DataFrame:
        """Return rows with the cells that points tell, and their own cells where nothing changed."""
        frame = self._data.iloc[rows].copy()
        X = self.X[rows]
        for c in np.flatnonzero((Y != X).any(axis=0)):
            changed = np.flatnonzero(Y[:, c] != X[:, c])
            if self.limits.is_number[c]:
                cells = _with_numbers(frame.iloc[:, c], changed, Y[changed, c])
            else:
                taken = self._ordinary.iloc[Y[changed, c].astype(np.int64), c]
                cells = _with_cells(frame.iloc[:, c], changed, taken)
            frame.isetitem(int(c), cells)
        return frame

    def _told(self, points: Floats, changed: Mask, rows: Integers) -> Floats:
        """Tell encoded points in the user's cells, those that were not changed as before."""
        Y = self.X[rows].copy()
        owner = np.asarray(self._explained.score.owner)
        numbers = self._decoded(np.where(np.isnan(points), self._Z[rows], points))
        for c in np.unique(owner):
            block = owner == c
            mine = np.flatnonzero(changed[:, block].any(axis=1))
            if self.limits.is_number[c]:
                Y[mine, c] = numbers[mine, c]
            else:
                Y[mine, c] = [self._ordinary_row_with(point, block) for point in points[mine][:, block]]
        return Y

    def _ordinary_row_with(self, values: Floats, block: Mask) -> int:
        """Return the first ordinary row that has these values in a block of encoded columns."""
        return int((self._reference_rows[:, block] == values).all(axis=1).argmax())

    def _decoded(self, Z: Floats) -> Floats:
        """Return encoded rows as numbers of the user's units; NaN in columns that are not told by numbers."""
        frame = as_pandas(self._explained.score.decode(Z))
        told = np.full((len(Z), frame.shape[1]), np.nan)
        for c in np.flatnonzero(self.limits.is_number):
            told[:, c] = _numbers(frame.iloc[:, c])
        return told


def _is_number(column: pd.Series) -> bool:
    """Whether a column holds numbers or dates that may take any value between those that occur."""
    import pandas as pd

    types = pd.api.types
    is_date = isinstance(column.dtype, np.dtype) and column.dtype.kind == "M"
    is_number = types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype)
    return (is_number or is_date) and column.nunique(dropna=True) > 2


def _numbers(column: pd.Series) -> Floats:
    """Cells as numbers, NaN where they are missing; dates in seconds since 1970."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "M":
        moments = column.to_numpy(dtype="datetime64[us]")
        return np.where(np.isnat(moments), np.nan, moments.astype(np.int64) / 1e6)
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))


def _step(column: pd.Series, filled: Floats) -> float:
    """Distance between the values that a cell may have; 0 where any will do."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "M":
        return _DAY if (filled % _DAY == 0).all() else 1.0
    return 1.0 if (filled == np.round(filled)).all() else 0.0


def _with_numbers(column: pd.Series, places: Integers, values: Floats) -> pd.Series:
    """Return the column with some of its cells set to numbers, or to the dates that they stand for."""
    cells: Any = values
    if isinstance(column.dtype, np.dtype):
        if column.dtype.kind == "M":
            cells = np.round(values * 1e6).astype(np.int64).astype("datetime64[us]")
        cells = cells.astype(column.dtype)
    changed = column.copy()
    changed.iloc[places] = cells
    return changed


def _with_cells(column: pd.Series, places: Integers, cells: pd.Series) -> pd.Series:
    """Return the column with some of its cells set to cells of another table, in a type that holds both."""
    import pandas as pd

    changed = column.astype(object)
    changed.iloc[places] = cells.astype(object).to_numpy()
    return changed if isinstance(column.dtype, pd.CategoricalDtype) else changed.infer_objects()
