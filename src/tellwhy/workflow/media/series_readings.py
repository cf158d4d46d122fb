"""Readings of a table in the order of time: which columns are channels, what is averaged and filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats, Integers
from tellwhy.data import Table
from tellwhy.data.table import TableLike
from tellwhy.workflow.series.stamps import read_stamps, stamp_words
from tellwhy.workflow.tables.selection import as_source

MOST_MISSING = 0.5  # share of a channel's readings that may be filled in


@dataclass(frozen=True)
class SeriesRequest:
    """How a series is judged.

    Attributes
    ----------
    time
        Column of the time; rows are put in its order.
    window
        Readings in a window.
    reference
        Another table of the same columns, of an ordinary time; None: the series is compared with itself.
    columns, exclude
        Columns to use, or not to use, as channels; by default all that hold numbers.
    top
        How many stretches are told.
    n_windows
        Windows to learn from.
    fdr
        Expected share of false alarms among the alarms.
    random_state
        Seed of every draw.
    """

    time: str
    window: int
    reference: str | Path | TableLike | None = None
    columns: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    top: int = 10
    n_windows: int = 3_000
    fdr: float | None = None
    random_state: int = 0


@dataclass(frozen=True, eq=False)
class Readings:
    """Readings of channels in the order of time."""

    values: Floats  # (time, channels)
    channels: list[str]
    rows: Integers  # of the table
    times: list[str]
    notices: list[str]


def read_readings(table: Table, request: SeriesRequest) -> Readings:
    """Return channels in the order of time; rows of the same time are averaged, gaps are filled in."""
    if request.time not in table.frame:
        names = ", ".join(map(repr, table.frame.columns[:10]))
        raise InvalidInput(f"{table.source} has no column {request.time!r} for the time. It has: {names}.")
    stamps = read_stamps(table, request.time)
    frame = table.frame.iloc[stamps.order]
    notices = [*table.notices, *stamps.notices]
    keys = frame[request.time].to_numpy()
    channels, left_out = _channels(frame, request)
    if left_out:
        notices.append(f"Not used, since they hold no numbers: {', '.join(left_out[:10])}.")
    values, told = _filled(frame[channels].astype(np.float64), keys)
    notices += told
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    if len(first) < 2 * request.window:
        raise InvalidInput(
            f"{table.source} has {len(first):,} moments, fewer than two windows of {request.window}. Take a "
            "shorter window."
        )
    moments = stamps.shown
    times = [str(k) for k in keys[first]] if moments is None else [stamp_words(m) for m in moments[first]]
    return Readings(values, channels, stamps.order[first], times, notices)


def _channels(frame: pd.DataFrame, request: SeriesRequest) -> tuple[list[str], list[str]]:
    """Columns of readings, and those left out because they hold none."""
    named = request.columns
    for name in [*(named or []), *request.exclude]:
        if name not in frame:
            raise InvalidInput(f"There is no column {name!r}. There are: {', '.join(frame.columns[:10])}.")
    wanted = [c for c in named or frame.columns if c != request.time and c not in request.exclude]
    numeric = [c for c in wanted if pd.api.types.is_numeric_dtype(frame[c]) and frame[c].notna().any()]
    usable = [c for c in numeric if frame[c].isna().mean() <= MOST_MISSING]
    if not usable:
        raise InvalidInput(
            "No column holds readings: numbers, of which at most half are missing. Name the columns with "
            "--columns, or write decimals with points."
        )
    return usable, [c for c in wanted if c not in usable]


def _filled(frame: pd.DataFrame, keys: Any) -> tuple[Floats, list[str]]:
    notices = []
    if (keys[1:] == keys[:-1]).any():
        frame = frame.groupby(pd.Series(keys, index=frame.index), sort=False).mean()
        notices.append("Rows of the same time were averaged.")
    if np.isinf(frame.to_numpy()).any():
        frame = frame.replace([np.inf, -np.inf], np.nan)
    n_missing = int(frame.isna().sum().sum())
    if n_missing:
        notices.append(f"{n_missing:,} missing readings were filled in between their neighbours.")
        frame = frame.interpolate(limit_direction="both")
    return frame.to_numpy(dtype=np.float64), notices


def reference_readings(other: Any, readings: Readings, request: SeriesRequest) -> Readings:
    """Return the same channels of another table, of an ordinary time."""
    table = as_source(other)
    missing = [name for name in readings.channels if name not in table.frame]
    if missing:
        raise InvalidInput(f"The reference {table.source} lacks the columns {', '.join(missing)}.")
    named = SeriesRequest(request.time, request.window, columns=readings.channels)
    found = read_readings(table, named)
    if found.channels != readings.channels:
        raise InvalidInput(f"The reference {table.source} holds no numbers in some of the channels.")
    return found
