"""Yes and no, and codes, as written.

Yes and no, as people write them.

Digits that name things: 00007 is not 7, and two numbers of twenty digits are not one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tellwhy.core.params import Fit, words_fit
from tellwhy.data.columns.names import says_zeros_count

if TYPE_CHECKING:
    from tellwhy.core.score import Floats

_PAIRS = (
    *(("yes", "no"), ("true", "false"), ("y", "n"), ("t", "f"), ("ja", "nein"), ("j", "n"), ("oui", "non")),
    *(("sí", "no"), ("si", "no"), ("on", "off"), ("wahr", "falsch"), ("vrai", "faux")),
)


@dataclass(frozen=True)
class WrittenBooleans:
    """The word that means yes, and the one that means no."""

    yes: str
    no: str

    @property
    def words(self) -> str:
        """The two for people."""
        return f"{self.yes} or {self.no}"

    def read(self, text: pa.Array) -> Floats:
        """Return 1 and 0, NaN for any other word."""
        lower = pc.utf8_lower(text)
        values = np.full(len(text), np.nan)
        for word, value in ((self.yes, 1.0), (self.no, 0.0)):
            values[np.asarray(pc.fill_null(pc.equal(lower, word), False))] = value
        return values

    def _require(self) -> Iterator[Fit]:
        return words_fit(self)


def find_booleans(cells: Sequence[str]) -> WrittenBooleans | None:
    """Return the two words that all cells consist of, or None; a third word makes a column a category.

    Examples
    --------
    >>> find_booleans(["Yes", "no", "NO"]).words, find_booleans(["yes", "no", "maybe"]) is None
    ('yes or no', True)
    """
    seen = {cell.lower() for cell in cells}
    return next((WrittenBooleans(*pair) for pair in _PAIRS if seen == set(pair)), None)


EXACT = 2**53  # whole numbers are told apart by floats up to here
_DIGITS = 16  # from so many digits on, a whole number may be beyond


def keep_digits(cells: pa.Array | pa.ChunkedArray, column: str) -> bool:
    """Tell whether cells of text must stay text: as numbers they would lose zeros, or become equal.

    Parameters
    ----------
    cells
        Trimmed text; null where it is missing.
    column
        Name of the column, which may say that it holds identifiers.

    Examples
    --------
    >>> keep_digits(pa.array(["00007", "12345"]), "x"), keep_digits(pa.array(["07", "12"]), "hour")
    (True, False)
    >>> keep_digits(pa.array(["12345678901234567890", "12345678901234567891"]), "x")
    True
    """
    return lead_with_zeros(cells, column) or would_be_equal(cells)


def lead_with_zeros(cells: pa.Array | pa.ChunkedArray, column: str) -> bool:
    """Tell whether some cells of digits begin with zeros that count."""
    if not pc.any(pc.starts_with(cells, "0")).as_py():  # at a fraction of the cost of what follows
        return False
    is_digits = pc.fill_null(pc.ascii_is_decimal(cells), False)
    digits = pc.filter(cells, is_digits)
    lengths = pc.utf8_length(digits)
    is_led = pc.and_(pc.starts_with(digits, "0"), pc.greater(lengths, 1))
    n_filled = len(cells) - cells.null_count
    if len(digits) < 0.9 * n_filled or not pc.any(is_led).as_py():
        return False
    widths = sorted(((c["counts"], c["values"]) for c in pc.value_counts(lengths).to_pylist()), reverse=True)
    return says_zeros_count(column, widths[0][1], widths[0][0] / len(digits))


def would_be_equal(cells: pa.Array | pa.ChunkedArray) -> bool:
    """Tell whether whole numbers in text differ, and would not as floats."""
    lengths = pc.utf8_length(cells)
    longest = pc.max(lengths).as_py()
    if longest is None or longest < _DIGITS:
        return False
    long = pc.filter(cells, pc.fill_null(pc.greater_equal(lengths, _DIGITS), False))
    whole = pc.filter(long, pc.ascii_is_decimal(pc.utf8_ltrim(long, characters="+-")))
    return _has_equal_floats(pc.unique(whole)) if len(whole) else False


def numbers_would_be_equal(numbers: pa.Array | pa.ChunkedArray) -> bool:
    """Tell whether whole numbers of a type that holds more digits differ, and would not as floats.

    Examples
    --------
    >>> numbers_would_be_equal(pa.array([2**60, 2**60 + 1])), numbers_would_be_equal(pa.array([7, 8]))
    (True, False)
    """
    return are_beyond(numbers, EXACT) and _has_equal_floats(pc.unique(pc.drop_null(numbers)))


def are_beyond(numbers: pa.Array | pa.ChunkedArray, limit: int) -> bool:
    """Tell whether some numbers are as large as a limit, whatever their sign."""
    ends: Any = pc.min_max(numbers).as_py()
    return ends["max"] is not None and max(-ends["min"], ends["max"]) >= limit


def _has_equal_floats(distinct: pa.Array) -> bool:
    floats = pc.cast(distinct, pa.float64(), safe=False)
    return len(pc.unique(floats)) < len(distinct)
