"""Series in UTC whose days follow a clock that is changed twice a year."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from tellwhy.core.score_function import Floats
from tellwhy.workflow.series.seasons import season_gain
from tellwhy.workflow.series.stamps import Moments, Stamps

# One zone for each rule of when clocks are changed.
RULES = {"Europe": "Europe/Berlin", "North America": "America/New_York"}
BETTER = 0.97  # of what is left of the spread in UTC
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
            told = f"Times are in UTC, and the days follow the summer time of {rule}: an hour is added then."
            best = replace(stamps, moments=clock, written=stamps.moments, notices=(*stamps.notices, told))
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
