"""Dates written as text."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tellwhy.core.tables import evenly_spread

Dates = NDArray[np.datetime64]

ENOUGH = 0.95  # share of cells that must be dates for a text column to be one
_PROBE = 200
_SHORTEST_ORDER = 5  # dates below which an order may be chance
_BEYOND = 0.05  # share of dates beyond those of a reference from which they tell the period
_UNLIKELY = 1e-4  # chance below which so many dates beyond a reference's are no accident
_HARDLY_EVER = 0.98  # share of steps in one direction from which dates count as sorted
_TIME = r"([T ]\d{1,2}:\d{2}.*)?$"
_LAYOUTS = {  # name: (pattern, the same in ISO order)
    "iso": (r"^(\d{4})-(\d{1,2})(-\d{1,2})?" + _TIME, ""),
    "year/month/day": (r"^(\d{4})[/.](\d{1,2})[/.](\d{1,2})" + _TIME, r"\1-\2-\3\4"),
    "day.month.year": (r"^(\d{1,2})\.(\d{1,2})\.(\d{4})" + _TIME, r"\3-\2-\1\4"),
    "day/month/year": (r"^(\d{1,2})[/-](\d{1,2})[/-](\d{4})" + _TIME, r"\3-\2-\1\4"),
    "month/day/year": (r"^(\d{1,2})[/-](\d{1,2})[/-](\d{4})" + _TIME, r"\3-\1-\2\4"),
}
_SWAPPED = {"day/month/year": "month/day/year", "month/day/year": "day/month/year"}


def find_layout(text: pd.Series) -> str | None:
    """Return how at least 95 % of the filled cells of a text column are written as dates, or None.

    ISO-like (2024-05-31, 2024-05-31T08:00:00Z, 2024/5/31) and 31.05.2024 are recognised; 31/05/2024 and
    05/31/2024 only when some day is above 12, so that the order is certain.

    Examples
    --------
    >>> find_layout(pd.Series(["2024-05-31", "2023-01-01 08:00"]))
    'iso'
    >>> find_layout(pd.Series(["05/06/2024", "05/31/2024"]))
    'month/day/year'
    >>> find_layout(pd.Series(["05/06/2024", "07/08/2024"])) is None
    True
    """
    filled = text.dropna()
    probe = [str(cell) for cell in filled.iloc[evenly_spread(len(filled), _PROBE)]]
    probe = [cell for cell in probe if cell[:1].isdigit()]
    for layout, (pattern, _) in _LAYOUTS.items():
        n_matches = sum(re.match(pattern, cell) is not None for cell in probe)
        if 2 * n_matches < max(len(probe), 1):  # parsing a million cells in vain takes long
            continue
        is_date = ~np.isnat(parse_dates(filled, layout))
        if is_date.mean() >= ENOUGH and not _could_be_swapped(filled[is_date], layout):
            return layout
    return None


def _could_be_swapped(text: pd.Series, layout: str) -> bool:
    """Tell whether days and months could just as well be the other way round: no day is above 12."""
    other = _SWAPPED.get(layout)
    return other is not None and not np.isnat(parse_dates(text, other)).any()


def parse_dates(text: pd.Series, layout: str) -> Dates:
    """Return date-times (UTC where the text has an offset), NaT for what is not written in that layout."""
    pattern, ordered = _LAYOUTS[layout]
    if ordered:
        text = text.str.replace(pattern, ordered, regex=True)
    is_iso = text.str.match(_LAYOUTS["iso"][0], na=False).astype(bool)
    parsed = pd.to_datetime(text.where(is_iso), format="ISO8601", errors="coerce", utc=True)
    return parsed.dt.tz_localize(None).to_numpy(dtype="datetime64[us]")


def told_by_order(dates: Dates, reference: Dates | None = None) -> str:
    """Return what dates tell of the order of rows alone, in words; '' where they tell more than that.

    With a reference, they tell the order when one date in twenty or more lies beyond its dates: a period that
    was not seen is no oddity of a row. Without one, they do when they hardly ever go back (or forth).

    Examples
    --------
    >>> january = np.arange("2024-01-01", "2024-02-01", dtype="datetime64[D]")
    >>> told_by_order(january + 31, january)
    'that these rows are later than the reference'
    >>> told_by_order(january), told_by_order(january[[3, 1, 9, 0, 7, 2, 8, 4]])
    ('in which order the rows came', '')
    """
    filled = dates[~np.isnat(dates)]
    if len(filled) < _SHORTEST_ORDER:
        return ""
    if reference is not None and (side := _beyond(filled, reference[~np.isnat(reference)])):
        return f"that these rows are {side} than the reference"
    steps = np.diff(filled.astype("datetime64[us]").astype(np.int64))
    share = max(float((steps >= 0).mean()), float((steps <= 0).mean()))
    is_order = share >= _HARDLY_EVER and len(np.unique(filled)) > _SHORTEST_ORDER
    return "in which order the rows came" if is_order else ""


def _beyond(dates: Dates, reference: Dates) -> str:
    """Return 'later' or 'earlier' where more dates lie beyond a reference's than chance puts there, or ''."""
    from scipy.stats import betabinom  # a heavy import, needed only where there is a reference

    n = len(reference)
    known = np.sort(reference)
    # The ends are taken a little inside: a single mistyped year must not stretch them.
    inside = int(0.01 * n)
    for side in ("later", "earlier") if n else ():
        k = int((dates > known[n - 1 - inside]).sum() if side == "later" else (dates < known[inside]).sum())
        # Of rows of the same period, the share beyond an end is Beta(inside + 1, n − inside).
        chance = betabinom.sf(k - 1, len(dates), inside + 1, n - inside)
        if k > _BEYOND * len(dates) and chance < _UNLIKELY:
            return side
    return ""


def hours_of_day(dates: Dates) -> NDArray[np.float64] | None:
    """Return the hours since midnight, NaN for NaT; None where dates have no time of day to speak of.

    They have none where most are at midnight, where all are at the same time, and where they span less than
    two days: then the hour tells no more than the date.

    Examples
    --------
    >>> hours_of_day(np.array(["2024-05-01T08:30", "2024-05-04T17:00"], dtype="datetime64[us]")).tolist()
    [8.5, 17.0]
    """
    filled = dates[~np.isnat(dates)]
    if not len(filled) or filled.max() - filled.min() < np.timedelta64(2, "D"):
        return None
    hours: NDArray[np.float64] = (dates - dates.astype("datetime64[D]")) / np.timedelta64(1, "h")
    known = hours[~np.isnan(hours)]
    return hours if np.median(known) > 0 and np.ptp(known) > 0 else None


def days_since_1970(dates: Dates) -> NDArray[np.float64]:
    """Return date-times as days since 1970-01-01, NaN for NaT."""
    days: NDArray[np.float64] = (dates - np.datetime64("1970-01-01", "us")) / np.timedelta64(1, "D")
    return days


def dates_from_days(days: NDArray[np.float64]) -> Dates:
    """Return the date-times that lie so many days after 1970-01-01, to the second."""
    # Days are floats: without rounding, 08:30:00 comes back as 08:29:59.
    seconds = np.round(np.asarray(days, dtype=np.float64) * 86_400).astype("timedelta64[s]")
    return (np.datetime64("1970-01-01", "s") + seconds).astype("datetime64[us]")


def iso_texts(dates: Dates) -> list[str]:
    """Return ISO texts, without the time of day when it is midnight everywhere."""
    has_time = bool((dates != dates.astype("datetime64[D]")).any())
    return [str(text) for text in np.datetime_as_string(dates, unit="s" if has_time else "D")]
