"""The score of the Numenta Anomaly Benchmark as its paper describes it (Lavin and Ahmad, 2015)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tellwhy.core.score import Floats

FALSE = 0.11  # what a false alarm costs, where a missed window costs 1: the "standard" profile
TAUGHT = 0.15  # share of a series that only teaches, of at most so many rows
MOST_TAUGHT = 750


@dataclass(frozen=True, eq=False)
class Labelled:
    """A series with its labelled windows: first and last row of each."""

    name: str
    times: pd.DatetimeIndex
    values: Floats
    windows: list[tuple[int, int]]

    @property
    def taught(self) -> int:
        """How many rows no alarm counts in."""
        return int(min(TAUGHT * len(self.values), MOST_TAUGHT))


def read_series(folder: Path) -> Iterator[Labelled]:
    """Read every series of the folder in the order of their names."""
    windows = json.loads((folder / "windows.json").read_text())
    for name in sorted(windows):
        with gzip.open(folder / f"{name}.gz", "rt") as file:
            frame = pd.read_csv(file)
        times = pd.DatetimeIndex(pd.to_datetime(frame["timestamp"]))
        ends = [pd.to_datetime(pair) for pair in windows[name]]
        rows = [
            (int(np.searchsorted(times, first)), int(np.searchsorted(times, last, "right")) - 1)
            for first, last in ends
        ]
        yield Labelled(name, times, frame["value"].to_numpy(np.float64), rows)


def _sigmoid(place: float) -> float:
    """From 1 where a window begins (−1) through 0 at its end (0) to −1 far behind it."""
    return -1.0 if place > 3 else 2 / (1 + float(np.exp(5 * place))) - 1


def raw_score(told: Sequence[int], series: Labelled) -> float:
    """What alarms at these rows earn: early in a window most, outside less than nothing."""
    rows = sorted(row for row in told if row >= series.taught)
    total = 0.0
    for first, last in series.windows:
        inside = [row for row in rows if first <= row <= last]
        width = last - first + 1
        total += _sigmoid(-(last - inside[0] + 1) / width) / _sigmoid(-1.0) if inside else -1.0
    return total + FALSE * sum(_cost(row, series.windows) for row in rows if not _is_inside(row, series))


def _is_inside(row: int, series: Labelled) -> bool:
    return any(first <= row <= last for first, last in series.windows)


def _cost(row: int, windows: Sequence[tuple[int, int]]) -> float:
    """A false alarm soon after a window costs less."""
    before = [window for window in windows if window[1] < row]
    if not before:
        return -1.0
    first, last = before[-1]
    return _sigmoid((row - last) / max(last - first, 1))


@dataclass(frozen=True)
class Outcome:
    """What a method reaches over all series."""

    score: float
    recall: float
    outside: float  # share of the alarms outside of all windows
    n_told: int


def judge_alarms(told: Sequence[Sequence[int]], all_series: Sequence[Labelled]) -> Outcome:
    """Compare the rows at which a method raises alarms with the labelled windows."""
    n_windows = sum(len(series.windows) for series in all_series)
    raw = sum(raw_score(rows, series) for rows, series in zip(told, all_series, strict=True))
    pairs = [
        (row, series)
        for rows, series in zip(told, all_series, strict=True)
        for row in rows
        if row >= series.taught
    ]
    seen = sum(
        any(first <= row <= last for row in rows if row >= series.taught)
        for rows, series in zip(told, all_series, strict=True)
        for first, last in series.windows
    )
    outside = float(np.mean([not _is_inside(row, series) for row, series in pairs])) if pairs else 0.0
    return Outcome(100 * (raw + n_windows) / (2 * n_windows), seen / n_windows, outside, len(pairs))
