"""Rows of any table as numbers that a search can change, and back to what the user has.

Rows of numbers are taken as they are. Tables are coded where the score encodes the rows itself, and changed
in the user's own columns where an encoding cannot be undone cell by cell. Numbers that a search found are
written with the few digits that people are shown, chosen so that the row is still normal with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.arrays import Frame, PandasRows, as_floats
from tellwhy.core.running import cut_batches
from tellwhy.core.score import Floats, Integers, LeavesRowsOut, ScoreFunction
from tellwhy.counterfactuals.choices import Mask
from tellwhy.counterfactuals.nearest_normal import nearest_normal
from tellwhy.counterfactuals.row_scores import RowScores
from tellwhy.scoring.distance_scores import points_of
from tellwhy.scoring.function_scores import EncodedScore
from tellwhy.scoring.moved_columns import find_column_units
from tellwhy.scoring.reference_rows import ReferenceRows, find_rows_of_reference, find_whole_columns
from tellwhy.scoring.table_codes import make_pandas

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class ExplainedRows:
    """Rows whose score was explained.

    Attributes
    ----------
    score
        The score that was explained.
    data
        The explained rows, as they were given.
    values
        Their attributions: where there are many columns, those with the highest values are looked at.
    background
        Ordinary rows like `data`; None: what the model keeps of the rows that it learned from.
    threshold
        Score that counts as normal, at most.
    left_out
        Training row that each row was scored without, or −1, as `extras["left_out"]` records it; None:
        nothing.
    """

    score: Any
    data: Any
    values: Floats
    background: Any
    threshold: float
    left_out: Integers | None = None

    def points(self, rows: Integers, score: ScoreFunction) -> Integers | None:
        """Support point that each row does without, or −1; None for scores that cannot leave one out."""
        if not isinstance(score, LeavesRowsOut):
            return None
        if self.left_out is None:
            return np.full(len(rows), -1, dtype=np.int64)
        return points_of(np.asarray(self.left_out)[rows], score.remembered)


class UserRows(Protocol):
    """Rows as the user has them, told in numbers that can be changed."""

    @property
    def X(self) -> Floats:
        """The explained rows; one number per column."""
        ...

    @property
    def limits(self) -> Limits:
        """What the numbers may be."""
        ...

    def nearest(self, rows: Integers) -> Floats:
        """Return the nearest normal version of some rows; NaN where none was found."""
        ...

    def is_normal(self, Y: Floats, rows: Integers) -> Mask:
        """Tell which points score at most the threshold; point i was made from row `rows[i]`."""
        ...

    def table(self, Y: Floats, rows: Integers) -> Any:
        """Return points as the user has rows: an array of numbers, or a frame; a row with NaN is empty."""
        ...


class NumberRows:
    """Rows of numbers; see `UserRows`."""

    def __init__(self, explained: ExplainedRows):
        self._explained = explained
        self.X = as_floats(explained.data)
        ordinary = explained.background
        seen = (
            find_rows_of_reference(explained.score)
            if ordinary is None
            else ReferenceRows.of(as_floats(ordinary))
        )
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
            reference_rows=seen.rows,
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


@dataclass(frozen=True)
class RowSpace:
    """Columns of numbers stay as they are; any other becomes one column of 0 and 1 per value that was seen.

    Examples
    --------
    >>> import pandas as pd
    >>> shirts = pd.DataFrame({"size": ["S", "M", "S"], "price": [9, 12, 10]})
    >>> space = RowSpace.of([shirts])
    >>> space.numbers(shirts)[1], space.owner
    (array([ 0.,  1., 12.]), array([0, 0, 1]))
    >>> space.rows(np.array([[1.0, 0.0, 8.0]])).to_dict("records")
    [{'size': 'S', 'price': 8}]
    """

    names: Sequence[Any]
    types: Sequence[Any]
    seen: Sequence[Any]  # values of each column that is not made of numbers, None for the others
    owner: Integers
    is_frame: bool

    @classmethod
    def of(cls, tables: Sequence[Any]) -> RowSpace:
        """Learn the columns from all the rows that are to be told in numbers."""
        import pandas as pd

        frames = [make_pandas(table) for table in tables]
        every = pd.concat([f.set_axis(range(f.shape[1]), axis=1) for f in frames], ignore_index=True)
        columns = [every.iloc[:, i] for i in range(every.shape[1])]
        is_number = [pd.api.types.is_numeric_dtype(column.dtype) for column in columns]
        seen = [None if plain else column.unique() for column, plain in zip(columns, is_number, strict=True)]
        widths = [1 if values is None else len(values) for values in seen]
        owner = np.repeat(np.arange(len(widths)), widths)
        return cls(list(frames[-1].columns), list(every.dtypes), seen, owner, isinstance(tables[-1], Frame))

    @property
    def is_numeric(self) -> bool:
        """Whether all columns hold numbers."""
        return all(values is None for values in self.seen)

    def numbers(self, table: Any) -> Floats:
        """Return rows as numbers; a missing number stays NaN."""
        import pandas as pd

        frame = make_pandas(table)
        parts = []
        for i, values in enumerate(self.seen):
            column = frame.iloc[:, i]
            if values is None:
                parts.append(column.to_numpy(dtype=np.float64, na_value=np.nan)[:, None])
            else:
                codes = pd.Index(values).get_indexer(pd.Index(column))
                parts.append((codes[:, None] == np.arange(len(values))).astype(np.float64))
        return np.hstack(parts)

    def rows(self, Y: Floats) -> Any:
        """Return rows of numbers as rows of the table: a frame, or an array where an array was given."""
        import pandas as pd

        cells: dict[Any, Any] = {}
        for i, (kind, values) in enumerate(zip(self.types, self.seen, strict=True)):
            block = Y[:, self.owner == i]
            cells[i] = pd.Series(block[:, 0]).astype(kind) if values is None else values[block.argmax(axis=1)]
        frame = pd.DataFrame(cells)
        frame.columns = pd.Index(self.names)
        return frame if self.is_frame else frame.to_numpy()


def named_columns(table: Any, names: Sequence[str] | None) -> Any:
    """Return the columns of these names; an array, which has none, as a frame with them."""
    if names is None:
        return table
    frame = make_pandas(table)
    return frame[list(names)] if isinstance(table, Frame) else frame.set_axis(list(names), axis=1)


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
        reference_rows = self._space.numbers(ordinary)
        self._reference_rows = drop_noise(reference_rows[~np.isnan(reference_rows).any(axis=1)])

    @property
    def limits(self) -> Limits:
        """Whole numbers, and the 0 and 1 that stand for labels, stay as they were found."""
        P = self._reference_rows
        return Limits(~find_whole_columns(P), np.zeros(P.shape[1]), P.min(axis=0), P.max(axis=0))

    def nearest(self, rows: Integers) -> Floats:
        """Search in the user's columns; every trial is encoded."""
        explained = self._explained
        points = np.full((len(rows), self.X.shape[1]), np.nan)
        known = np.flatnonzero(~np.isnan(self.X[rows]).any(axis=1))
        if len(known) and len(self._reference_rows):
            points[known] = nearest_normal(
                _SpaceScore(explained.score, self._space),
                self.X[rows[known]],
                reference_rows=self._reference_rows,
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
        seen: Any = find_rows_of_reference(score.inner)
        assert score.decode is not None  # `normal_versions` asks before
        background = score.decode(seen.rows)
    return named_columns(background, score.feature_names)


def drop_noise(X: Floats) -> Floats:
    """Return rows with whole numbers where decoding missed them by a rounding error."""
    nearest = np.round(X)
    missed = np.abs(X - nearest) > _ROUNDING * find_column_units(X) if len(X) else nearest != X
    return np.where(missed.any(axis=0), X, nearest)


def _table(space: RowSpace, points: Floats, index: pd.Index | None) -> Any:
    """Return rows with text as a frame, empty where nothing was found."""
    import pandas as pd

    found = np.asarray(np.isfinite(points).all(axis=1))
    frame = pd.DataFrame(space.rows(np.where(found[:, None], points, 0.0)))
    frame.columns = pd.Index(space.names)
    frame = frame if found.all() else frame.where(pd.Series(found), np.nan)
    return frame if index is None else frame.set_axis(index, axis=0)


_BATCH_BYTES = 64 * 2**20
_MOST_DECIMALS = 300  # 10³⁰⁰ is still a number


class Rung(NamedTuple):
    """One way to write numbers: so many digits, rounded away from the row's number, some units further."""

    digits: int | None  # None: all that the number has
    further: int  # units of the last digit; −1 is the neighbour on the row's side of what was found


# The first ways are those in which people are shown numbers; the others are for a row that needs more digits.
SHOWN = (Rung(4, -1), Rung(4, 0), Rung(4, 1), Rung(4, 2), Rung(4, 4), Rung(4, 8))
LADDER = (*SHOWN, Rung(7, 0), Rung(7, 1), Rung(10, 0), Rung(10, 1), Rung(None, 0))


@dataclass(frozen=True)
class Limits:
    """What the cells of each column may be.

    Attributes
    ----------
    is_number
        Mask of the columns whose cells may be rounded.
    steps
        Distance between the values that a column may have, counted from 0; 0 where every number will do.
    low, high
        Smallest and largest value that was seen.
    """

    is_number: Mask
    steps: Floats
    low: Floats
    high: Floats


class Written(NamedTuple):
    """Rows whose changed numbers were written; NaN where no way to write them is normal."""

    points: Floats
    as_shown: Mask  # whether four digits were enough


def written(X: Floats, Y: Floats, limits: Limits, is_normal: Callable[[Floats, Integers], Mask]) -> Written:
    """Write the numbers that differ between rows X and their normal versions Y with as few digits as will do.

    Numbers are rounded away from what the row had, since that is where normal values are. Each way to write
    them is scored; the first that is normal is taken.

    Parameters
    ----------
    is_normal
        Takes points and, for each, the number of the row in X that it was made from; tells which are normal.

    Examples
    --------
    >>> limits = Limits(np.array([True]), np.zeros(1), np.array([-9.0]), np.array([9.0]))
    >>> below = lambda points, rows: points[:, 0] <= np.pi
    >>> written(np.array([[8.0]]), np.array([[np.pi]]), limits, below)
    Written(points=array([[3.141]]), as_shown=array([ True]))
    """
    points = np.empty_like(Y)
    as_shown = np.empty(len(Y), dtype=bool)
    for some in cut_batches(len(Y), 32 * len(LADDER) * Y.shape[1], _BATCH_BYTES):
        trials = np.stack([_write_on_rung(X[some], Y[some], limits, rung) for rung in LADDER])
        way, row = np.nonzero(~np.isnan(trials).any(axis=2))
        good = np.zeros(trials.shape[:2], dtype=bool)  # (ways, rows)
        if len(way):
            good[way, row] = is_normal(trials[way, row], some.start + row)
        first = good.argmax(axis=0)
        found = np.asarray(good.any(axis=0))
        points[some] = np.where(found[:, None], trials[first, np.arange(len(found))], np.nan)
        as_shown[some] = found & (first < len(SHOWN))
    return Written(points, as_shown)


def _write_on_rung(X: Floats, Y: Floats, limits: Limits, rung: Rung) -> Floats:
    """Write the changed numbers in one way; NaN where that is out of range or reads like the row's number."""
    changed = (X != Y) & limits.is_number
    away = np.sign(Y - X)
    units = _find_units(Y, limits.steps, rung.digits)
    value = _scaled(_round_away(_in_units(Y, units), away) + rung.further * away, units)
    before = _scaled(np.round(_in_units(X, units)), units)
    exact = (limits.steps == 0) & (rung.digits is None)
    value = np.where(exact, Y, value)
    wrong = (value < limits.low) | (value > limits.high) | (~exact & (value == before))
    return np.where(changed, np.where(wrong, np.nan, value), Y)


class _Units(NamedTuple):
    """The unit of the last digit of each cell: a step, or a power of ten."""

    steps: Floats  # 0 where it is a power of ten
    decimals: Floats


def _find_units(Y: Floats, steps: Floats, digits: int | None) -> _Units:
    """Count digits from the first that is not 0; the part before the decimal point is kept whole."""
    with np.errstate(divide="ignore"):
        size = np.floor(np.log10(np.abs(Y)))
    size = np.where(np.isfinite(size), size, 0.0)
    decimals = (digits or 1) - 1 - size
    decimals = np.where((size >= 0) & (size < 7), np.maximum(decimals, 0.0), decimals)
    return _Units(np.broadcast_to(steps, Y.shape), np.clip(decimals, -_MOST_DECIMALS, _MOST_DECIMALS))


def _in_units(values: Floats, units: _Units) -> Floats:
    power = 10.0 ** np.abs(units.decimals)
    by_power = np.where(units.decimals >= 0, values * power, values / power)
    return np.where(units.steps > 0, values / np.where(units.steps > 0, units.steps, 1.0), by_power)


def _scaled(counts: Floats, units: _Units) -> Floats:
    """Undo `_in_units`."""
    power = 10.0 ** np.abs(units.decimals)
    # A division, since multiples of 0.001 are not: 3142 / 1000 is the float that "3.142" is read as.
    by_power = np.where(units.decimals >= 0, counts / power, counts * power)
    return np.where(units.steps > 0, counts * units.steps, by_power)


def _round_away(counts: Floats, away: Floats) -> Floats:
    return np.where(away > 0, np.ceil(counts), np.floor(counts))
