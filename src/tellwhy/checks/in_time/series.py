"""Everything that happens in the columns of a series, as findings: spikes, shifts, stuck readings, drifts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from tellwhy.checks.in_time.baselines import BENDS, chosen_bend
from tellwhy.checks.in_time.clock import Stamps, stamp_words
from tellwhy.checks.in_time.seasons import Season, find_season, on_the_clock
from tellwhy.checks.in_time.shifts import Change, find_changes
from tellwhy.checks.in_time.spikes import Bump, find_bumps
from tellwhy.checks.mistakes import DRIFT, LEVEL_SHIFT, PASSING_SHIFT, SPIKE, STUCK
from tellwhy.checks.stuck import find_stuck
from tellwhy.core.score import Floats, Integers
from tellwhy.results.result import MISSING, Finding

FEWEST = 20  # readings of a series
CHANCE = 0.05  # of any finding of a kind in a series where nothing happened
LONGEST_SPIKE = 2  # readings that a spike lasts at most
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

    def when(self, start: int, end: int) -> dict[str, Any]:
        """The first and the last of some readings: moments, or what the rows are called."""
        is_clock = self.stamps.shown is not None
        return {"first": self.begin(start), "last": self.begin(end - 1), "is_clock": is_clock}

    def begin(self, start: int) -> str:
        """The time of a reading."""
        row = int(self.rows[start])
        shown = self.stamps.shown
        return self.names(row) if shown is None else stamp_words(shown[row])

    def season(self, start: int, kind: str) -> dict[str, Any]:
        """The season with which readings are compared, and a moment in it; none where there is none."""
        if not kind or self.stamps.moments is None:
            return {"season": ""}
        moment = self.stamps.moments[self.rows[start]].astype("datetime64[s]")
        return {"season": kind, "moment": str(moment)}


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
    farthest = int(np.argmax(np.abs(series.values[part] - usual[part])))
    middle = (bump.start + bump.end - 1) // 2
    return Finding(
        (SPIKE if length <= LONGEST_SPIKE else PASSING_SHIFT).kind,
        (series.name,),
        tuple(int(row) for row in series.rows[part]),
        {
            **series.when(bump.start, bump.end),
            **series.season(middle, season.kind),
            "size": float(np.mean(series.values[part] - usual[part])),
        },
        cells={series.name: float(series.values[part][farthest])},
        surprise=bump.surprise,
    )


def _change(series: Series, change: Change, size: float) -> Finding:
    facts = {"size": size, "first": series.begin(change.start)}
    if change.kind == DRIFT.kind:
        last = series.begin(len(series.values) - 1)
        return Finding(DRIFT.kind, (series.name,), (), {**facts, "last": last})
    # A new level makes none of its rows odd: it is told, and no alarm.
    row = int(series.rows[change.start])
    after = {"n": len(series.values) - change.start}
    return Finding(LEVEL_SHIFT.kind, (series.name,), (row,), facts, after)


def _stuck(series: Series, level: float) -> Iterator[Finding]:
    for run in find_stuck(series.values, level):
        yield Finding(
            STUCK.kind,
            (series.name,),
            tuple(int(row) for row in series.rows[run.start + 1 : run.end]),
            {**series.when(run.start, run.end), "value": run.value},
            cells={series.name: run.value},
            form="stuck_reading",
            n=run.end - run.start,
            action=MISSING,
            surprise=run.surprise,
        )
