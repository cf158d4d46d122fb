"""Everything that happens in the columns of a series, as findings: spikes, shifts, stuck readings, drifts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from tellwhy.checks.findings import MISSING, Finding
from tellwhy.checks.in_time.baselines import BENDS, chosen_bend
from tellwhy.checks.in_time.clock import Stamps, span_words, stamp_words, usual_time
from tellwhy.checks.in_time.seasons import Season, find_season, on_the_clock
from tellwhy.checks.in_time.shifts import Change, find_changes
from tellwhy.checks.in_time.spikes import Bump, find_bumps
from tellwhy.checks.stuck import find_stuck
from tellwhy.checks.words import number_text
from tellwhy.core.score import Floats, Integers

FEWEST = 20  # readings of a series
CHANCE = 0.05  # of any finding of a kind in a series where nothing happened
SPIKE = 2  # readings that a spike lasts at most
MOST_EVENTS = 20  # of a column: what happens more often is what the column does
FEWEST_VALUES = 5
MULTIPLE = 3.0  # of the median that the highest readings have, for logarithms to matter


@dataclass(frozen=True, eq=False)
class Series:
    """One column in the order of time, without its missing cells.

    Attributes
    ----------
    name
        Of the column.
    values, rows
        Readings, and the row of each, counted in the order of time.
    stamps
        When all rows were taken.
    names
        What a row is called, where time is a plain number.
    """

    name: str
    values: Floats
    rows: Integers
    stamps: Stamps
    names: Callable[[int], str]

    def when(self, start: int, end: int) -> str:
        """The time of readings, in words."""
        shown = self.stamps.shown
        if shown is not None:
            return span_words(shown[self.rows], start, end)
        first = self.names(int(self.rows[start]))
        last = self.names(int(self.rows[end - 1]))
        return f"at {first}" if first == last else f"from {first} to {last}"

    def begin(self, start: int) -> str:
        """The time of a reading, in words."""
        row = int(self.rows[start])
        shown = self.stamps.shown
        return self.names(row) if shown is None else stamp_words(shown[row])

    def beside(self, start: int, kind: str) -> str:
        """What readings are compared with, in words."""
        if not kind or self.stamps.moments is None:
            return "what is around it"
        return f"what {usual_time(self.stamps.moments[self.rows[start]], kind)} have"


@dataclass(frozen=True)
class SeriesFindings:
    """What was found, which season each column has, and what is irregular about the times."""

    findings: tuple[Finding, ...]
    seasons: dict[str, str]
    notices: tuple[str, ...] = ()


def find_events(frame: pd.DataFrame, stamps: Stamps, names: Callable[[int], str]) -> SeriesFindings:
    """Look at every column of numbers.

    Parameters
    ----------
    frame
        Rows in the order of time, their columns read as numbers; explained cells are missing.
    stamps
        When they were taken.
    names
        What each row is called.
    """
    columns = [
        str(name)
        for name in frame.columns
        if is_numeric_dtype(frame[name]) and not is_bool_dtype(frame[name])
    ]
    numbers = [frame[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in columns]
    stamps = on_the_clock(stamps, numbers)
    found: list[Finding] = []
    seasons: dict[str, str] = {}
    level = float(-np.log(CHANCE) + np.log(max(len(columns), 1)))
    for name, values in zip(columns, numbers, strict=True):
        rows = np.flatnonzero(np.isfinite(values))
        series = Series(name, values[rows], rows, stamps, names)
        if len(rows) >= FEWEST and len(np.unique(series.values)) >= FEWEST_VALUES:
            events, kind = _of_column(series, level)
            found += events
            seasons |= {name: kind} if kind else {}
    return SeriesFindings(tuple(found), seasons, stamps.notices)


def without_cells(frame: pd.DataFrame, findings: Sequence[Finding]) -> pd.DataFrame:
    """The table with the cells missing that a finding explains; nothing that is passed in is modified."""
    table = frame.copy(deep=False)
    for finding in findings:
        if finding.action == MISSING:
            mask = np.zeros(len(frame), dtype=np.bool_)
            mask[list(finding.rows)] = True
            table[finding.columns[0]] = table[finding.columns[0]].mask(mask)
    return table


def season_notices(found: SeriesFindings) -> list[str]:
    """Tell which columns are compared with what their time usually has."""
    kinds = dict.fromkeys(found.seasons.values())
    told = {kind: [name for name, own in found.seasons.items() if own == kind] for kind in kinds}
    return [
        f"Compared with the same {kind} in other cycles: {', '.join(names)}." for kind, names in told.items()
    ]


def _of_column(series: Series, level: float) -> tuple[list[Finding], str]:
    stuck = list(_stuck(series, level))
    is_free = ~np.isin(series.rows, [row for finding in stuck for row in finding.rows])
    free = Series(series.name, series.values[is_free], series.rows[is_free], series.stamps, series.names)
    if len(free.values) < FEWEST:
        return stuck, ""
    bend = BENDS[_bend(free.values)]
    bent = bend.there(free.values)
    seconds = None if free.stamps.seconds is None else free.stamps.seconds[free.rows]
    season = find_season(bent, seconds)
    rest = bent - season.level
    bumps = find_bumps(rest, season.scale, level + float(np.log(len(rest))))[:MOST_EVENTS]
    # Without passing events, so that they do not look like changes of level.
    calm = rest.copy()
    for bump in bumps:
        calm[bump.start : bump.end] = np.nan
    changes = find_changes(calm, level)
    told = [_bump(free, season, bump, bend.back(bent - bump.size)) for bump in bumps]
    told += [_change(free, change, _size(bend.back, rest, change)) for change in changes]
    return [*stuck, *told], season.kind


def _bend(values: Floats) -> str:
    """Form in which readings are compared: their own, unless they span multiples of each other."""
    if np.quantile(values, 0.99) < MULTIPLE * abs(float(np.median(values))):
        return "as it is"
    return chosen_bend(values, np.zeros(len(values), dtype=np.int64), 1)


def _size(back: Callable[[Floats], Floats], rest: Floats, change: Change) -> float:
    """A change in the units of the column: from the usual level to the usual level and the change."""
    middle = float(np.median(rest))
    return float(back(np.array([middle + change.size]))[0] - back(np.array([middle]))[0])


def _bump(series: Series, season: Season, bump: Bump, usual: Floats) -> Finding:
    part = slice(bump.start, bump.end)
    length = bump.end - bump.start
    size = float(np.mean(series.values[part] - usual[part]))
    side = "above" if size > 0 else "below"
    beside = series.beside((bump.start + bump.end - 1) // 2, season.kind)
    what = f"{series.name} {number_text(abs(size))} {side} {beside}"
    text = f"{_count(length)}: {series.when(bump.start, bump.end)}: {what}."
    rows = tuple(int(row) for row in series.rows[part])
    kind = "spike" if length <= SPIKE else "passing_shift"
    farthest = int(np.argmax(np.abs(series.values[part] - usual[part])))
    example = f"{series.name} = {number_text(float(series.values[part][farthest]))}"
    return Finding(kind, (series.name,), rows, text, example, surprise=bump.surprise)


def _change(series: Series, change: Change, size: float) -> Finding:
    amount = number_text(abs(size))
    begin = series.begin(change.start)
    n_rows = len(series.values) - change.start
    if change.kind == "drift":
        words = "rises" if size > 0 else "falls"
        end = series.begin(len(series.values) - 1)
        text = f"{series.name} slowly {words} by {amount} from {begin} to {end}."
        return Finding("drift", (series.name,), (), text, "")
    words = "higher" if size > 0 else "lower"
    text = f"{begin}: from here on {series.name} is {amount} {words} than before ({n_rows:,} rows)."
    row = int(series.rows[change.start])
    # A new level makes none of its rows odd: it is told, and no alarm.
    return Finding("level_shift", (series.name,), (row,), text, "")


def _stuck(series: Series, level: float) -> Iterator[Finding]:
    for run in find_stuck(series.values, level):
        value = number_text(run.value)
        when = series.when(run.start, run.end)
        text = f"{_count(run.end - run.start)}: {when}: {series.name} is stuck at {value}."
        rows = tuple(int(row) for row in series.rows[run.start + 1 : run.end])
        yield Finding("stuck", (series.name,), rows, text, f"{series.name} = {value}", MISSING, run.surprise)


def _count(n: int) -> str:
    return "1 row" if n == 1 else f"{n:,} rows"
