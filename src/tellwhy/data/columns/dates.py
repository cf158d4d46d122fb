"""Dates as written, and as numbers.

Dates written as text.

Dates as people write them: 31.05.2024, 05/31/24 3:05 PM, 31 May 2024, May 31, 2024, 2024-05-31T08:30Z.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tellwhy.core.arrays import spread_evenly
from tellwhy.core.params import Fit, words_fit
from tellwhy.core.score import Integers
from tellwhy.storage import clock

Dates = NDArray[np.datetime64]

ENOUGH_DATES = 0.95  # share of cells that must be dates for a text column to be one
_PROBE = 200
_SHORTEST_ORDER = 5  # dates below which an order may be chance
_BEYOND = 0.05  # share of dates beyond those of a reference from which they tell the period
_UNLIKELY = 1e-4  # chance below which so many dates beyond a reference's are no accident
_HARDLY_EVER = 0.98  # share of steps in one direction from which dates count as sorted
_TIME_AFTER_DAY = r"([T ]\d{1,2}:\d{2}.*)?$"
_LAYOUTS = {  # name: (pattern, the same in ISO order)
    "iso": (r"^(\d{4})-(\d{1,2})(-\d{1,2})?" + _TIME_AFTER_DAY, ""),
    "year/month/day": (r"^(\d{4})[/.](\d{1,2})[/.](\d{1,2})" + _TIME_AFTER_DAY, r"\1-\2-\3\4"),
    "day.month.year": (r"^(\d{1,2})\.(\d{1,2})\.(\d{4})" + _TIME_AFTER_DAY, r"\3-\2-\1\4"),
    "day/month/year": (r"^(\d{1,2})[/-](\d{1,2})[/-](\d{4})" + _TIME_AFTER_DAY, r"\3-\2-\1\4"),
    "month/day/year": (r"^(\d{1,2})[/-](\d{1,2})[/-](\d{4})" + _TIME_AFTER_DAY, r"\3-\1-\2\4"),
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
    probe = [str(cell) for cell in filled.iloc[spread_evenly(len(filled), _PROBE)]]
    probe = [cell for cell in probe if cell[:1].isdigit()]
    for layout, (pattern, _) in _LAYOUTS.items():
        n_matches = sum(re.match(pattern, cell) is not None for cell in probe)
        if 2 * n_matches < max(len(probe), 1):  # parsing a million cells in vain takes long
            continue
        is_date = ~np.isnat(parse_dates(filled, layout))
        if is_date.mean() >= ENOUGH_DATES and not _could_be_swapped(filled[is_date], layout):
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


def describe_order(dates: Dates, reference: Dates | None = None) -> str:
    """Return what dates tell of the order of rows alone, in words; '' where they tell more than that.

    With a reference, they tell the order when one date in twenty or more lies beyond its dates: a period that
    was not seen is no oddity of a row. Without one, they do when they hardly ever go back (or forth).

    Examples
    --------
    >>> january = np.arange("2024-01-01", "2024-02-01", dtype="datetime64[D]")
    >>> describe_order(january + 31, january)
    'that these rows are later than the reference'
    >>> describe_order(january), describe_order(january[[3, 1, 9, 0, 7, 2, 8, 4]])
    ('in which order the rows came', '')
    """
    filled = dates[~np.isnat(dates)]
    if len(filled) < _SHORTEST_ORDER:
        return ""
    if reference is not None and (side := _find_side_beyond(filled, reference[~np.isnat(reference)])):
        return f"that these rows are {side} than the reference"
    steps = np.diff(filled.astype("datetime64[us]").astype(np.int64))
    share = max(float((steps >= 0).mean()), float((steps <= 0).mean()))
    is_order = share >= _HARDLY_EVER and len(np.unique(filled)) > _SHORTEST_ORDER
    return "in which order the rows came" if is_order else ""


def _find_side_beyond(dates: Dates, reference: Dates) -> str:
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


def make_dates(days: NDArray[np.float64]) -> Dates:
    """Return the date-times that lie so many days after 1970-01-01, to the second."""
    # Days are floats: without rounding, 08:30:00 comes back as 08:29:59.
    seconds = np.round(np.asarray(days, dtype=np.float64) * 86_400).astype("timedelta64[s]")
    return (np.datetime64("1970-01-01", "s") + seconds).astype("datetime64[us]")


def write_iso(dates: Dates) -> list[str]:
    """Return ISO texts, without the time of day when it is midnight everywhere."""
    has_time = bool((dates != dates.astype("datetime64[D]")).any())
    return [str(text) for text in np.datetime_as_string(dates, unit="s" if has_time else "D")]


_DAY = r"(?P<day>\d{1,2})"
_MONTH = r"(?P<month>\d{1,2})"
_NAMED = r"(?P<month>[A-Za-z\x{e4}\x{fb}\x{e9}]{3,10})\.?"
_YEAR = r"(?P<year>\d{4}|\d{2})"
_TIME_OF_DATE = (
    r"(?:(?:T| +|, *)(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<part>\d{1,9}))?)?"
    r"(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?)?(?P<zone> ?(?:Z|UTC|[+-]\d{2}:?\d{2}))?$"
)
_PATTERNS = {  # layout: pattern without the time of day
    "year first": rf"^(?P<year>\d{{4}})[-/.]{_MONTH}(?:[-/.]{_DAY})?",
    "day first": rf"^{_DAY}[-/.]{_MONTH}[-/.]{_YEAR}",
    "month first": rf"^{_MONTH}[-/.]{_DAY}[-/.]{_YEAR}",
    "month by name": rf"^(?:[A-Za-z]{{2,9}}\.?,? )?{_DAY}(?:st|nd|rd|th|\.)?[-/ ]{_NAMED},?[-/ ]{_YEAR}",
    "month by name and year": rf"^{_NAMED}[-/ ]{_YEAR}",
    "month by name first": rf"^(?:[A-Za-z]{{3,9}}\.?,? )?{_NAMED}[- ]{_DAY}(?:st|nd|rd|th)?,?[- ]{_YEAR}",
}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
# German and French abbreviations, and the long names that begin otherwise than the English ones.
_OTHER_MONTHS = {"mär": 3, "mrz": 3, "mai": 5, "okt": 10, "dez": 12, "avr": 4, "aoû": 8, "déc": 12}
_MONTH_NUMBER = (
    {name: i for i, name in enumerate(_MONTHS, start=1)} | _OTHER_MONTHS | {"juin": 6, "juil": 7, "févr": 2}
)
_VERSION = re.compile(r"^\d{1,2}\.\d{1,2}\.\d{2}$")
_PADDED = re.compile(r"^\d\d\.\d\d\.\d\d$")
_MANY = 20_000  # cells from which days and times are read apart
_MICRO = np.timedelta64(1, "us")
_AHEAD = 10  # years, up to which two digits are of this century
_OF_A_YEAR = re.compile(r"\D(?:\d{4}|3[2-9]|[4-9]\d)$")


@dataclass(frozen=True)
class WrittenDates:
    """How a column writes its dates: the order of day, month and year, or a format of its owner's.

    Attributes
    ----------
    layout
        A name of the table of patterns, or a format of `strptime`.
    is_certain
        False where days and months could as well be the other way round.
    """

    layout: str
    is_certain: bool = True

    @property
    def words(self) -> str:
        """The layout for people."""
        if self.layout not in _PATTERNS:
            return f"dates, {self.layout}"
        order = (
            self.layout if self.is_certain else f"taken as {self.layout}, which nothing in the column tells"
        )
        return f"dates, {order}"

    def swapped(self) -> WrittenDates:
        """The same with days and months the other way round."""
        return replace(self, layout="month first" if self.layout == "day first" else "day first")

    def read(self, text: pa.Array) -> Dates:
        """Return date-times (UTC where the text has an offset), NaT for a cell that is not written so."""
        if self.layout not in _PATTERNS:
            return _read_by_format(text, self.layout)
        if (moments := _read_day_and_time(text, self)) is not None:
            return moments
        found = pc.extract_regex(text, pattern=_PATTERNS[self.layout] + _TIME_OF_DATE)
        day = _read_calendar_day(found, is_named="name" in self.layout)
        return np.add(day.astype("datetime64[us]"), _time_of_day(found))

    def _require(self) -> Iterator[Fit]:
        return words_fit(self)


def find_dates(cells: Sequence[str], name_is_date: bool = False) -> WrittenDates | None:
    """Return how nine in ten of some cells write dates, or None.

    Days and months are told apart by the column as a whole: by a day above 12; else by the order in which the
    dates come out sorted; else by which of the two varies more.

    Examples
    --------
    >>> find_dates(["31.05.2024", "01.06.2024"]).layout
    'day first'
    >>> find_dates(["03/04/2024", "03/28/2024"]).layout
    'month first'
    """
    if not name_is_date and 2 * sum(map(_look_like_version, cells)) > len(cells):
        return None
    text = pa.array(cells, pa.string())
    dates = {layout: WrittenDates(layout).read(text) for layout in _PATTERNS}
    n_read = {layout: int((~np.isnat(found)).sum()) for layout, found in dates.items()}
    best = max(n_read, key=lambda layout: n_read[layout])
    if not cells or n_read[best] < 0.9 * len(cells):
        return None
    if best == "month by name and year" and not any(map(_OF_A_YEAR.search, cells)):
        return None  # "Dec 24" may be a day
    # With points between, no country writes the month first.
    is_open = n_read["month first"] == n_read["day first"] and not any("." in cell[:3] for cell in cells)
    if best == "day first" and is_open:
        return _decide_day_or_month(dates["day first"], dates["month first"])
    return WrittenDates(best)


def _look_like_version(cell: str) -> bool:
    """1.2.14 may be a version as well as a date; 01.02.14 is more likely a date."""
    return _VERSION.match(cell) is not None and _PADDED.match(cell) is None


def _decide_day_or_month(day_first: Dates, month_first: Dates) -> WrittenDates:
    """Decide between two readings of which every cell allows both."""
    is_sorted = [_is_sorted(dates) for dates in (day_first, month_first)]
    if is_sorted[0] != is_sorted[1]:
        return WrittenDates("day first" if is_sorted[0] else "month first")
    # In the right reading days vary more than months: a table rarely covers more months than days.
    n_days = [len(np.unique(_find_day_of_month(dates))) for dates in (day_first, month_first)]
    if max(n_days) >= 2 * min(n_days):
        return WrittenDates("day first" if n_days[0] > n_days[1] else "month first")
    return WrittenDates("month first", is_certain=False)


def _is_sorted(dates: Dates) -> bool:
    steps = np.diff(dates[~np.isnat(dates)].astype(np.int64))
    return len(steps) >= 5 and bool((steps >= 0).all() or (steps <= 0).all()) and bool(steps.any())


def _find_day_of_month(dates: Dates) -> NDArray[np.int64]:
    days = dates[~np.isnat(dates)].astype("datetime64[D]")
    return (days - days.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64)


def _read_day_and_time(text: pa.Array, dates: WrittenDates) -> Dates | None:
    """Read day and time of many cells apart, each distinct one once; None where they do not come in two.

    Cutting a million moments into their parts takes seconds; there are few days, and few times of day.
    """
    if len(text) < _MANY or "name" in dates.layout:
        return None
    for sign in (" ", "T"):
        halves = pc.split_pattern(text, sign, max_splits=1)
        if pc.all(pc.equal(pc.list_value_length(halves), 2)).as_py():
            break
    else:
        return None
    day = pc.list_element(halves, 0).dictionary_encode()
    time = pc.list_element(halves, 1).dictionary_encode()
    if len(time.dictionary) > len(text) // 4:
        return None
    days = dates.read(day.dictionary)
    # A day that every layout reads turns a time of day into a moment of that day.
    first = np.datetime64("2000-01-01", "us")
    parts = [pa.scalar(sign, time.dictionary.type) for sign in ("2000-01-01", " ")]
    written = pc.binary_join_element_wise(parts[0], time.dictionary, parts[1])
    of_first = WrittenDates("year first").read(written)
    return np.add(_take_dates(days, day), _take_dates(of_first, time) - first)


def _take_dates(values: Dates, coded: pa.DictionaryArray) -> Dates:
    """Return the values that codes stand for, NaT for a missing cell."""
    with_gap = np.append(values, np.datetime64("NaT", "us"))
    return with_gap[np.asarray(pc.fill_null(coded.indices, len(values)))]


def _read_group(found: pa.StructArray, name: str, empty: int) -> Integers:
    """Return one group of digits as whole numbers; `empty` where the group took no part."""
    if found.type.get_field_index(name) < 0:
        return np.full(len(found), empty, dtype=np.int64)
    cells = pc.struct_field(found, name)
    filled = pc.if_else(pc.equal(cells, ""), str(empty), cells)
    return np.asarray(pc.fill_null(filled.cast(pa.int64()), empty).to_numpy(zero_copy_only=False))


def _read_calendar_day(found: pa.StructArray, *, is_named: bool) -> Dates:
    """Return the days that the calendar has; 31 February is none."""
    year = _read_group(found, "year", -1)
    is_short = np.asarray(pc.fill_null(pc.equal(pc.utf8_length(_read_text(found, "year")), 2), False))
    # Of two digits: few dates of tables lie far ahead, and people were born in the 40s and 50s.
    century = np.where(year <= clock.now().year % 100 + _AHEAD, 2000, 1900)
    year = np.where(is_short, century + year, year)
    month = _read_named_month(found) if is_named else _read_group(found, "month", 0)
    day = _read_group(found, "day", 1)
    is_month = (month >= 1) & (month <= 12) & (year >= 1)
    first = (np.where(is_month, year, 1970) - 1970) * 12 + np.where(is_month, month, 1) - 1
    first_day = first.astype("datetime64[M]").astype("datetime64[D]")
    n_days = ((first + 1).astype("datetime64[M]").astype("datetime64[D]") - first_day).astype(np.int64)
    is_day = is_month & (day >= 1) & (day <= n_days)
    return np.where(is_day, first_day + (day - 1).astype("timedelta64[D]"), np.datetime64("NaT", "D"))


def _read_text(found: pa.StructArray, name: str) -> pa.Array:
    return pc.struct_field(found, name)


def _read_named_month(found: pa.StructArray) -> Integers:
    names = pc.fill_null(pc.utf8_lower(_read_text(found, "month")), "").dictionary_encode()
    numbers = [
        _MONTH_NUMBER.get(name[:4], _MONTH_NUMBER.get(name[:3], 0)) for name in names.dictionary.to_pylist()
    ]
    return np.asarray(np.array(numbers, dtype=np.int64)[names.indices.to_numpy()])


def _time_of_day(found: pa.StructArray) -> NDArray[np.timedelta64]:
    """Return the time since midnight (before it, where an offset says so), NaT for a time that is none."""
    hour = _read_group(found, "hour", 0)
    half = pc.fill_null(pc.utf8_lower(_read_text(found, "half")), "")
    is_half = np.asarray(pc.not_equal(half, ""))
    is_late = np.asarray(pc.equal(half, "p"))
    is_time = np.where(is_half, (hour >= 1) & (hour <= 12), hour <= 23)
    hour = np.where(is_half, hour % 12 + 12 * is_late, hour)
    minute = _read_group(found, "minute", 0)
    second = _read_group(found, "second", 0)
    is_time &= (minute <= 59) & (second <= 60)
    micro = ((hour * 60 + minute) * 60 + second) * 1_000_000 + _read_microseconds(found)
    return np.where(is_time, micro - _read_offset(found), np.iinfo(np.int64).min) * _MICRO


def _read_microseconds(found: pa.StructArray) -> Integers:
    part = pc.fill_null(_read_text(found, "part"), "")
    if not pc.any(pc.not_equal(part, "")).as_py():
        return np.zeros(len(found), dtype=np.int64)
    padded = pc.utf8_slice_codeunits(pc.utf8_rpad(part, 6, "0"), 0, 6)
    return np.asarray(padded.cast(pa.int64()).to_numpy(zero_copy_only=False))


def _read_offset(found: pa.StructArray) -> Integers:
    """Return the offset of the zone from UTC, in microseconds."""
    zones = pc.fill_null(_read_text(found, "zone"), "").dictionary_encode()
    minutes = []
    for zone in zones.dictionary.to_pylist():
        digits = re.sub(r"\D", "", zone)
        size = int(digits[:2]) * 60 + int(digits[2:]) if digits else 0
        minutes.append(-size if "-" in zone else size)
    return np.array(minutes, dtype=np.int64)[zones.indices.to_numpy()] * 60_000_000


def _read_by_format(text: pa.Array, layout: str) -> Dates:
    import pandas as pd

    parsed = pd.to_datetime(pd.Series(text.to_pandas()), format=layout, errors="coerce", utc=True)
    return parsed.dt.tz_localize(None).to_numpy(dtype="datetime64[us]")
