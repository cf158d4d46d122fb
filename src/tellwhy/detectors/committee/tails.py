"""Values that are far out in their column, or rare for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tellwhy.core.score_function import Floats, Integers
from tellwhy.detectors.committee.member import excess
from tellwhy.detectors.committee.surprise import fitted_tail

MOST_LEVELS = 20  # a column with at most that many values, in enough rows, is judged by how rare each is
ROWS_PER_LEVEL = 20
MOST_KNOTS = 400
# Levels on each side from which its tail is extrapolated; what anomalies may have moved is left out there.
FIRST_LEVEL = 0.80
SAFE_LEVEL = 0.95
LAST_LEVEL = 0.985


@dataclass(frozen=True)
class ColumnLaw:
    """What is usual in one column.

    Attributes
    ----------
    values
        Of a column with few values: each of them. Else quantiles, increasing.
    surprises
        Of a column with few values: −log of the share of rows whose value is as rare, or rarer. Else empty.
    starts, scales, shapes
        Where the lower and the upper tail start, and their β and ξ.
    unseen
        Surprise of a value that no row had.
    """

    values: Floats
    surprises: Floats
    starts: Floats
    scales: Floats
    shapes: Floats
    unseen: float

    @classmethod
    def learn(cls, column: Floats) -> ColumnLaw:
        """Learn from all rows; what a few per cent of them do does not matter."""
        n = len(column)
        values, counts = np.unique(column, return_counts=True)
        spread = _spread(column)
        if len(values) <= max(2, min(MOST_LEVELS, n // ROWS_PER_LEVEL)):
            ends = np.array([-values[0], values[-1]])
            return cls(
                values,
                _rarity(counts.astype(np.int64), n),
                ends,
                np.full(2, spread),
                np.zeros(2),
                float(np.log(n + 1)),
            )
        levels = np.linspace(FIRST_LEVEL, LAST_LEVEL, 16)
        starts = []
        scales = []
        shapes = []
        for side in (-column, column):
            quantiles = np.quantile(side, levels)
            scale, shape = fitted_tail(quantiles, -np.log1p(-levels), safe=SAFE_LEVEL)
            starts.append(quantiles[0])
            scales.append(max(scale, 1e-3 * spread))
            shapes.append(shape)
        knots = np.quantile(column, np.linspace(0, 1, min(n, MOST_KNOTS)))
        return cls(
            knots, np.empty(0), np.array(starts), np.array(scales), np.array(shapes), float(np.log(n + 1))
        )

    def surprise(self, column: Floats) -> Floats:
        """−log of the probability of a value as far out (few values: as rare) as each."""
        return self._of_levels(column) if len(self.surprises) else self._of_numbers(column)

    def _of_levels(self, column: Floats) -> Floats:
        place = np.minimum(np.searchsorted(self.values, column), len(self.values) - 1)
        is_known = self.values[place] == column
        beyond = np.maximum(np.maximum(-column - self.starts[0], column - self.starts[1]), 0.0)
        # Values that no row had are all as rare; the farther from the range the odder.
        new = self.unseen + beyond / self.scales[0]
        return np.where(is_known, self.surprises[place], new)

    def _of_numbers(self, column: Floats) -> Floats:
        at_start = -np.log1p(-FIRST_LEVEL) - np.log(2.0)  # of either side
        found = np.zeros(len(column))
        for k, side in enumerate((-column, column)):
            beyond = np.maximum(side - self.starts[k], 0.0) / self.scales[k]
            shape = self.shapes[k]
            tail = np.log1p(shape * beyond) / shape if shape > 0 else beyond
            found = np.where(beyond > 0, np.maximum(found, at_start + tail), found)
        inside = found == 0
        share = np.interp(column[inside], self.values, np.linspace(0, 1, len(self.values)))
        found[inside] = -np.log(np.clip(2 * np.minimum(share, 1 - share), 2 * (1 - FIRST_LEVEL), 1.0))
        return found


def _spread(column: Floats) -> float:
    """A length of the column: its quartiles' distance, else its mean deviation, else 1."""
    low, high = np.quantile(column, [0.25, 0.75]).tolist()
    return float((high - low) or np.abs(column - np.median(column)).mean() or 1.0)


def _rarity(counts: Integers, n: int) -> Floats:
    """−log of the share of rows with a value at most as common."""
    order = np.argsort(counts, kind="stable")
    ordered = counts[order]
    up_to = np.cumsum(ordered)[np.searchsorted(ordered, ordered, "right") - 1]
    shares = np.empty(len(counts))
    shares[order] = up_to / n
    return np.asarray(-np.log(shares))


def surprises_of(laws: tuple[ColumnLaw, ...], X: Floats) -> Floats:
    """Surprise of each cell under the law of its column."""
    return np.column_stack([law.surprise(column) for law, column in zip(laws, X.T, strict=True)])


@dataclass(frozen=True)
class Tails:
    """Excess surprise of each cell in its own column."""

    least_scale: ClassVar[float] = 1.0
    laws: tuple[ColumnLaw, ...]

    @classmethod
    def learn(cls, X: Floats) -> Tails:
        """Learn the law of each column from all rows: a few per cent of anomalies do not move it."""
        return cls(tuple(ColumnLaw.learn(column) for column in X.T))

    def score(self, X: Floats, points: Integers | None = None) -> Floats:  # noqa: ARG002
        """Sum of the excess surprises of a row."""
        return np.asarray(self.shares(X).sum(axis=1))

    def shares(self, X: Floats, points: Integers | None = None) -> Floats:  # noqa: ARG002
        """Excess surprise of each cell."""
        return excess(surprises_of(self.laws, X), X.shape[1])
