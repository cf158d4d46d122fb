"""Columns in which most rows have one value, and the others a distribution of their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri_exp

from tellwhy.core.score_function import Floats
from tellwhy.detectors.committee.column_law import (
    FIRST_LEVEL,
    HEAVIEST,
    LIGHTEST,
    ColumnLaw,
    are_few,
    spread_of,
    upper_tail,
)
from tellwhy.detectors.committee.surprise import Surprise, shown_levels

SPIKE = 0.5  # share of the rows that makes a value a spike
FEW_BESIDE = 20  # rows on a side of the spike; fewer tell no tail, which may then be a heavy one,
LEAST_BESIDE = 5  # and of fewer still, what is usual on both sides is the unit


@dataclass(frozen=True)
class SpikedLaw:
    """What is usual in a column with a spike: a value in at least half of the rows, such as 0.

    Values beside the spike are judged among themselves. With r the share of rows above the spike, and P the
    distribution of these rows alone, a value x there has the surprise −log(2 r P(values ≥ x)), as far out in
    a distribution with two sides; below the spike likewise. The spike has none. So a twentieth of the rows is
    never odd for being no zero, and one of them that is far from the others is.

    Attributes
    ----------
    spike
        The value.
    sides
        Laws of the distance below and above the spike, −log of the share of all rows as far on that side.
    """

    spike: float
    sides: tuple[Surprise, Surprise]

    @classmethod
    def learn(cls, column: Floats) -> SpikedLaw | None:
        """Learn from all rows; None where there is no spike, or a tail of either side tells enough."""
        n = len(column)
        spike = float(np.partition(column, n // 2)[n // 2])  # the value of more than half of the rows
        away = column - spike
        beyond = [-away[away < 0], away[away > 0]]
        shares = np.array([len(side) / n for side in beyond])
        is_beside = (shares > 0) & (shares < 1 - FIRST_LEVEL)
        if shares.sum() > 1 - SPIKE or not is_beside.any():
            return None
        usual = float(np.median(np.concatenate(beyond)))
        return cls(spike, (_side(beyond[0], n, usual), _side(beyond[1], n, usual)))

    @property
    def largest(self) -> float:
        """Largest surprise of a value that rows had; numbers have none."""
        return np.inf

    def surprise(self, column: Floats) -> Floats:
        """−log of the probability of a value as far from the spike."""
        return np.maximum(self._of_sides(column) - np.log(2.0), 0.0)

    def normal_scores(self, column: Floats) -> Floats:
        """Put the spike at 0, and other values where a normal distribution has values as rare."""
        levels = self._of_sides(column)
        far = np.flatnonzero(levels > np.log(2.0))
        found = np.zeros(len(column))
        found[far] = np.sign(column[far] - self.spike) * -ndtri_exp(-levels[far])
        return found

    def _of_sides(self, column: Floats) -> Floats:
        """Surprise of each value on its own side; 0 at the spike."""
        away = column - self.spike
        found = np.zeros(len(column))
        for side, law in zip((-away, away), self.sides, strict=True):
            far = np.flatnonzero(side > 0)
            found[far] = law.value(side[far])
        return found


Law = ColumnLaw | SpikedLaw


def law_of(column: Floats) -> Law:
    """Learn what is usual in a column: beside a spike, unless it has few values there."""
    spiked = SpikedLaw.learn(column)
    if spiked is None:
        return ColumnLaw.learn(column)
    # Rows of the spike do not tell whether the other values repeat: a dozen amounts among zeros are measured.
    beside = column[column != spiked.spike]
    return ColumnLaw.learn(column) if are_few(len(np.unique(beside)), len(beside)) else spiked


def _side(distances: Floats, n: int, usual: float) -> Surprise:
    """Law of the distances of one side, of n rows in all; `usual` is the usual distance on both sides."""
    if len(distances) < FEW_BESIDE:
        seen = -np.log(max(len(distances), 0.5) / n)
        unit = usual if len(distances) < LEAST_BESIDE else float(np.median(distances))
        return Surprise(np.zeros(1), np.array([seen]), unit, HEAVIEST)
    share = len(distances) / n
    tail = upper_tail(distances, LIGHTEST, 1e-3 * spread_of(distances), share=share)
    knots, levels = shown_levels(distances, tail.start)
    return Surprise(knots, levels - np.log(share), tail.scale, tail.shape)
