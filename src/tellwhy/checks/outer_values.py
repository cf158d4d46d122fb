"""Values of a column that are far from all the others.

A few outermost values are far where the gap between them and the next, in spreads of the others (from their
5 % to their 95 % quantile),

    g = |x − next| / (q₉₅ − q₀₅)

is at least .75, and where the tail that the others have would hardly reach them: of a Pareto tail of
distances from the middle, with m values beyond its start and mean logarithm b, k values are farther by a
factor f with

    P = (1 + k log f / (m b))^(−m)

(the spacing of exponential variables, their scale from m others), at most e⁻², where b tells of a heavy tail
e⁻⁵. Of columns without negative values the upper gap is also taken on a logarithmic scale, and the smaller
counts: an income may be twice the next. A 0 is what people write for "none": where all others keep well away
from it, a gap of .3 is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tellwhy.core.score import Floats, Integers

GAP = 0.75
_GAP_OF_MANY = 1.0  # where more than three values are far together
_GAP_OF_LIST = 2.0  # where a column has few different values: 8 cars among 0, 1, 2 and 3
_GAP_OF_ZERO = 0.3
_AWAY_FROM_ZERO = 0.3  # of the middle value: nothing but the zeros is below
_STEPS = 5.0  # of the least difference between values
_FEWEST = 40
_FEWEST_VALUES = 3
_LIST = 10  # different values: fewer are a list
_HANDFUL = 3
MOST_FAR = 0.01  # of the values: more are a group
_OUTER = (0.05, 0.95)
_TAIL = 0.1  # of the values
_TAIL_SIZE = (8, 1 / 3)  # at least so many, at most this share
_EVIDENCE = (2.0, 5.0)  # −log P that is asked of light tails, and of heavy ones
_MEANS = (
    0.25,
    0.45,
)  # mean logarithm of normal variables, and of Student's with two degrees of freedom, nearly
_MOST_EQUAL = 0.3  # of the values are the middle one: the others are what is beside it, of any size


@dataclass(frozen=True, eq=False)
class Far:
    """Rows whose values are far out on one side, the least of their gaps, and the others in rising order."""

    rows: Integers
    gap: float
    rest: Floats


@dataclass(frozen=True, eq=False)
class _Side:
    """Sorted values, seen so that what is far is above: of the lower end, their negatives."""

    sign: float
    rising: Floats
    is_list: bool

    def start(self) -> int:
        """Where the far values begin: before the widest gap of those that are wide enough."""
        n = len(self.rising)
        cuts = np.arange(n - min(max(_HANDFUL, int(MOST_FAR * n)), n // 10), n)
        gaps = self.gaps(cuts, self.rising[cuts])
        is_far = gaps >= self.least(cuts, self.rising[cuts])
        start = int(cuts[np.argmax(np.where(is_far, gaps, -1))]) if is_far.any() else n
        return (
            start if start == n or self.is_beyond(start, self.rising[start : start + 1], n - start)[0] else n
        )

    def is_beyond(self, start: int, x: Floats, k: int) -> np.ndarray:
        """Whether the tail of the values before `start` would hardly put k values beyond each x."""
        fewest, most = _TAIL_SIZE
        m = int(min(max(fewest, _TAIL * start), most * start))
        middle, first = self.rising[start // 2], self.rising[start - m - 1]
        if first <= middle:
            return np.ones(len(x), dtype=np.bool_)  # half of the values are equal
        mean = float(np.log((self.rising[start - m : start] - middle) / (first - middle)).mean())
        if mean <= 0:
            return np.ones(len(x), dtype=np.bool_)  # all of the tail are equal
        farther = np.log((x - middle) / (self.rising[start - 1] - middle))
        evidence = m * np.log1p(k * farther / (m * mean))
        return np.asarray(evidence >= np.interp(mean, _MEANS, _EVIDENCE))

    def gaps(self, cuts: Integers, x: Floats) -> Floats:
        """How far numbers are from the values before each cut, in spreads of these; wider ones of a list."""
        low, high = (self.rising[(share * (cuts - 1)).astype(np.int64)] for share in _OUTER)
        near = self.rising[cuts - 1]
        gaps = _in_spreads(low, high, near, x)
        if self.is_list:
            return gaps * GAP / _GAP_OF_LIST
        if self.sign < 0 or self.rising[0] < 0:
            return gaps
        scale = max(float(np.median(self.rising[self.rising > 0])), 1e-300)
        bent = [np.arcsinh(each / scale) for each in (low, high, near, x)]
        return np.minimum(gaps, _in_spreads(*bent))

    def least(self, cuts: Integers, x: Floats) -> Floats:
        """The gap from which a number is far from the values before each cut."""
        if self.is_list:
            return np.full(len(cuts), GAP)
        many = len(self.rising) - cuts > _HANDFUL
        near, middle = self.rising[cuts - 1], self.rising[cuts // 2]
        is_zero = (x == 0) & (near < 0) & (-near >= _AWAY_FROM_ZERO * -middle)
        return np.where(is_zero, _GAP_OF_ZERO, np.where(many, _GAP_OF_MANY, GAP))


def far_values(values: Floats, known: Floats, step: float) -> Iterator[Far]:
    """Find values far above, and far below, the others among sorted values that are known.

    Examples
    --------
    >>> cylinders = np.r_[np.repeat([4.0, 6.0, 8.0], 40), 44]
    >>> [far.rows.tolist() for far in far_values(cylinders, np.sort(cylinders), 2.0)]
    [[120]]
    """
    for side in _sides(known):
        start = side.start()
        last = side.rising[start - 1]
        x = side.sign * values
        with np.errstate(invalid="ignore"):
            rows = np.flatnonzero(x >= last + _STEPS * step)
        cuts = np.full(len(rows), start)
        gaps = side.gaps(cuts, x[rows])
        chosen = gaps >= side.least(cuts, x[rows])
        if start == len(known):  # of rows that are judged by others, each is one more
            chosen &= side.is_beyond(start, x[rows], 1)
        if chosen.any():
            yield Far(rows[chosen], float(gaps[chosen].min()), np.sort(side.sign * side.rising[:start]))


def without_far(known: Floats) -> Floats:
    """Sorted values without those that are far from all the others.

    Examples
    --------
    >>> float(without_far(np.r_[np.arange(50.0), 700])[-1])
    49.0
    """
    starts = {side.sign: side.start() for side in _sides(known)}
    return known[len(known) - starts[-1.0] : starts[1.0]] if starts else known


def _sides(known: Floats) -> Iterator[_Side]:
    """Both ends of a column; none where its values do not tell how far is far."""
    n_values = np.count_nonzero(np.diff(known)) + 1 if len(known) else 0
    if len(known) < _FEWEST or n_values < _FEWEST_VALUES:
        return
    is_list = bool(n_values < _LIST)
    if is_list or np.mean(known == known[len(known) // 2]) <= _MOST_EQUAL:
        yield _Side(1.0, known, is_list)
        yield _Side(-1.0, -known[::-1], is_list)


def _in_spreads(low: Floats, high: Floats, near: Floats, x: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(high > low, (x - near) / (high - low), 0.0)
