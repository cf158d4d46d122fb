"""Cycles of a series: days, weeks and years of the calendar, or the period that the series itself shows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.ndimage import median_filter

from tellwhy.core.score import Floats
from tellwhy.detectors.series.measures import median_distance, spread_of

DAY = 86_400.0
WEEK = 7 * DAY
YEAR = 365.2425 * DAY
SHORTEST = 8  # readings in a cycle
REPEATED = 4  # cycles that must be there, to be seen
YEARS = 3
ALIKE = 0.2  # autocorrelation of the readings one period apart
PHASES = 96  # of a day
PHASES_OF_WEEK = 672
OF_YEAR = 52
LEFT = 0.8  # of the median distance, after the profile was taken away: more, and there is no cycle
BETTER = 0.9  # of it, for a longer cycle to be preferred to a shorter one
FINER = 0.97  # of the error on left-out cycles, for a profile of every reading to be preferred


@dataclass(frozen=True, eq=False)
class Cycle:
    """A course that repeats itself: its length in readings, and its value at each reading."""

    period: int
    profile: Floats


def find_cycle(x: Floats, step: float | None) -> Cycle | None:
    """Return the cycle that explains most, None where none does.

    Parameters
    ----------
    x
        Readings in the order of time, at equal steps.
    step
        Seconds between two readings, where they are moments of a calendar.
    """
    found = None
    left = LEFT * median_distance(x)
    for period in _candidates(x, step):
        is_year = step is not None and period == round(YEAR / step)
        if period < SHORTEST or len(x) < (YEARS if is_year else REPEATED) * period:
            continue
        profile = _profile(x, period, is_year=is_year)
        remains = median_distance(x - profile)
        if remains < left:
            found = Cycle(period, profile)
            left = BETTER * remains
    return found


def _candidates(x: Floats, step: float | None) -> list[int]:
    calendar = [] if step is None else [round(length / step) for length in (DAY, WEEK, YEAR)]
    return [find_own_period(x), *calendar]


def find_own_period(x: Floats) -> int:
    """Return the lag at which a series is most like itself, after it was first unlike; 0 where it is not."""
    n = len(x)
    clipped = np.clip((x - np.median(x)) / spread_of(x), -4, 4)
    size = 1 << (2 * n - 1).bit_length()
    power = np.abs(np.fft.rfft(clipped - clipped.mean(), size)) ** 2
    likeness = np.fft.irfft(power)[: n // 4]
    likeness /= likeness[0] + 1e-12
    unlike = np.flatnonzero(likeness < 0)
    if not len(unlike):
        return 0
    period = int(unlike[0] + np.argmax(likeness[unlike[0] :]))
    return period if period >= SHORTEST and likeness[period] > ALIKE else 0


def _profile(x: Floats, period: int, *, is_year: bool) -> Floats:
    """Median at each phase; of every reading of the cycle where that foretells left-out cycles better.

    A switch that goes each day at 08:40 lies within a quarter of an hour: only a finer profile knows it.
    """
    coarse = min(period, OF_YEAR if is_year else PHASES if period < 1000 else PHASES_OF_WEEK)
    if coarse == period or is_year:
        return _compute_medians(x, x, period, coarse, smooth=True)
    is_even = (np.arange(len(x)) // period) % 2 == 0
    errors = []
    for n_phases, smooth in ((coarse, True), (period, False)):
        wrong = [_error(x, is_learned, period, n_phases, smooth=smooth) for is_learned in (is_even, ~is_even)]
        errors.append(sum(wrong))
    if errors[1] < FINER * errors[0]:
        return _compute_medians(x, x, period, period, smooth=False)
    return _compute_medians(x, x, period, coarse, smooth=True)


def _error(x: Floats, learned: Floats, period: int, n_phases: int, *, smooth: bool) -> float:
    """Mean squared distance of left-out cycles from the medians of the others; no event counts for much."""
    foretold = _compute_medians(np.where(learned, x, np.nan), x, period, n_phases, smooth=smooth)
    squared = np.minimum((x - foretold) ** 2, float(x.var()))
    return float(np.mean(squared[~learned.astype(bool)]))


def _compute_medians(x: Floats, whole: Floats, period: int, n_phases: int, *, smooth: bool) -> Floats:
    """Median of each phase, at every reading; of the whole series where a phase has no reading."""
    phase = (np.arange(len(x)) % period) * n_phases // period
    there = np.isfinite(x)
    order = np.argsort(phase[there], kind="stable")
    values = x[there][order]
    ends = np.searchsorted(phase[there][order], np.arange(n_phases + 1))
    middle = float(np.median(whole))
    course = np.array([np.median(values[a:b]) if b > a else middle for a, b in pairwise(ends)])
    return np.asarray((median_filter(course, 3, mode="wrap") if smooth else course)[phase])
