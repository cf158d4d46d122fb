"""The table as the checks see it: numbers, dates as days, labels as codes; each cell read once.

Levels are coded alike in a table and in its reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd

from tellwhy.checks.copies import first_of_copies, hashed_cells
from tellwhy.checks.mistakes import MISTAKES
from tellwhy.checks.outer_values import without_far
from tellwhy.checks.writing import Writing, write_column
from tellwhy.core.arrays import spread_evenly
from tellwhy.core.score import Floats, Integers
from tellwhy.data.columns.names import has_id_name
from tellwhy.data.columns.reading import COMPUTED, Labels, find_stored_kind, read_labels
from tellwhy.data.columns.times import WrittenTimes
from tellwhy.results.result import MISSING, Finding
from tellwhy.storage import clock
from tellwhy.words.numbers import write_clock

Rule = TypeVar("Rule")
SAMPLE = 20_000  # rows on which candidates are chosen; claims are verified on all
LONGEST_CELL = 200  # letters of a cell that a finding keeps
_MOST_DECIMALS = 6
_FEW_LEVELS = 200
_FEWEST_COUNTED = 20
_NUMBERED = 0.9


class HasKind(Protocol):
    """What a column is: "number", "date", "category", …; `Role` of the reader of columns has it."""

    @property
    def kind(self) -> str:
        """The kind in one word."""


@dataclass(frozen=True)
class _Kind:
    kind: str


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column of numbers (or of dates, as days since 1970), NaN where a cell is missing."""

    values: Floats

    @cached_property
    def filled(self) -> Floats:
        """The values that are there, in rising order."""
        return np.sort(self.values[~np.isnan(self.values)])

    @cached_property
    def n_different(self) -> int:
        """How many different values there are."""
        return n_different(self.filled)

    @cached_property
    def step(self) -> float:
        """The least difference with which values are written: 1 for whole numbers, 0.01 for cents.

        At least the usual distance between neighbouring values of a sample: the coarser step makes
        coincidences likelier, so that fewer of them are taken for more than chance.
        """
        probe = self.filled[spread_evenly(len(self.filled), SAMPLE)]
        return max(10.0 ** -decimals_of(probe), _usual_gap(probe)) if len(probe) else 1.0

    @cached_property
    def grain(self) -> float:
        """Unit of the last decimal: 0.01 for cents; 0 for numbers that are not rounded."""
        probe = self.filled[spread_evenly(len(self.filled), SAMPLE)]
        decimals = decimals_of(probe)
        return 0.0 if decimals >= _MOST_DECIMALS else 10.0**-decimals


def day_text(days: float) -> str:
    """Days since 1970 as a date, with the time of day where it is not midnight."""
    moment = np.datetime64("1970-01-01", "s") + np.timedelta64(round(days * 86_400), "s")
    return str(moment).replace("T", " ").removesuffix(" 00:00:00")


def n_different(rising: Floats) -> int:
    """How many different values are among values in rising order.

    Examples
    --------
    >>> n_different(np.array([1.0, 1.0, 2.5])), n_different(np.zeros(0))
    (2, 0)
    """
    return int(np.count_nonzero(np.diff(rising))) + 1 if len(rising) else 0


def decimals_of(values: Floats) -> int:
    """How many decimals 99 % of the values have, at most 6.

    Examples
    --------
    >>> decimals_of(np.array([1.5, 2.25, 3.0]))
    2
    """
    for decimals in range(_MOST_DECIMALS):
        rounded = np.round(values, decimals)
        if np.mean(np.abs(rounded - values) <= 1e-9 * np.maximum(np.abs(values), 1)) >= 0.99:
            return decimals
    return _MOST_DECIMALS


def _usual_gap(rising: Floats) -> float:
    gaps = np.diff(rising)
    gaps = gaps[gaps > 0]
    return float(np.median(gaps)) if len(gaps) else 0.0


@dataclass(frozen=True, eq=False)
class Facts:
    """The columns of a table, by what they are. Cells that a finding explains are missing."""

    frame: pd.DataFrame
    roles: Mapping[str, HasKind]
    numbers: dict[str, Numbers]
    dates: dict[str, Numbers]
    labels: dict[str, Labels]
    now: float  # days since 1970
    raw: pd.DataFrame  # as written, before columns were read
    copies: frozenset[int] = frozenset()  # rows that repeat another row
    rules: dict[str, Any] = field(default_factory=dict)  # what checks learned from these rows
    explained: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # cells that findings emptied
    writings: dict[str, Writing] = field(default_factory=dict)  # columns as written, once asked for

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.frame)

    @cached_property
    def sample(self) -> Integers:
        """Positions of the rows on which candidates are chosen, spread evenly, in order."""
        return spread_evenly(self.n, SAMPLE)

    def value(self, column: str, number: float) -> float | str:
        """A number of a column as a finding holds it: itself, or a date or a time of day as text."""
        if column in self.dates:
            return day_text(number)
        return write_clock(number) if self.is_clock(column) else float(number)

    def is_clock(self, column: str) -> bool:
        """Whether the numbers of a column are hours of times of day."""
        return bool(getattr(self.roles[column], "words", "") == WrittenTimes.words)

    def ends(self, column: str, rising: Floats) -> dict[str, float | str]:
        """The least and the greatest of sorted values of a column that are not far from all the others."""
        rising = without_far(rising)
        return {"low": self.value(column, rising[0]), "high": self.value(column, rising[-1])}

    def cell(self, column: str, row: int) -> bool | float | str | None:
        """One cell as it was given: a number, a text, a date as text; None where it is missing."""
        if column in self.dates and not np.isnan(self.dates[column].values[row]):
            return day_text(self.dates[column].values[row])
        cell = self.frame[column].iloc[row]
        if self.is_clock(column) and np.isfinite(cell):
            return write_clock(float(cell))
        if isinstance(cell, (bool, np.bool_)):
            return bool(cell)
        if isinstance(cell, (int, float, np.integer, np.floating)) and np.isfinite(cell):
            return float(cell)
        return None if pd.api.types.is_scalar(cell) and pd.isna(cell) else str(cell)[:LONGEST_CELL]

    def cells(self, columns: Iterable[str], row: int) -> dict[str, bool | float | str | None]:
        """Some cells of one row, by column."""
        return {column: self.cell(column, row) for column in columns}

    def measured(self) -> dict[str, Numbers]:
        """Columns of numbers and of dates."""
        return {**self.numbers, **self.dates}

    def writing(self, column: str) -> Writing:
        """A column as it was written, without the cells that a finding explains."""
        if column not in self.writings:
            cells = self.raw[column] if column in self.raw else self.frame[column]
            gone = np.array(self.explained.get(column, ()), dtype=np.int64)
            self.writings[column] = write_column(cells, gone, self.voices)
        return self.writings[column]

    @cached_property
    def voices(self) -> np.ndarray | None:
        """Which rows are counted: of rows that are copies of each other only the first; None for all.

        Copies may have numbers of their own.
        """
        names = [name for name in self.frame.columns if self.roles[name].kind != "identifier"]
        return first_of_copies([hashed_cells(self.frame[name]) for name in names])

    def recall(self, learn: Callable[[Facts], Rule]) -> Rule:
        """Return what a check learned from these rows; it learns when it is first asked."""
        if learn.__name__ not in self.rules:
            self.rules[learn.__name__] = learn(self)
        rule: Rule = self.rules[learn.__name__]
        return rule

    def like(self, other: Facts) -> Facts:
        """Keep the columns that were read as the same thing in both tables: others cannot be compared."""
        numbers = {c: v for c, v in self.numbers.items() if c in other.numbers}
        dates = {c: v for c, v in self.dates.items() if c in other.dates}
        labels = {c: v for c, v in self.labels.items() if c in other.labels}
        if (len(numbers), len(dates), len(labels)) == (len(self.numbers), len(self.dates), len(self.labels)):
            return self
        return replace(self, numbers=numbers, dates=dates, labels=labels, rules={})

    def without(self, findings: list[Finding]) -> Facts:
        """Return the facts with the cells missing that these findings explain."""
        gone: dict[str, list[int]] = {}
        copies = set(self.copies)
        for finding in findings:
            if MISTAKES[finding.kind].is_repeat:
                copies.update(finding.rows)
            if finding.action == MISSING:
                gone.setdefault(finding.columns[0], []).extend(finding.rows)
        if not gone and len(copies) == len(self.copies):
            return self
        return replace(
            self,
            rules={},
            writings={},
            explained={c: (*self.explained.get(c, ()), *gone.get(c, ())) for c in {*self.explained, *gone}},
            copies=frozenset(copies),
            numbers={c: _emptied_numbers(v, gone.get(c)) for c, v in self.numbers.items()},
            dates={c: _emptied_numbers(v, gone.get(c)) for c, v in self.dates.items()},
            labels={c: _emptied_labels(v, gone.get(c)) for c, v in self.labels.items()},
        )


def _emptied_numbers(numbers: Numbers, rows: list[int] | None) -> Numbers:
    if not rows:
        return numbers
    values = numbers.values.copy()
    values[rows] = np.nan
    return Numbers(values)


def _emptied_labels(labels: Labels, rows: list[int] | None) -> Labels:
    if not rows:
        return labels
    codes = labels.codes.copy()
    codes[rows] = -1
    return Labels(codes, labels.names)


def facts_of(
    frame: pd.DataFrame,
    roles: Mapping[str, HasKind] | None,
    *,
    now: datetime | None = None,
    raw: pd.DataFrame | None = None,
) -> Facts:
    """Read every column once, as what its role says; roles come from the columns' types where not given."""
    known = dict(roles or {})
    for column in frame.columns:
        if column not in known:
            known[column] = _Kind(default_kind(frame[column]))
    numbers: dict[str, Numbers] = {}
    dates: dict[str, Numbers] = {}
    labels: dict[str, Labels] = {}
    for column in frame.columns:
        series = frame[column]
        kind = known[column].kind
        if getattr(known[column], "words", "") == COMPUTED:
            continue  # nobody wrote these numbers: none is a mistake
        if kind == "number" and _is_numeric(series):
            numbers[column] = Numbers(_floats(series))
        elif kind == "date" and pd.api.types.is_datetime64_any_dtype(series.dtype):
            dates[column] = Numbers(_days(series))
        elif kind in ("category", "boolean"):
            labels[column] = read_labels(frame, column)
    for column in [name for name, found in numbers.items() if counts_rows(found.values)]:
        known[column] = _Kind("identifier")
        del numbers[column]
    written = frame if raw is None else raw
    return Facts(frame, known, numbers, dates, labels, _days_of(now or clock.now().astimezone()), written)


def _days_of(moment: datetime) -> float:
    """Days since 1970, on the clock of whoever wrote the moment."""
    return (moment.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds() / 86_400


def counts_rows(values: Floats) -> bool:
    """Tell whether whole numbers go up by the same step nearly everywhere: they number the rows.

    Examples
    --------
    >>> counts_rows(np.r_[np.arange(100.0), 17, np.arange(200.0, 300)]), counts_rows(np.ones(100))
    (True, False)
    """
    filled = values[~np.isnan(values)]
    if len(filled) < _FEWEST_COUNTED or (filled[:100] != np.round(filled[:100])).any():
        return False
    steps = np.diff(filled)
    usual = float(np.median(steps))
    return usual != 0 and float(np.mean(steps == usual)) >= _NUMBERED


def _is_numeric(series: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(series.dtype) and not pd.api.types.is_bool_dtype(series.dtype)


def _floats(series: pd.Series) -> Floats:
    values = series.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isinf(values), np.nan, values) if np.isinf(values).any() else values


def _days(series: pd.Series) -> Floats:
    stamps = series.dt.tz_localize(None).to_numpy(dtype="datetime64[us]")
    days = (stamps - np.datetime64("1970-01-01", "us")) / np.timedelta64(1, "D")
    return np.asarray(days, dtype=np.float64)


def default_kind(series: pd.Series) -> str:
    """Tell what a column is from its type alone, for callers that did not read columns before.

    Examples
    --------
    >>> default_kind(pd.Series([1.5, 2.5, 1.5])), default_kind(pd.Series(["a", "b", "a"]))
    ('number', 'category')
    """
    filled = series.dropna()
    try:
        n_distinct = filled.nunique()
        kind = find_stored_kind(series)
    except (TypeError, ValueError):  # lists and dicts cannot be counted; complex numbers are not compared
        return "text"
    if n_distinct < 2:
        return "constant" if n_distinct else "empty"
    is_own = n_distinct == len(filled)
    if kind == "number":
        is_whole = pd.api.types.is_integer_dtype(series.dtype)
        return "identifier" if is_own and is_whole and has_id_name(str(series.name)) else "number"
    if kind == "text":
        few = n_distinct <= max(_FEW_LEVELS, len(filled) // 20)
        return "identifier" if is_own else "category" if few else "text"
    return kind


@dataclass(frozen=True, eq=False)
class Coded:
    """`names[seen[i]]` is what row i of the table holds, code −1 where it is missing; `known` alike."""

    seen: Integers
    known: Integers
    names: tuple[Any, ...]  # texts; of numbers themselves

    def counts(self) -> Integers:
        """How often each level occurs in the rows to learn from."""
        return np.bincount(self.known[self.known >= 0], minlength=len(self.names))


def coded_labels(seen: Facts, known: Facts, column: str) -> Coded:
    """Labels of a column, coded alike in both tables."""
    labels = seen.labels[column]
    if seen is known:
        return Coded(labels.codes, labels.codes, labels.names)
    other = known.labels[column]
    names = tuple(dict.fromkeys([*other.names, *labels.names]))
    place = {name: i for i, name in enumerate(names)}
    return Coded(_recoded(labels, place), _recoded(other, place), names)


def _recoded(labels: Labels, place: dict[str, int]) -> Integers:
    lookup = np.array([*(place[name] for name in labels.names), -1], dtype=np.int64)
    return lookup[labels.codes]


def coded_numbers(seen: Facts, known: Facts, column: str) -> Coded:
    """Different values of a column of numbers or dates, as levels."""
    values = seen.measured()[column].values
    both = values if seen is known else np.concatenate([values, known.measured()[column].values])
    codes, found = pd.factorize(both)
    codes = codes.astype(np.int64)
    names = tuple(seen.value(column, float(value)) for value in found)
    return Coded(codes[: len(values)], codes if seen is known else codes[len(values) :], names)


def code_column(facts: Facts, column: str) -> Coded:
    """Labels or different numbers of one table as levels."""
    if column in facts.labels:
        return coded_labels(facts, facts, column)
    return coded_numbers(facts, facts, column)
