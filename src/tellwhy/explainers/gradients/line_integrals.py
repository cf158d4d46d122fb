"""Integrals of gradients along straight lines, as fine as each line needs.

A Gauss–Legendre sum of a few gradients is exact for smooth scores. Along any part of a line the integral must
be the difference of the scores at its ends, so that the error of each part is known without a second sum:
parts whose error is too large are cut in half, and only those.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.errors import NotConverged
from tellwhy.core.parallel import BATCH_BYTES, row_batches
from tellwhy.core.progress import track
from tellwhy.core.score_function import Floats, Integers

MOST_MISSING = 0.05  # of the difference between the scores at the ends of a line, without a warning


@dataclass(frozen=True)
class Limits:
    """Where the refinement of the integral ends.

    Attributes
    ----------
    tolerance
        Largest error of a part, as a share of the difference between the scores at the ends of the line.
    max_steps
        Gradients per line, at most.
    rounding
        A share of the scores at both ends: differences below it are not errors of the integral.
    """

    tolerance: float
    max_steps: int
    rounding: float

    def allowed(self, start: Floats, stop: Floats) -> Floats:
        """Error that a part of each line may have."""
        by_rounding = self.rounding * (np.abs(stop) + np.abs(start))
        return np.asarray(self.tolerance * np.abs(stop - start) + by_rounding)


@dataclass(frozen=True)
class Parts:
    """Parts [start, stop] of the lines of some rows, with the scores at their ends."""

    row: Integers
    start: Floats
    stop: Floats
    low: Floats
    high: Floats

    @classmethod
    def whole(cls, low: Floats, high: Floats) -> Parts:
        """All of each line."""
        n = len(low)
        return cls(np.arange(n), np.zeros(n), np.ones(n), low, high)

    def halves(self, chosen: NDArray[np.bool_], lines: Lines, index: Integers) -> Parts:
        """Both halves of the chosen parts; `index` tells the line of each row."""
        row = self.row[chosen]
        start = self.start[chosen]
        stop = self.stop[chosen]
        middle = (start + stop) / 2
        score = lines.value(index[row], middle) if len(row) else middle
        return Parts(
            np.concatenate([row, row]),
            np.concatenate([start, middle]),
            np.concatenate([middle, stop]),
            np.concatenate([self.low[chosen], score]),
            np.concatenate([score, self.high[chosen]]),
        )


@dataclass(frozen=True)
class Lines:
    """The straight lines from a reference to each row, and a score along them.

    `others` are further arguments of the score, one entry per row; at least `together` lines are worked on at
    once.
    """

    score: Any
    X: Floats
    reference: Floats
    others: tuple[Integers, ...] = ()
    together: int = 1

    def __len__(self) -> int:
        return len(self.X)

    def batches(self, n: int, bytes_per_row: int) -> list[slice]:
        """Parts of n lines under the limit of memory."""
        return row_batches(n, bytes_per_row, max(BATCH_BYTES, self.together * bytes_per_row))

    def taken(self, chosen: NDArray[np.bool_]) -> Lines:
        """The lines of some rows."""
        return replace(self, X=self.X[chosen], others=tuple(other[chosen] for other in self.others))

    def value(self, row: Integers, share: Floats | float) -> Floats:
        """Score at a share of the way from the reference (0) to each row (1)."""
        return np.asarray(self.score.value(self._points(row, share), *self._others(row)))

    def integrals(self, row: Integers, parts: Parts, n_steps: int) -> Floats:
        """(x − r) ∫ ∂o/∂x dt over each part, by Gauss–Legendre, shaped like the rows."""
        nodes, weights = np.polynomial.legendre.leggauss(n_steps)  # on [−1, 1]
        shape = self.X.shape[1:]
        found = np.empty((len(row), *shape))
        for batch in self.batches(len(row), 24 * n_steps * self.reference.size):
            length = (parts.stop - parts.start)[batch]
            share = parts.start[batch][:, None] + length[:, None] * (nodes + 1) / 2
            repeated = np.repeat(row[batch], n_steps)
            slope = self.score.gradient(self._points(repeated, share.ravel()), *self._others(repeated))
            mean = np.tensordot(weights / 2, slope.reshape(len(length), n_steps, *shape), (0, 1))
            step = length.reshape(-1, *[1] * len(shape))
            found[batch] = mean * step * (self.X[row[batch]] - self.reference)
        return found

    def _points(self, row: Integers, share: Floats | float) -> Floats:
        shares = np.broadcast_to(share, row.shape).reshape(-1, *[1] * self.reference.ndim)
        # the ends must be the row and the reference themselves, to the last bit
        return np.asarray((1 - shares) * self.reference + shares * self.X[row])

    def _others(self, row: Integers) -> tuple[Integers, ...]:
        return tuple(other[row] for other in self.others)


@dataclass(frozen=True)
class Integrated:
    """Integrals of all lines, shaped like the rows, scores at both ends, and how many gradients each took."""

    values: Floats
    scores: Floats
    base: Floats
    n_gradients: Integers


def integrate(lines: Lines, n_steps: int, limits: Limits) -> Integrated:
    """Integrate along every line, in batches."""
    every = np.arange(len(lines))
    found = Integrated(
        np.empty_like(lines.X),
        lines.value(every, 1.0),
        lines.value(every, 0.0),
        np.empty(len(lines), dtype=np.int64),
    )
    # the most parts that a line can have at once, each with the gradient of its row
    bytes_per_row = 16 * lines.X[0].size * max(n_steps, limits.max_steps // n_steps)
    batches = lines.batches(len(lines), bytes_per_row)
    for batch in track(batches, len(batches), "integrating gradients"):
        whole = Parts.whole(found.base[batch], found.scores[batch])
        values, used = _refined(lines, every[batch], whole, n_steps, limits)
        found.values[batch] = values
        found.n_gradients[batch] = used
    return found


def integrate_well(lines: Lines, n_steps: int, limits: Limits, *, most: int | None = None) -> Integrated:
    """Integrate, again with up to `most` gradients where over 5 % is missing; warn where it stays so."""
    found = integrate(lines, n_steps, limits)
    bad = _is_missing(found, limits)
    if bad.any() and most is not None:
        again = integrate(lines.taken(bad), n_steps, replace(limits, max_steps=most))
        found.values[bad] = again.values
        found.n_gradients[bad] += again.n_gradients
        bad = _is_missing(found, limits)
    if bad.any():
        share = np.abs(_missing(found) / (found.scores - found.base))[bad].max()
        warnings.warn(
            f"IntegratedGradients leaves up to {min(share, 9.99):.0%} of the difference between a row and "
            f"its reference unattributed, in {int(bad.sum())} of {len(bad)} rows: the score jumps on the "
            "way. Start from ordinary rows (background=…, or reference=<a row>), or raise max_steps.",
            NotConverged,
            stacklevel=2,
        )
    return found


def _missing(found: Integrated) -> Floats:
    """What the values of each row do not add up to."""
    sums = found.values.reshape(len(found.values), -1).sum(axis=1)
    return np.asarray(found.scores - found.base - sums)


def _is_missing(found: Integrated, limits: Limits) -> NDArray[np.bool_]:
    """Tell the rows of which more than 5 %, and more than rounding makes, is not attributed."""
    return np.asarray(
        np.abs(_missing(found)) > replace(limits, tolerance=MOST_MISSING).allowed(found.base, found.scores)
    )


def _refined(
    lines: Lines, index: Integers, parts: Parts, n_steps: int, limits: Limits
) -> tuple[Floats, Integers]:
    """Integrate over the whole line of each row, then over halves of the parts that are not accurate yet."""
    n = len(index)
    allowed = limits.allowed(parts.low, parts.high)
    values = np.zeros((n, *lines.X.shape[1:]))
    used = np.zeros(n, dtype=np.int64)
    while len(parts.row):
        found = lines.integrals(index[parts.row], parts, n_steps)
        used += n_steps * np.bincount(parts.row, minlength=n)
        error = np.abs(parts.high - parts.low - found.reshape(len(found), -1).sum(axis=1))
        wanted = error > allowed[parts.row]
        # a row whose next round would cost too much keeps all its parts as they are
        next_cost = 2 * n_steps * np.bincount(parts.row[wanted], minlength=n)
        split = wanted & (used + next_cost <= limits.max_steps)[parts.row]
        np.add.at(values, parts.row[~split], found[~split])  # several parts may belong to one row
        parts = parts.halves(split, lines, index)
    return values, used
