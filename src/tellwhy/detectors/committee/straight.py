"""Columns with tails no longer than those of a normal distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, ndtri_exp

from tellwhy.core.score_function import Floats
from tellwhy.detectors.committee.column_law import FIRST_LEVEL, START, ColumnLaw
from tellwhy.detectors.committee.surprise import level_above

NORMAL_START = float(ndtri(FIRST_LEVEL))
NEVER = float(
    np.finfo(np.float64).max
)  # where a tail starts that is not there; files hold finite numbers only
# How fast a normal distribution's quantiles grow with the surprise where a tail starts: (1 − p)/φ(z).
NORMAL_SLOPE = (1 - FIRST_LEVEL) * float(np.sqrt(2 * np.pi) * np.exp(NORMAL_START**2 / 2))


@dataclass(frozen=True)
class Straight:
    """Values beyond the start of a tail, put where a normal distribution has values as surprising.

    Distances are dominated by the column with the longest tail, whose far values are nothing unusual in it.
    Between the starts of the two tails nothing changes, so that clusters stay where they are; beyond them a
    value moves inwards, never outwards, and the order of values stays.

    Attributes
    ----------
    starts, scales, shapes
        Of the lower (of −x) and the upper tail of each column, shape (2, columns). Columns with few values
        have no tails: theirs start at `NEVER`.
    """

    starts: Floats
    scales: Floats
    shapes: Floats

    @classmethod
    def of_laws(cls, laws: Sequence[ColumnLaw]) -> Straight:
        """Take the tails of these laws."""
        starts = [law.starts if not len(law.surprises) else np.full(2, NEVER) for law in laws]
        return cls(
            np.array(starts).T,
            np.array([law.scales for law in laws]).T,
            np.array([law.shapes for law in laws]).T,
        )

    @classmethod
    def none(cls, n_columns: int) -> Straight:
        """Leave all columns as they are."""
        return cls(np.full((2, n_columns), NEVER), np.ones((2, n_columns)), np.zeros((2, n_columns)))

    def of(self, X: Floats) -> Floats:
        """Straighten rows."""
        found = np.array(X, dtype=np.float64)
        for k, sign in enumerate((-1.0, 1.0)):
            for j in np.flatnonzero(self.starts[k] < NEVER):
                beyond = sign * X[:, j] - self.starts[k, j]
                far = np.flatnonzero(beyond > 0)
                found[far, j] -= sign * self._surplus(beyond[far], k, int(j))
        return found

    def _surplus(self, beyond: Floats, side: int, column: int) -> Floats:
        """By how much values are farther beyond the start than as surprising ones of a normal tail."""
        scale = self.scales[side, column]
        level = START + level_above(beyond / scale, self.shapes[side, column], START)
        normal = scale / NORMAL_SLOPE * (-ndtri_exp(-level) - NORMAL_START)
        return np.asarray(np.maximum(beyond - normal, 0.0))
