"""The nearest normal version of explained rows, in the user's own columns, found when it is asked for.

Where an encoding can be undone cell by cell, the search runs in coded columns (`CodedRows`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.explanation_parts import Deferred
from tellwhy.core.score import Floats, Integers, ScoreFunction
from tellwhy.counterfactuals.choices import Mask
from tellwhy.counterfactuals.nearest_normal import nearest_normal
from tellwhy.counterfactuals.user_rows import (
    ExplainedRows,
    Limits,
    NumberRows,
    TableRows,
    UserRows,
    named_columns,
    ordinary_rows,
    written,
)
from tellwhy.scoring.function_scores import EncodedScore
from tellwhy.scoring.reference_rows import some_rows
from tellwhy.scoring.table_codes import make_pandas

if TYPE_CHECKING:
    import pandas as pd


NAME = "nearest_normal"


class Versions(NamedTuple):
    """Normal versions of some rows."""

    table: Any  # an array or a frame; all cells empty where none was found
    changed: Mask  # (rows, columns): cells that differ from the row
    as_shown: Mask  # (rows,): the version scores at most the threshold with the digits that people are shown


class NormalVersions:
    """What some explained rows would look like if they were normal.

    This is the search behind `extras["nearest_normal"]`; runs over tables suggest cells of an ordinary row
    instead (`tellwhy.verdicts.repair`), so that every value they show occurs. A version is looked
    for once for each row and kept, so that whoever asks gets the same answer. Every version was scored
    after its numbers were written with few digits and put into the row.
    """

    def __init__(self, explained: ExplainedRows):
        self.explained = explained
        self._is_known = np.zeros(len(explained.values), dtype=bool)
        self._as_shown = np.zeros(len(explained.values), dtype=bool)

    def __call__(self, rows: Integers) -> Any:
        """Return the nearest normal version of each of these rows; all NaN where none was found."""
        return self.of(rows).table

    def entry(self) -> dict[str, Deferred]:
        """Return the entry of the extras of an explanation, to be computed when it is asked for."""
        return {NAME: Deferred(self, np.arange(len(self._is_known)))}

    def of(self, rows: Integers) -> Versions:
        """Return the versions of these rows, with what differs from the row."""
        self._find(np.unique(rows[~self._is_known[rows]]))
        Y = self._points[rows]
        changed = (self._rows.X[rows] != Y) & ~np.isnan(Y)
        return Versions(self._rows.table(Y, rows), changed, self._as_shown[rows])

    @cached_property
    def _rows(self) -> UserRows:
        score = self.explained.score
        if not isinstance(score, EncodedScore):
            return NumberRows(self.explained)
        can_be_undone = score.decodes_any and score.owner is not None
        return CodedRows(self.explained) if can_be_undone else TableRows(self.explained)

    @cached_property
    def _points(self) -> Floats:
        """The version of each row that is known, as numbers."""
        return np.full(self._rows.X.shape, np.nan)

    def _find(self, rows: Integers) -> None:
        """Look for the versions of rows that nobody has asked for yet."""
        if not len(rows):
            return
        X = self._rows.X[rows]
        Y = self._rows.nearest(rows)
        found = np.asarray(~np.isnan(Y).any(axis=1))
        moved = np.flatnonzero(found & (X != Y).any(axis=1))
        as_shown = found.copy()  # a row that is normal already is shown as it is
        if len(moved):
            told = written(
                X[moved], Y[moved], self._rows.limits, lambda Z, at: self._rows.is_normal(Z, rows[moved[at]])
            )
            Y[moved] = told.points
            as_shown[moved] = told.as_shown
        self._points[rows] = Y
        self._as_shown[rows] = as_shown
        self._is_known[rows] = True


def attach_nearest_normal(
    explanation: Explanation, score: ScoreFunction, background: Any, *, threshold: float | None = None
) -> Explanation:
    """Return the explanation with the nearest normal rows in `extras["nearest_normal"]`.

    Explainers do this themselves where the model tells its threshold and keeps rows that it learned from.

    Parameters
    ----------
    explanation
        Of rows of a table.
    score
        The score that was explained.
    background
        Ordinary rows, in the same columns: they give ranges, and values to change to.
    threshold
        Score that counts as normal, at most: the score's own threshold by default, or else what 95 % of the
        background rows stay below.

    Examples
    --------
    >>> from tellwhy.scoring import FunctionScore
    >>> bowl = FunctionScore(lambda X: (X**2).sum(axis=1), threshold=4.0)
    >>> x = np.array([[0.0, 9.0]])
    >>> explanation = Explanation(values=x**2, scores=bowl.value(x), data=x, method="Example")
    >>> ordinary = np.random.default_rng(0).normal(size=(100, 2))
    >>> attach_nearest_normal(explanation, bowl, ordinary).extras["nearest_normal"].round(3)
    array([[0., 2.]])
    """
    if np.shape(background)[1:] != np.shape(explanation.data)[1:]:
        raise InvalidInput(
            f"background has shape {np.shape(background)}; expected rows like the explained ones, "
            f"whose shape is {np.shape(explanation.data)}."
        )
    level = score.threshold if threshold is None else threshold
    if level is None:
        level = float(np.quantile(score.value(some_rows(background)), 0.95))
    left_out = explanation.extras.get("left_out")
    explained = ExplainedRows(score, explanation.data, explanation.values, background, float(level), left_out)
    versions = NormalVersions(explained)(np.arange(len(explanation)))
    return replace(explanation, extras=explanation.extras | {NAME: versions})


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
        self._data = make_pandas(named_columns(explained.data, names))
        self._ordinary = make_pandas(ordinary_rows(score, explained.background))
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
                cells = _set_numbers(frame.iloc[:, c], changed, Y[changed, c])
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
                Y[mine, c] = [self._find_ordinary_row_with(point, block) for point in points[mine][:, block]]
        return Y

    def _find_ordinary_row_with(self, values: Floats, block: Mask) -> int:
        """Return the first ordinary row that has these values in a block of encoded columns."""
        return int((self._reference_rows[:, block] == values).all(axis=1).argmax())

    def _decoded(self, Z: Floats) -> Floats:
        """Return encoded rows as numbers of the user's units; NaN in columns that are not told by numbers."""
        frame = make_pandas(self._explained.score.decode(Z))
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


def _set_numbers(column: pd.Series, places: Integers, values: Floats) -> pd.Series:
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
