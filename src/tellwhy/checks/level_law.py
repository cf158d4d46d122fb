"""What numbers are like within the levels of a label: the label of a table that tells most of a column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tellwhy.core.params import Fit, are_finite
from tellwhy.core.score import Floats, Integers

if TYPE_CHECKING:
    from tellwhy.checks.facts import Facts

_FEWEST_OF_LEVEL = 5
_MOST_LEVELS = 2000
_TELLS = 0.9  # of the variance: a label that leaves more tells nothing
_TO_SPREAD = 1.4826  # a median distance as a standard deviation
_REACH = 4.0  # spreads from the median of a level from which values count as if they were there
_PRIOR_ROWS = 4.0  # that a level's spread is worth before any are seen
_FARTHEST = 5.0


@dataclass(frozen=True, eq=False)
class LevelLaw:
    """Middle and spread of a column within each level of a label.

    Attributes
    ----------
    label, levels
        The label column that tells most of the numbers, "" for none, and its levels.
    counts, sums, squares
        For each level: rows, and sums of values and of their squares, those far out drawn in.
    middles, reaches
        Of each level: its median, and how far from it a value counts as it is.
    spread
        Of values within levels.
    width
        Of all values.
    """

    label: str
    levels: tuple[str, ...]
    counts: Floats
    sums: Floats
    squares: Floats
    middles: Floats
    reaches: Floats
    spread: float
    width: float

    def _require(self) -> Iterator[Fit]:
        for name in ("counts", "sums", "squares", "middles", "reaches"):
            yield name, len(getattr(self, name)), len(self.levels)
            yield name, are_finite(*getattr(self, name).tolist()), True
        yield "spread", are_finite(self.spread, self.width), True

    def of(self, codes: Integers, values: Floats | None) -> tuple[Floats, Floats]:
        """Mean and spread of levels; where values are given, each is left out of its own."""
        known = codes >= 0
        at = np.where(known, codes, 0)
        n = np.where(known, self.counts[at], 0.0)
        total = np.where(known, self.sums[at], 0.0)
        squares = np.where(known, self.squares[at], 0.0)
        if values is not None:
            own = self.drawn(values, at)
            left = n > 0
            n = n - left
            total = total - left * own
            squares = squares - left * own**2
        mean = total / np.maximum(n, 1)
        around = np.maximum(squares - n * mean**2, 0)
        spread = np.sqrt((around + _PRIOR_ROWS * self.spread**2) / (n + _PRIOR_ROWS))
        is_told = n >= _FEWEST_OF_LEVEL
        usual = float(self.middles.mean())
        return np.where(is_told, mean, usual), np.where(is_told, spread, max(self.width, 1e-12))

    def drawn(self, values: Floats, at: Integers) -> Floats:
        """Values, those far from the middle of their level drawn in."""
        return np.clip(values, self.middles[at] - self.reaches[at], self.middles[at] + self.reaches[at])

    def codes(self, facts: Facts) -> Integers:
        """The level of each row of a table, −1 where it has none."""
        if not self.label or self.label not in facts.labels:
            return np.full(facts.n, -1)
        found = facts.labels[self.label]
        place = {name: at for at, name in enumerate(self.levels)}
        lookup = np.array([*(place.get(str(name), -1) for name in found.names), -1], dtype=np.int64)
        return np.asarray(lookup[found.codes])


def learn_levels(facts: Facts, values: Floats, rows: Integers, ranges: tuple[float, float]) -> LevelLaw:
    """Learn from the values of some rows how they lie within the levels of the label that tells most of them.

    `ranges` are the width of all values, and the least difference that is seen between them.
    """
    width, least = ranges
    label = _telling_label(facts, values, rows, width)
    if not label:
        none = np.zeros(1)
        return LevelLaw("", ("",), none, none, none, none, np.array([_FARTHEST * width]), width, width)
    found = facts.labels[label]
    at = found.codes[rows]
    known = at >= 0
    at, own = at[known], values[known]
    n = len(found.names)
    middles, away = _middles(at, own, n)
    spread = max(_TO_SPREAD * float(np.median(np.abs(own - middles[at]))), least, 0.003 * width)
    reaches = _REACH * np.maximum(_TO_SPREAD * away, spread / 3)
    drawn = np.clip(own, middles[at] - reaches[at], middles[at] + reaches[at])
    return LevelLaw(
        label=label,
        levels=tuple(map(str, found.names)),
        counts=np.bincount(at, minlength=n).astype(float),
        sums=np.bincount(at, weights=drawn, minlength=n).astype(float),
        squares=np.bincount(at, weights=drawn**2, minlength=n).astype(float),
        middles=middles,
        reaches=reaches,
        spread=spread,
        width=width,
    )


def _telling_label(facts: Facts, values: Floats, rows: Integers, width: float) -> str:
    """The label within whose levels values vary least, each left out of its mean; "" if none tells."""
    middle = float(np.median(values))
    own = np.clip(values, middle - _FARTHEST * width, middle + _FARTHEST * width)
    whole = float(np.var(own))
    best, least = "", _TELLS * whole
    for name, labels in facts.labels.items():
        if not 2 <= len(labels.names) <= min(_MOST_LEVELS, len(rows) // _FEWEST_OF_LEVEL):
            continue
        at = labels.codes[rows]
        known = at >= 0
        counts = np.bincount(at[known], minlength=len(labels.names))
        sums = np.bincount(at[known], weights=own[known], minlength=len(labels.names))
        others = (sums[at] - own) / np.maximum(counts[at] - 1, 1)
        varied = float(np.where(known & (counts[at] > 1), (own - others) ** 2, whole).mean())
        if varied < least:
            best, least = name, varied
    return best


def _middles(at: Integers, values: Floats, n_levels: int) -> tuple[Floats, Floats]:
    """Median of each level, and the median distance from it."""
    middles = np.zeros(n_levels)
    away = np.zeros(n_levels)
    order = np.argsort(at, kind="stable")
    ends: Sequence[int] = np.searchsorted(at[order], np.arange(n_levels + 1)).tolist()
    for level in range(n_levels):
        own = values[order[ends[level] : ends[level + 1]]]
        if len(own):
            middles[level] = np.median(own)
            away[level] = np.median(np.abs(own - middles[level]))
    return middles, away
