"""A column as it was written: its different cells as texts, how often each occurs, how new ones are spelt.

Everything is counted over different cells, not over rows: a table of a million rows has few different ones.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from tellwhy.core.score import Floats, Integers

MARK = re.compile(
    r"[\W_]*(#?n/?a|null|nan|nil|none|unknown|missing|tbd|undefined|unspecified|#ref!|#value!|#div/0!|#name\?"
    r"|(not|un)[ -]?(available|known|specified|applicable|given)|no data|\?+|-+|\.+)?[\W_]*",
    re.IGNORECASE,
)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_LONGEST_MARK = 30
_SMOOTHING = 0.3


@dataclass(frozen=True, eq=False)
class Writing:
    """Cells of a column: row i holds `names[codes[i]]`, code −1 where it is empty.

    Attributes
    ----------
    codes
        Of each row.
    values
        The different cells, as they were stored.
    is_text
        Whether they were stored as texts.
    counts
        How many rows hold each, copies of a row counted once.
    """

    codes: Integers
    values: tuple[object, ...]
    is_text: bool
    counts: Integers

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The different cells as texts."""
        return tuple(value if isinstance(value, str) else written_text(value) for value in self.values)

    @property
    def k(self) -> int:
        """How many different cells there are."""
        return len(self.values)

    @cached_property
    def n(self) -> int:
        """How many rows are filled."""
        return int(self.counts.sum())

    @cached_property
    def place(self) -> dict[str, int]:
        """The code of each text."""
        return {name: code for code, name in enumerate(self.names)}

    @cached_property
    def is_mark(self) -> np.ndarray:
        """Which cells say that something is not known."""
        return np.array([len(x) < _LONGEST_MARK and MARK.fullmatch(x) is not None for x in self.names], bool)

    @cached_property
    def is_number(self) -> np.ndarray:
        """Which cells are written as plain numbers."""
        if not self.is_text:
            return np.array([not isinstance(v, (str, pd.Timestamp)) for v in self.values], bool)
        return np.array([NUMBER.fullmatch(name) is not None for name in self.names], bool)

    @cached_property
    def number_share(self) -> float:
        """Share of the filled rows that hold numbers, marks left aside."""
        full = self.counts[~self.is_mark].sum()
        return float(self.counts[self.is_number].sum() / full) if full else 0.0

    @cached_property
    def new_share(self) -> float:
        """Mass of cells that were not met yet: the share of those met once (Good and Turing)."""
        return float((self.counts[~self.is_mark] == 1).sum() / max(self.n, 1))

    @cached_property
    def order(self) -> tuple[Integers, Integers]:
        """Rows sorted by code, and where each code begins among them."""
        rows = np.argsort(self.codes, kind="stable")
        starts = np.searchsorted(self.codes[rows], np.arange(self.k + 1))
        return rows, starts

    def rows_of(self, code: int) -> Integers:
        """Rows that hold a cell."""
        rows, starts = self.order
        return rows[starts[code] : starts[code + 1]]

    @cached_property
    def spelling(self) -> Spelling:
        """How new cells of the column are spelt."""
        return Spelling.of([name for name, mark in zip(self.names, self.is_mark, strict=True) if not mark])

    def price(self, code: int) -> float:
        """log P of a cell as an ordinary one, the cell itself left out: by count, or as a new one."""
        count = int(self.counts[code]) - 1
        if count > 0:
            return math.log(count / max(self.n, 1))
        return math.log(self.new_share + 1 / (self.n + 1)) + self.spelling.log_p(self.names[code])


@dataclass(frozen=True, eq=False)
class Spelling:
    """Pairs of neighbouring characters in the different cells of a column."""

    pairs: Counter[tuple[str, str]]
    firsts: Counter[str]
    known: frozenset[str]

    @classmethod
    def of(cls, names: list[str]) -> Spelling:
        """Count the pairs."""
        pairs: Counter[tuple[str, str]] = Counter()
        for name in names:
            pairs.update(zip("^" + name, name + "$", strict=True))
        firsts: Counter[str] = Counter()
        for (first, _), count in pairs.items():
            firsts[first] += count
        return cls(pairs, firsts, frozenset(names))

    def log_p(self, name: str) -> float:
        """log P of the spelling of a new cell; a known one is left out of the counts."""
        own = list(zip("^" + name, name + "$", strict=True))
        out = Counter(own) if name in self.known else Counter()
        out_firsts: Counter[str] = Counter()
        for (first, _), count in out.items():
            out_firsts[first] += count
        letters = max(len(self.firsts), 2)
        total = 0.0
        for pair in own:
            met = self.pairs[pair] - out[pair] + _SMOOTHING
            total += math.log(met / (self.firsts[pair[0]] - out_firsts[pair[0]] + _SMOOTHING * letters))
        return total


def written_text(value: object) -> str:
    """A stored value as people write it.

    Examples
    --------
    >>> written_text(12.0), written_text(1.5), written_text(pd.Timestamp("2024-03-01"))
    ('12', '1.5', '2024-03-01')
    """
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value).removesuffix(" 00:00:00")


def write_column(series: pd.Series, gone: Integers, voices: np.ndarray | None = None) -> Writing:
    """Read the different cells of a column.

    Parameters
    ----------
    series
        The column.
    gone
        Rows whose cell is explained, and missing from then on.
    voices
        Which rows are counted; all by default.
    """
    is_text = not (
        pd.api.types.is_numeric_dtype(series.dtype) or pd.api.types.is_datetime64_any_dtype(series)
    )
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(object)
    try:
        codes, found = pd.factorize(series)
    except TypeError:  # lists, dicts
        codes, found = pd.factorize(series.map(str))
    values = list(found)
    codes = codes.astype(np.int64)
    blank = [i for i, value in enumerate(values) if isinstance(value, str) and not value.strip()]
    if blank:
        codes[np.isin(codes, blank)] = -1
    if len(gone):
        codes[gone] = -1
    counted = codes if voices is None else codes[voices]
    counts = np.bincount(counted[counted >= 0], minlength=len(values))
    return Writing(codes, tuple(values), is_text, counts)


def log_odds(p: float | Floats) -> Floats:
    """log p/(1 − p)."""
    return np.asarray(np.log(p) - np.log1p(-np.asarray(p, dtype=np.float64)))
