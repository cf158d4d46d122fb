"""Hours, days and summer time.

What a time of the day or of the week usually has, where the data show that it has something of its own.

The readings of each hour of the week (or of the day, or each day of the week) have a middle of their own,
learned as a median, so that one odd week does not move it. Whether that helps is found out on weeks that were
left out: only if their readings are nearer to what other weeks had then than to the middle of all is there a
season.

Series in UTC whose days follow a clock that is changed twice a year.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from tellwhy.checks.in_time.clock import Moments, Stamps
from tellwhy.core.score import Floats, Integers
from tellwhy.results.notice import Notice

HOUR = 3600.0
DAY = 24 * HOUR
WEEK = 7 * DAY
THURSDAY = 3 * DAY  # the first of January 1970 was one: three days after Monday
MOST_FOLDS = 5
GAIN = 0.95  # of the spread without a season, to be reached on what was left out
BETTER = 0.97  # of the spread of a simpler season
FARTHEST = 5.0  # times the median distance
LEAST_FILLED = 0.6  # share of the slots with enough readings


class Cycle(NamedTuple):
    """A cycle, the slots that it is cut into, and how many cycles there must be."""

    kind: str
    period: float
    slot: float
    least_cycles: int


# From simple to rich.
CYCLES = (
    Cycle("hour of the day", DAY, HOUR, 4),
    Cycle("day of the week", WEEK, DAY, 4),
    Cycle("hour of the week", WEEK, HOUR, 3),
)


@dataclass(frozen=True, eq=False)
class Season:
    """What each reading's time usually has.

    Attributes
    ----------
    kind
        "hour of the week", "hour of the day", "day of the week", or "" where there is no season.
    level
        What the time of each reading has more than the middle of all times.
    scale
        How much readings of that time vary, beside all: 1 on average.
    """

    kind: str
    level: Floats
    scale: Floats


def find_season(values: Floats, seconds: Floats | None) -> Season:
    """Find the season that foretells left-out cycles best.

    Parameters
    ----------
    values
        Readings in the order of time, none missing.
    seconds
        Time on the clock of each, in seconds since 1970; None where time is a plain number.
    """
    none = Season("", np.zeros(len(values)), np.ones(len(values)))
    if seconds is None or len(values) < 24:
        return none
    best = none
    least = np.inf
    # Weeks, or days where there are too few of them, may differ in level.
    long = [cycle for cycle in CYCLES if _is_possible(cycle, seconds)][-1:]
    flat = values
    for cycle in long:
        flat = _without_trend(values, _Slots.of(cycle, seconds).cycles)
    for cycle in CYCLES:
        if not _is_possible(cycle, seconds):
            continue
        slots = _Slots.of(cycle, seconds)
        left_out = _left_out_spread(flat, slots)
        if left_out <= GAIN * _spread(flat) and left_out <= BETTER * least:
            best = Season(cycle.kind, slots.level(flat), slots.scale(flat))
            least = left_out
    return best


def season_gain(values: Floats, seconds: Floats) -> float:
    """Spread of left-out readings around the best season, beside that without one; 1 where there is none."""
    if len(values) < 24:
        return 1.0
    possible = [cycle for cycle in CYCLES if _is_possible(cycle, seconds)]
    if not possible:
        return 1.0
    flat = _without_trend(values, _Slots.of(possible[-1], seconds).cycles)
    whole = _spread(flat)
    left_out = [_left_out_spread(flat, _Slots.of(cycle, seconds)) for cycle in possible]
    return min(min(left_out) / whole, 1.0) if whole > 0 else 1.0


def _is_possible(cycle: Cycle, seconds: Floats) -> bool:
    """Whether readings are close enough together, and cover enough cycles."""
    steps = np.diff(seconds)
    step = float(np.median(steps[steps > 0])) if (steps > 0).any() else np.inf
    if step > 1.01 * cycle.slot or (seconds[-1] - seconds[0]) < (cycle.least_cycles - 0.05) * cycle.period:
        return False
    if cycle.slot == DAY and step < DAY / 4:  # an hourly series has its days in the hours of the week
        return False
    slots = _Slots.of(cycle, seconds)
    seen = pd.Series(slots.cycles).groupby(slots.slots).nunique()
    n_enough = int((seen >= min(3, cycle.least_cycles)).sum())
    return bool(n_enough >= LEAST_FILLED * slots.n_slots)


@dataclass(frozen=True, eq=False)
class _Slots:
    """Slot and number of the cycle of each reading, and where in the cycle it is, in slots."""

    n_slots: int
    slots: Integers
    cycles: Integers
    places: Floats
    is_fine: bool  # whether there are several readings in a slot, so that levels are joined by lines

    @classmethod
    def of(cls, cycle: Cycle, seconds: Floats) -> _Slots:
        since = seconds + THURSDAY
        within = since % cycle.period
        steps = np.diff(seconds)
        step = float(np.median(steps[steps > 0]))
        n_slots = round(cycle.period / cycle.slot)
        return cls(
            n_slots,
            np.minimum((within // cycle.slot).astype(np.int64), n_slots - 1),
            (since // cycle.period).astype(np.int64),
            within / cycle.slot,
            step < 0.75 * cycle.slot,
        )

    def level(self, values: Floats, known: Integers | None = None) -> Floats:
        """Level of the time of every reading, learned from some of them, around a middle of 0."""
        some = np.arange(len(values)) if known is None else known
        medians = _by_slot(values[some], self.slots[some], self.n_slots)
        medians -= np.median(medians)
        if not self.is_fine:
            return medians[self.slots]
        # Medians stand in the middle of their slot; the last slot is followed by the first.
        around = np.concatenate([medians[-1:], medians, medians[:1]])
        return np.interp(self.places, np.arange(-1, self.n_slots + 1) + 0.5, around)

    def scale(self, values: Floats) -> Floats:
        """Spread of the readings of each time, beside all, drawn towards 1 where they are few."""
        distance = np.abs(values - self.level(values))
        whole = float(np.median(distance))
        if whole <= 0:
            return np.ones(len(values))
        n = np.bincount(self.slots, minlength=self.n_slots)
        own = _by_slot(distance, self.slots, self.n_slots) / whole
        weight = n / (n + 10.0)
        drawn = np.exp(weight * np.log(np.maximum(own, 0.05)))
        return drawn[self.slots]


def _by_slot(values: Floats, slots: Integers, n_slots: int) -> Floats:
    """Median of each slot; one without readings has what the slots before and after it have."""
    found = np.full(n_slots, np.nan)
    grouped = pd.Series(values).groupby(slots).median()
    found[grouped.index.to_numpy(dtype=np.int64)] = grouped.to_numpy()
    there = np.flatnonzero(np.isfinite(found))
    return np.interp(np.arange(n_slots), there, found[there], period=n_slots)


def _without_trend(values: Floats, cycles: Integers) -> Floats:
    """Readings less the middle of their cycle, with a line from the middle of one cycle to the next."""
    grouped = pd.Series(values).groupby(cycles)
    middles = grouped.median().to_numpy()
    places = pd.Series(np.arange(len(values))).groupby(cycles).mean().to_numpy()
    return values - np.interp(np.arange(len(values)), places, middles)


def _left_out_spread(values: Floats, slots: _Slots) -> float:
    """Spread around levels that were learned from other cycles."""
    numbers = pd.factorize(slots.cycles)[0]
    n_folds = min(MOST_FOLDS, int(numbers.max()) + 1)
    rest = np.empty(len(values))
    for fold in range(n_folds):
        out = numbers % n_folds == fold
        rest[out] = (values - slots.level(values, np.flatnonzero(~out)))[out]
    return _spread(rest)


def _spread(values: Floats) -> float:
    """Mean distance from the middle, in which none counts more than some times the usual one.

    A median alone would not see that a season is wrong on the two days of the weekend.
    """
    distance = np.abs(values - np.median(values))
    return float(np.minimum(distance, FARTHEST * np.median(distance)).mean())


# One zone for each rule of when clocks are changed.
RULES = {"Europe": "Europe/Berlin", "North America": "America/New_York"}
MOST_COLUMNS = 5


def on_the_clock(stamps: Stamps, columns: Sequence[Floats]) -> Stamps:
    """Add an hour in summer to times in UTC, by the rule that makes the days of the series most alike.

    Files write times with an offset (+01:00, +02:00), of which readers keep the moment in UTC alone.

    Parameters
    ----------
    stamps
        When rows were taken.
    columns
        Columns of numbers in that order; NaN where a cell is missing.
    """
    if not stamps.is_utc or stamps.moments is None:
        return stamps
    found = {rule: _with_summer(stamps.moments, zone) for rule, zone in RULES.items()}
    changed = {rule: clock for rule, clock in found.items() if _is_changed(stamps.moments, clock)}
    least = BETTER * _gain(stamps.moments, columns)
    best = stamps
    for rule, clock in changed.items():
        gain = _gain(clock, columns)
        if gain <= least:
            least = gain
            told = Notice("summer_time", {"rule": rule})
            best = replace(stamps, moments=clock, written=stamps.moments, said=(*stamps.said, told))
    return best


def _with_summer(moments: Moments, zone: str) -> Moments:
    local = pd.DatetimeIndex(moments).tz_localize("UTC").tz_convert(zone)
    shift = (local.tz_localize(None) - pd.DatetimeIndex(moments)).to_numpy()
    return np.asarray(moments + (shift - shift.min()))


def _is_changed(moments: Moments, clock: Moments) -> bool:
    """Whether the clock was changed within the series."""
    return bool(np.ptp((clock - moments).astype(np.int64)) > 0)


def _gain(moments: Moments, columns: Sequence[Floats]) -> float:
    seconds = moments.astype("datetime64[ns]").astype(np.int64) / 1e9
    parts = []
    for values in columns[:MOST_COLUMNS]:
        there = np.isfinite(values)
        parts.append(season_gain(values[there], seconds[there]))
    return float(np.mean(parts)) if parts else 1.0
