"""Numbers, ranges, cells, counts and moments as people write them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

LONGEST_CELL = 60
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
LARGE = {"trillion": 1e12, "billion": 1e9, "million": 1e6}
PARTS_OF_DAY = ("night", "morning", "afternoon", "evening")  # six hours each, from midnight on


def write_rows(n: int) -> str:
    """'1 row', '1,203 rows'."""
    return f"{n:,} row{'' if n == 1 else 's'}"


def write_count(n: int, singular: str, plural: str | None = None) -> str:
    """'1 text', '12,000 texts'."""
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"


def write_exact(value: float) -> str:
    """A number as people write it, with all its digits.

    Examples
    --------
    >>> write_exact(-999.0), write_exact(0.1 + 0.2), write_exact(1234567.5)
    ('−999', '0.3', '1234567.5')
    """
    is_whole = float(value).is_integer() and abs(value) < 1e15
    text = str(int(value)) if is_whole else f"{value:.10g}"
    return text.replace("-", "−") if "e" not in text else text


def write_number(value: float) -> str:
    """A number in four significant digits, without exponent where a person would not write one.

    Examples
    --------
    >>> [write_number(v) for v in (0.0, 145.0, 1234567.0, 0.00123456, 1.5e-9)]
    ['0', '145', '1234567', '0.001235', '1.5e-09']
    >>> write_number(644_500_000.0), write_number(-1_375_700_123.0)
    ('644.5 million', '-1.376 billion')
    """
    if value == 0:
        return "0"
    if float(value).is_integer() and abs(value) < 1e7:
        return f"{value:.0f}"
    if 1e-4 <= abs(value) < 1e7:
        digits = max(0, 3 - math.floor(math.log10(abs(value))))
        text = f"{value:.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    if 1e7 <= abs(value) < 1e15:
        return _write_large(value)
    return f"{value:.4g}"


def _write_large(value: float) -> str:
    """Millions, billions and trillions in four significant digits."""
    rounded = float(f"{value:.4g}")
    word = next(word for word, unit in LARGE.items() if abs(rounded) >= unit)
    return f"{rounded / LARGE[word]:.4g} {word}"


def write_clock(hours: float) -> str:
    """Hours since midnight as a time of day.

    Examples
    --------
    >>> write_clock(15.15), write_clock(23.9999)
    ('15:09', '00:00')
    """
    minutes = round(60 * hours) % 1440
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def is_number(value: Any) -> bool:
    """Whether a plain value is a number (True and False are not)."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def write_value(value: Any) -> str:
    """A plain value: a number with all its digits, a text, a date as it is.

    Examples
    --------
    >>> write_value(-999.0), write_value("1900-01-01"), write_value(None)
    ('−999', '1900-01-01', 'missing')
    """
    if value is None:
        return "missing"
    return write_exact(value) if is_number(value) and math.isfinite(value) else str(value)


def write_plain(value: Any) -> str:
    """A plain value in words, a number with decimals in four digits.

    Examples
    --------
    >>> write_plain(3.14159), write_plain(12345678), write_plain(None)
    ('3.142', '12345678', 'missing')
    """
    if value is None:
        return "missing"
    return write_number(value) if isinstance(value, float) else str(value)


def write_cell(column: str, value: Any) -> str:
    """'age = 999': one cell of the table as it was given, a long one cut.

    Examples
    --------
    >>> write_cell("age", 999.0), write_cell("name", "x" * 100)[-3:]
    ('age = 999', 'xx…')
    """
    words = write_value(value)
    return f"{column} = {words if len(words) <= LONGEST_CELL else words[: LONGEST_CELL - 1] + '…'}"


def write_cells(cells: Mapping[str, Any]) -> str:
    """'total = 12, price = 3, quantity = 5': some cells of one row."""
    return ", ".join(write_cell(column, value) for column, value in cells.items())


def write_range(ends: Mapping[str, Any]) -> str:
    """'18–94': the least and the greatest of some values, `low` and `high`.

    Examples
    --------
    >>> write_range({"low": 18, "high": 94}), write_range({"low": -3, "high": 2.5})
    ('18–94', '−3 to 2.5')
    >>> write_range({"low": "1950-01-01", "high": "2004-12-31"})
    '1950-01-01 to 2004-12-31'
    """
    low = _end(ends["low"])
    high = _end(ends["high"])
    plain = is_number(ends["low"]) and not low.startswith("−")
    return low if low == high else f"{low}–{high}" if plain else f"{low} to {high}"


def _end(value: Any) -> str:
    return write_number(value).replace("-", "−") if is_number(value) else str(value)


def write_list(values: Iterable[float]) -> str:
    """'6, 12': some numbers one after the other."""
    return ", ".join(f"{value:g}" for value in values)


def write_times(factor: float) -> str:
    """'10 times too large', '2.54 times too small'."""
    size = factor if factor > 1 else 1 / factor
    return f"{write_exact(round(size, 2))} times too {'large' if factor > 1 else 'small'}"


def write_moments(first: str, last: str) -> str:
    """'2024-03-04 from 03:10 to 04:20': from one moment to another, the day once.

    Examples
    --------
    >>> write_moments("2024-03-04 03:10", "2024-03-04 04:20"), write_moments("2024-03-04", "2024-03-04")
    ('2024-03-04 from 03:10 to 04:20', '2024-03-04')
    """
    if first == last:
        return first
    day = first[:10]
    if last.startswith(day) and len(last) > 10:
        return f"{day} from {first[11:] or '00:00'} to {last[11:]}"
    return f"from {first} to {last}"


def name_usual_time(moment: str, season: str) -> str:
    """What readings of the same time are called: 'Monday nights'.

    Examples
    --------
    >>> name_usual_time("2024-03-04T03:10", "hour of the week")
    'Monday nights'
    >>> name_usual_time("2024-03-04T03:10", "hour of the day")
    'nights'
    """
    when = datetime.fromisoformat(moment)
    day = DAYS[when.weekday()]
    part = f"{PARTS_OF_DAY[when.hour // 6]}s"
    return {"hour of the week": f"{day} {part}", "hour of the day": part, "day of the week": f"{day}s"}[
        season
    ]


def write_percent(share: float) -> str:
    """Return a share with as many digits as tell something.

    Examples
    --------
    >>> write_percent(0.1234), write_percent(0.0004), write_percent(0.0), write_percent(1.0)
    ('12.3 %', '0.04 %', '0 %', '100 %')
    """
    return f"{100 * share:.3g} %"
