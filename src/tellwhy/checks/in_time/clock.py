"""When rows were taken: their order, the time on the clock, and what is irregular about it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score import Floats, Integers
from tellwhy.data import Table
from tellwhy.data.columns.dates import find_layout, parse_dates
from tellwhy.data.columns.times import find_epoch
from tellwhy.results.notice import Notice

Moments = NDArray[np.datetime64]

GAP = 5.0  # times the usual step
SHARE_WITH_OFFSET = 0.9
_OFFSET = r"(?<=:\d\d)(?:[.,]\d+)?\s*(?:Z|[+-]\d{2}:?\d{2})$"
SECOND = 1_000_000_000  # in the unit that moments are counted in


@dataclass(frozen=True, eq=False)
class Stamps:
    """Rows in the order of time.

    Attributes
    ----------
    order
        Rows of the table, the earliest first; rows of the same time stay in the order of the table.
    moments
        Time on the clock of each row, in that order; None where time is a plain number.
    said, is_utc
        What is irregular, and whether the times are in UTC.
    """

    order: Integers
    moments: Moments | None
    said: tuple[Notice, ...] = ()
    is_utc: bool = False  # whether only the moment is known, and not the time on the clock
    written: Moments | None = None  # as the table has them, where the time on the clock is another

    @property
    def shown(self) -> Moments | None:
        """Times as the table has them."""
        return self.moments if self.written is None else self.written

    @property
    def seconds(self) -> Floats | None:
        """Seconds since 1970 on the clock."""
        return None if self.moments is None else self.moments.astype(np.int64) / SECOND


def read_stamps(table: Table, time: str) -> Stamps:
    """Read a column of times: numbers, dates, or text; raise where one is missing or cannot be read."""
    cells = table.frame[time]
    if cells.isna().any():
        row = int(np.argmax(cells.isna().to_numpy()))
        raise InvalidInput(
            f"Column {time!r} of {table.source} has no time in row {row}. Drop such rows first."
        )
    if pd.api.types.is_numeric_dtype(cells):
        return _of_numbers(cells.to_numpy(), time)
    if isinstance(cells.dtype, pd.DatetimeTZDtype):
        found = _stamps(cells.dt.tz_convert(None).to_numpy(), cells.dt.tz_localize(None).to_numpy(), time)
        return replace(found, is_utc=str(cells.dtype.tz) == "UTC")
    if pd.api.types.is_datetime64_any_dtype(cells):
        return _stamps(cells.to_numpy(), cells.to_numpy(), time)
    return _of_text(table, time)


def _of_numbers(numbers: NDArray[np.generic], time: str) -> Stamps:
    """Seconds since 1970 are moments; other numbers only tell the order."""
    known = find_epoch(numbers.astype(np.float64))
    moments = None if known is None else known.read(numbers.astype(np.float64))
    if moments is None or np.isnat(moments).any():
        order = np.argsort(numbers, kind="stable").astype(np.int64)
        return Stamps(order, None, tuple(_tell_order(order, time)))
    return _stamps(moments, moments, time)


def _of_text(table: Table, time: str) -> Stamps:
    text = table.frame[time].astype("string")
    has_offset = bool(text.str.contains(_OFFSET, regex=True).mean() >= SHARE_WITH_OFFSET)
    layout = None if has_offset else find_layout(text)
    if layout is not None:  # pandas would read 03.04.2024 as the 4th of March
        moments = parse_dates(text, layout)
        if not np.isnat(moments).any():
            return _stamps(moments, moments, time)
    try:
        if has_offset:
            # Clocks differ from each other and from themselves after a change of time: the order is that of
            # the moments, the time of day that on the clock.
            moments = pd.to_datetime(text, format="mixed", utc=True).dt.tz_convert(None).to_numpy()
            clock = pd.to_datetime(text.str.replace(_OFFSET, "", regex=True), format="mixed").to_numpy()
            return _stamps(moments, clock, time)
        moments = pd.to_datetime(text, format="mixed").to_numpy()
    except (ValueError, TypeError) as error:
        raise InvalidInput(
            f"Column {time!r} of {table.source} cannot be read as times ({error}). Use numbers or ISO dates."
        ) from error
    return _stamps(moments, moments, time)


def _stamps(moments: Moments, clock: Moments, time: str) -> Stamps:
    order = np.argsort(moments, kind="stable").astype(np.int64)
    there = moments[order].astype("datetime64[ns]")
    said = [*_tell_order(order, time), *_tell_steps(there, time)]
    return Stamps(order, clock[order].astype("datetime64[ns]"), tuple(said))


def _tell_order(order: Integers, time: str) -> list[Notice]:
    is_sorted = bool((np.diff(order) > 0).all())
    return [] if is_sorted else [Notice("put_in_order", {"column": time})]


def _tell_steps(moments: Moments, time: str) -> list[Notice]:
    """Tell times that occur more than once, and gaps."""
    if len(moments) < 3:
        return []
    steps = np.diff(moments.astype(np.int64))
    told = []
    n_repeated = int((steps == 0).sum())
    if n_repeated:
        told.append(Notice("same_times", {"column": time, "n": n_repeated}))
    usual = float(np.median(steps[steps > 0])) if (steps > 0).any() else np.inf
    gaps = np.flatnonzero(steps.astype(np.float64) > GAP * usual)
    # Where long steps are common, the rows are not readings at a steady pace, and nothing is missing.
    if 0 < len(gaps) <= 0.01 * len(steps) + 3:
        at = int(gaps[np.argmax(steps[gaps])])
        ends = {"first": stamp_words(moments[at]), "last": stamp_words(moments[at + 1])}
        told.append(Notice("gaps_in_time", {"column": time, "n": len(gaps), **ends}))
    return told


def stamp_words(moment: np.datetime64) -> str:
    """'2024-03-04 03:10', without what is zero.

    Examples
    --------
    >>> stamp_words(np.datetime64("2024-03-04T03:10:00")), stamp_words(np.datetime64("2024-03-04"))
    ('2024-03-04 03:10', '2024-03-04')
    """
    text = str(moment.astype("datetime64[s]")).replace("T", " ")
    return text.removesuffix(":00").removesuffix(" 00:00")
