"""From a table to readings of channels in the order of time."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tellwhy.checks.in_time.clock import Stamps, read_stamps, stamp_words
from tellwhy.core.errors import InvalidInput
from tellwhy.core.score import Floats, Integers
from tellwhy.data import Table
from tellwhy.results.notice import Notice

MOST_MISSING = 0.5  # share of a channel's readings that may be filled in


@dataclass(frozen=True, eq=False)
class Times:
    """Times in words, made when they are asked for: a series may have millions."""

    keys: Any  # of the column of times
    moments: Any  # the same as moments; None where they are plain numbers

    def __getitem__(self, at: int) -> str:
        """Return the time of a reading."""
        return str(self.keys[at]) if self.moments is None else stamp_words(self.moments[at])


@dataclass(frozen=True, eq=False)
class Readings:
    """Readings of channels in the order of time."""

    values: Floats  # (time, channels)
    channels: list[str]
    rows: Integers  # of the table
    times: Times
    said: list[Notice]
    step: float | None = None  # seconds between two of them, where times are moments


def read_readings(
    table: Table, time: str, *, columns: Sequence[str] | None = None, exclude: Sequence[str] = ()
) -> Readings:
    """Return channels in the order of time; rows of the same time are averaged, gaps are filled in."""
    if time not in table.frame:
        names = ", ".join(map(repr, table.frame.columns[:10]))
        raise InvalidInput(f"{table.source} has no column {time!r} for the time. It has: {names}.")
    stamps = read_stamps(table, time)
    frame = table.frame.iloc[stamps.order]
    said = [*table.said, *stamps.said]
    keys = frame[time].to_numpy()
    channels, left_out = _choose_channels(frame, time, columns, exclude)
    if left_out:
        said.append(Notice("no_numbers", {"columns": left_out[:10]}))
    values, told = _fill_gaps(frame[channels].astype(np.float64), keys)
    said += told
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    moments = stamps.shown
    times = Times(keys[first], None if moments is None else moments[first])
    return Readings(values, channels, stamps.order[first], times, said, _find_step(stamps, first))


def _find_step(stamps: Stamps, first: Integers) -> float | None:
    """Seconds between two moments, usually; None where times are plain numbers."""
    if stamps.seconds is None or len(first) < 2:
        return None
    return float(np.median(np.diff(stamps.seconds[first]))) or None


def _choose_channels(
    frame: pd.DataFrame, time: str, named: Sequence[str] | None, exclude: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Columns of readings, and those left out because they hold none."""
    for name in [*(named or []), *exclude]:
        if name not in frame:
            raise InvalidInput(f"There is no column {name!r}. There are: {', '.join(frame.columns[:10])}.")
    wanted = [c for c in named or frame.columns if c != time and c not in exclude]
    numeric = [c for c in wanted if pd.api.types.is_numeric_dtype(frame[c]) and frame[c].notna().any()]
    usable = [c for c in numeric if frame[c].isna().mean() <= MOST_MISSING]
    if not usable:
        raise InvalidInput(
            "No column holds readings: numbers, of which at most half are missing. Name the columns with "
            "--columns, or write decimals with points."
        )
    return usable, [c for c in wanted if c not in usable]


def _fill_gaps(frame: pd.DataFrame, keys: Any) -> tuple[Floats, list[Notice]]:
    said = []
    if (keys[1:] == keys[:-1]).any():
        frame = frame.groupby(pd.Series(keys, index=frame.index), sort=False).mean()
        said.append(Notice("averaged"))
    if np.isinf(frame.to_numpy()).any():
        frame = frame.replace([np.inf, -np.inf], np.nan)
    n_missing = int(frame.isna().sum().sum())
    if n_missing:
        said.append(Notice("readings_filled", {"n": n_missing}))
        frame = frame.interpolate(limit_direction="both")
    return frame.to_numpy(dtype=np.float64), said


def read_same(table: Table, channels: Sequence[str], time: str, what: str) -> Readings:
    """Return the channels of a model in another table, in the order of time."""
    missing = [name for name in channels if name not in table.frame]
    if missing:
        raise InvalidInput(f"{what} {table.source} lacks the columns {', '.join(missing)}.")
    found = read_readings(table, time, columns=list(channels))
    if found.channels != list(channels):
        raise InvalidInput(f"{what} {table.source} holds no numbers in some of the channels.")
    return found


def compute_fingerprint(readings: Readings) -> str:
    """SHA-256 of the names of channels and of their readings in the order of time."""
    found = hashlib.sha256(repr(readings.channels).encode("utf-8", errors="surrogatepass"))
    found.update(np.ascontiguousarray(readings.values).tobytes())
    return found.hexdigest()
