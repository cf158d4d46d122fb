"""Points in time written as numbers, and times of day."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tellwhy.core.params import Fit, words_fit
from tellwhy.core.score import Floats

Dates = NDArray[np.datetime64]

_FIRST = 631_152_000.0  # 1990-01-01, in seconds since 1970
_LAST = 2_524_608_000.0  # 2050-01-01
_LONGEST = 2.0**62 / 1e6  # seconds that microseconds in 64 bits can hold
_TIME_ALONE = (
    r"^(?P<hour>\d{1,2}):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d(?:\.\d+)?))?"
    r"(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?$"
)
_PER_SECOND = {"seconds": 1.0, "milliseconds": 1e3, "microseconds": 1e6}


@dataclass(frozen=True)
class Epoch:
    """Whole numbers that count the seconds (or thousandths or millionths) since 1970."""

    unit: str

    @property
    def words(self) -> str:
        """The unit for people."""
        return f"dates, {self.unit} since 1970"

    def read(self, numbers: Floats) -> Dates:
        """Return date-times, NaT for what no calendar reaches."""
        seconds = np.asarray(numbers, dtype=np.float64) / _PER_SECOND[self.unit]
        is_time = np.abs(seconds) < _LONGEST  # False for NaN
        micro = np.round(np.where(is_time, seconds, 0.0) * 1e6).astype(np.int64)
        return np.where(is_time, micro.astype("datetime64[us]"), np.datetime64("NaT", "us"))

    def _require(self) -> Iterator[Fit]:
        yield "unit", self.unit in ("seconds", "milliseconds", "microseconds"), True


@dataclass(frozen=True)
class Compact:
    """Whole numbers such as 20240531."""

    words = "dates, written as 20240531"

    def read(self, numbers: Floats) -> Dates:
        """Return dates, NaT for numbers that are none."""
        import pandas as pd

        filled = np.where(np.isfinite(numbers) & (numbers > 0) & (numbers < 1e8), numbers, 0).astype(np.int64)
        text = pd.Series(filled).astype("str").where(filled >= 1e7)
        return pd.to_datetime(text, format="%Y%m%d", errors="coerce").to_numpy(dtype="datetime64[us]")

    def _require(self) -> Iterator[Fit]:
        return words_fit(self)


def find_epoch(numbers: Floats) -> Epoch | Compact | None:
    """Return in what unit at least nine in ten numbers are points in time from 1990 to 2050, or None.

    To be asked only of columns whose name says that they hold points in time.

    Examples
    --------
    >>> find_epoch(np.array([1717142400.0, 1717142461.0])).unit, find_epoch(np.array([12.0, 1e9]))
    ('seconds', None)
    """
    filled = numbers[np.isfinite(numbers)]
    if not len(filled):
        return None
    for unit, per_second in _PER_SECOND.items():
        if ((filled >= _FIRST * per_second) & (filled < _LAST * per_second)).mean() >= 0.9:
            return Epoch(unit)
    if ((filled >= 19_000_101) & (filled <= 21_001_231)).mean() >= 0.9:
        is_date = ~np.isnat(Compact().read(filled[:2000]))
        return Compact() if is_date.mean() >= 0.9 else None
    return None


@dataclass(frozen=True)
class WrittenTimes:
    """Times of day, such as 14:35, as hours since midnight."""

    words = "times of day, in hours"

    def read(self, text: pa.Array) -> Floats:
        """Return hours, NaN for what is no time of day."""
        found = pc.extract_regex(text, pattern=_TIME_ALONE)
        hour = _read_digits(found, "hour")
        half = pc.fill_null(pc.utf8_lower(pc.struct_field(found, "half")), "")
        is_late = np.asarray(pc.equal(half, "p"))
        hour = np.where(np.asarray(pc.not_equal(half, "")), hour % 12 + 12 * is_late, hour)
        hours = hour + _read_digits(found, "minute") / 60 + _read_digits(found, "second") / 3600
        return np.where(hours < 24, hours, np.nan)

    def _require(self) -> Iterator[Fit]:
        return words_fit(self)


def _read_digits(found: pa.StructArray, name: str) -> Floats:
    cells = pc.struct_field(found, name)
    numbers = pc.if_else(pc.equal(cells, ""), "0", cells).cast(pa.float64())
    return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)


def find_times(cells: Sequence[str]) -> WrittenTimes | None:
    """Return the reading of times of day where nine in ten cells are some.

    Examples
    --------
    >>> WrittenTimes().read(pa.array(["14:30", "2:30 PM", "25:00"])).tolist()
    [14.5, 14.5, nan]
    """
    looks = sum(re.match(_TIME_ALONE, cell) is not None for cell in cells)
    if not cells or looks < 0.9 * len(cells):
        return None
    return WrittenTimes() if np.isfinite(WrittenTimes().read(pa.array(cells))).mean() >= 0.9 else None
