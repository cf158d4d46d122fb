"""Cells, ranges and counts as findings write them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tellwhy.checks.facts import Facts
from tellwhy.core.score import Floats, Integers

_LONGEST = 60


def rows_words(n: int) -> str:
    """'1 row', '1,203 rows'."""
    return f"{n:,} row{'' if n == 1 else 's'}"


def number_words(value: float) -> str:
    """A number as people write it.

    Examples
    --------
    >>> number_words(-999.0), number_words(0.1 + 0.2), number_words(1234567.5)
    ('−999', '0.3', '1234567.5')
    """
    is_whole = float(value).is_integer() and abs(value) < 1e15
    text = str(int(value)) if is_whole else f"{value:.10g}"
    return text.replace("-", "−") if "e" not in text else text


def number_text(value: float) -> str:
    """A number in four significant digits, without exponent where a person would not write one.

    Examples
    --------
    >>> [number_text(v) for v in (0.0, 145.0, 1234567.0, 0.00123456, 1.5e-9)]
    ['0', '145', '1234567', '0.001235', '1.5e-09']
    """
    if value == 0:
        return "0"
    if float(value).is_integer() and abs(value) < 1e7:
        return f"{value:.0f}"
    if 1e-4 <= abs(value) < 1e7:
        digits = max(0, 3 - int(np.floor(np.log10(abs(value)))))
        text = f"{value:.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.4g}"


def day_words(days: float) -> str:
    """Days since 1970 as a date, with the time of day where it is not midnight."""
    moment = np.datetime64("1970-01-01", "s") + np.timedelta64(round(days * 86_400), "s")
    return str(moment).replace("T", " ").removesuffix(" 00:00:00")


def value_words(facts: Facts, column: str, value: float) -> str:
    """A number or a date, by what the column is."""
    return day_words(value) if column in facts.dates else number_words(value)


def range_words(facts: Facts, column: str, rising: Floats) -> str:
    """'18–94': the least and the greatest of sorted values."""
    low, high = (_end_words(facts, column, float(end)) for end in (rising[0], rising[-1]))
    plain = column in facts.numbers and not low.startswith("−")
    return low if low == high else f"{low}–{high}" if plain else f"{low} to {high}"


def _end_words(facts: Facts, column: str, end: float) -> str:
    return day_words(end) if column in facts.dates else number_text(end).replace("-", "−")


def cell_words(facts: Facts, column: str, row: int) -> str:
    """'age = 999': one cell of the table as it was given."""
    if column in facts.dates and not np.isnan(facts.dates[column].values[row]):
        value = day_words(facts.dates[column].values[row])
    else:
        cell = facts.frame[column].iloc[row]
        is_number = isinstance(cell, (int, float, np.integer, np.floating)) and not isinstance(cell, bool)
        value = number_words(float(cell)) if is_number and np.isfinite(cell) else str(cell)
    return f"{column} = {value if len(value) <= _LONGEST else value[: _LONGEST - 1] + '…'}"


def row_words(facts: Facts, columns: Iterable[str], row: int) -> str:
    """'total = 12, price = 3, quantity = 5': some cells of one row."""
    return ", ".join(cell_words(facts, column, row) for column in columns)


def as_rows(positions: Integers) -> tuple[int, ...]:
    """Positions as a finding holds them."""
    return tuple(int(i) for i in positions)
