"""Numbers, shares and cells as a reader wants to see them, and long texts made short."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime

import numpy as np
import pandas as pd

from tellwhy.results.evidence import Detection

THIN = "\u202f"  # narrow no-break space: thousands, and before a percent sign
MINUS = "\u2212"
NOTHING = "–"
TITLE_LENGTH = 300
CELL_LENGTH = 1000

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MIDNIGHT = re.compile(r"[T ]00:00(:00(\.0+)?)?$")
_BLANKS = re.compile("[ \t\n\r\f\v\x85\u2028\u2029]+")
# Control characters, lone surrogates, and marks that turn the direction of text, by which one cell could read
# as another.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def number(value: float | None, digits: int = 4) -> str:
    """Write a number with a few significant digits and thin spaces between thousands.

    Examples
    --------
    >>> [number(x) for x in (145, 0.9, 1234.5678, -3.14159, 0.0000123)]
    ['145', '0.9', '1235', '−3.142', '1.23 × 10⁻⁵']
    """
    if value is None or math.isnan(value):
        return NOTHING
    sign = MINUS if value < 0 else ""
    size = abs(value)
    if math.isinf(size):
        return f"{sign}∞"
    if size == 0:
        return "0"
    if size >= 1e9 or size < 1e-3:
        mantissa, exponent = f"{size:.{digits - 1}e}".split("e")
        return f"{sign}{_trim_zeros(mantissa)} × 10{str(int(exponent)).translate(_SUPERSCRIPTS)}"
    decimals = max(0, digits - 1 - math.floor(math.log10(size)))
    return sign + _group_digits(_trim_zeros(f"{size:.{decimals}f}"))


def _trim_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _group_digits(text: str) -> str:
    """Put thin spaces between thousands, from five digits on: 1234 is read as well as 1 234."""
    whole = text.split(".", maxsplit=1)[0]
    if len(whole) < 5:
        return text
    return f"{int(whole):,}".replace(",", THIN) + text[len(whole) :]


def label_words(found: Detection) -> str:
    """'fraud = yes', or 'attack ≠ normal': what marks true anomalies."""
    return f"{found.label} {'≠' if found.negated else '='} {found.positive}"


def count(n: int, singular: str, plural: str | None = None) -> str:
    """Write how many there are of something.

    Examples
    --------
    >>> count(1, "row"), count(3, "row")
    ('1 row', '3 rows')
    """
    return f"{_group_digits(str(n))} {singular if n == 1 else plural or singular + 's'}"


def share(part: float) -> str:
    """Write a part of one as a percentage; nearly all is not all, and little is not nothing.

    Examples
    --------
    >>> [share(x).replace(THIN, " ") for x in (0.714, 0.0523, 0.00663, 0, 0.99996, 0.000001)]
    ['71 %', '5.2 %', '0.66 %', '0 %', '99.9 %', '<0.01 %']
    """
    if not math.isfinite(part):
        return NOTHING
    percent = 100 * part
    # Rounding must not turn nearly all into all, nor little into nothing.
    if percent == 0 or percent >= 100:
        text = f"{percent:.0f}"
    elif percent < 0.01:
        text = "<0.01"
    elif percent > 99:
        text = _trim_zeros(f"{math.floor(percent * 10 + 1e-9) / 10:.1f}")
    else:
        text = number(percent, 2)
    return f"{text}{THIN}%"


SMALLEST_P = 1e-300  # a p-value below is 0 in a computer's arithmetic


def write_p(p_value: float | None) -> str:
    """A p-value with two digits.

    Examples
    --------
    >>> write_p(0.0123), write_p(0.0), write_p(4.4e-14)
    ('0.012', '< 10⁻³⁰⁰', '4.4 × 10⁻¹⁴')
    """
    if p_value is None:
        return NOTHING
    return "< 10⁻³⁰⁰" if p_value < SMALLEST_P else number(p_value, 2)


def percentile(value: float | None, decimals: int = 2) -> str:
    """Write a percentile, never rounded up: 99.996 is not 100.

    Examples
    --------
    >>> percentile(99.996), percentile(100), percentile(87.5), percentile(99.96, 1)
    ('99.99', '100.00', '87.50', '99.9')
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    unit = 10**decimals
    # 99.9 × 10 is a little less than 999 in floating point: floor alone would take off one more.
    return f"{math.floor(value * unit + 1e-9) / unit:.{decimals}f}"


def aligned(values: Sequence[float]) -> list[str]:
    """Write numbers of one column with the same number of decimals, where their sizes allow it.

    Examples
    --------
    >>> aligned([34.4712, 33.2, 9.05])
    ['34.47', '33.20', '9.05']
    """
    sizes = [abs(v) for v in values if math.isfinite(v) and v != 0]
    if not sizes or max(sizes) >= 1e6 or max(sizes) < 1e-2:
        return [number(v) for v in values]
    decimals = max(0, 3 - math.floor(math.log10(max(sizes))))  # four digits of the largest
    return [_write_fixed(v, decimals) if math.isfinite(v) else number(v) for v in values]


def _write_fixed(value: float, decimals: int) -> str:
    return (MINUS if value < 0 else "") + _group_digits(f"{abs(value):.{decimals}f}")


def cell(value: object) -> str:
    """Write one cell of a table: a number, text, a date, true or false, or that it is missing."""
    if is_missing(value):
        return "missing"
    if isinstance(value, (bool, np.bool_)):  # before numbers: True is also an int
        return str(bool(value))
    if isinstance(value, (int, float, np.integer, np.floating)):
        return number(float(value))
    if isinstance(value, datetime):
        return value.isoformat(sep=" ").removesuffix(" 00:00:00")
    return clean(str(value)[:CELL_LENGTH])


def moment(value: object) -> str:
    """Write a date, without a time of day where it is midnight.

    Examples
    --------
    >>> moment("2019-03-01T00:00:00"), moment("2019-03-01T12:30:00")
    ('2019-03-01', '2019-03-01 12:30:00')
    """
    return _MIDNIGHT.sub("", cell(value)).replace("T", " ")


def is_missing(value: object) -> bool:
    """Tell whether a cell holds nothing: None, NaN, NaT."""
    # Of a list, pandas would tell of each entry whether it is missing.
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


def between(low: object, high: object) -> str:
    """Write a range: '0.9–4.1', or with 'to' where a minus sign or a date makes the dash hard to read.

    Examples
    --------
    >>> between(0.9, 4.1), between(-3, 5), between(2, 2)
    ('0.9–4.1', '−3 to 5', '2')
    """
    first = cell(low)
    last = cell(high)
    if first == last:
        return first
    is_number = isinstance(low, (int, float, np.number)) and isinstance(high, (int, float, np.number))
    return f"{first}–{last}" if is_number and not first.startswith(MINUS) else f"{first} to {last}"


def clean(text: str) -> str:
    """Replace control characters, lone surrogates and direction marks; collapse white space."""
    return replace_unsafe(_BLANKS.sub(" ", text).strip())


def replace_unsafe(text: str) -> str:
    """Replace control characters, lone surrogates and direction marks."""
    return _UNSAFE.sub("\ufffd", text)


def shorten(text: object, length: int = 60) -> str:
    """Return the beginning of a long text, with an ellipsis.

    Examples
    --------
    >>> shorten("abcdefghij", 6)
    'abcde…'
    """
    plain = clean(str(text)[: 4 * length + 100])  # a cell of a gigabyte is not cleaned to its end
    return plain if len(plain) <= length else plain[: length - 1].rstrip() + "…"


def count_wrong_labels(n_wrong: int, n_texts: int, texts: str) -> str:
    """Say how many texts get another label than the one they came with.

    Examples
    --------
    >>> count_wrong_labels(1, 40, "40 texts").replace(THIN, " ")
    '1 of 40 texts gets another label than it came with (2.5 %).'
    """
    words = "gets another label than it" if n_wrong == 1 else "get another label than they"
    return f"{number(n_wrong)} of {texts} {words} came with ({share(n_wrong / n_texts)})."
