"""Columns with tails no longer than those of a normal distribution, and spikes no farther from the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, ndtri_exp

from tellwhy.core.score_function import Floats
from tellwhy.detectors.committee.column_law import FIRST_LEVEL, START, ColumnLaw
from tellwhy.detectors.committee.spiked import Law, SpikedLaw
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

    Where most rows have one value, the others are a class of their own, at a distance that says how rare they
    are: such a column becomes the normal scores of `SpikedLaw`. In standard deviations, which follow the
    spike, every value beside it would be far from all rows.

    Attributes
    ----------
    starts, scales, shapes
        Of the lower (of −x) and the upper tail of each column, shape (2, columns). Columns with few values
        and those with a spike have no tails: theirs start at `NEVER`.
    spiked, spikes
        Columns with a spike (and more than two values), and the laws of these.
    """

    starts: Floats
    scales: Floats
    shapes: Floats
    spiked: tuple[int, ...] = ()
    spikes: tuple[SpikedLaw, ...] = ()

    @classmethod
    def learn(cls, X: Floats, laws: Sequence[Law]) -> Straight:
        """Take the tails and the spikes of these laws, and of few values the spike, if they have one."""
        n_columns = len(laws)
        found = cls.none(n_columns)
        spikes = {}
        for j, law in enumerate(laws):
            if isinstance(law, ColumnLaw) and not len(law.surprises):
                found.starts[:, j] = law.starts
                found.scales[:, j] = law.scales
                found.shapes[:, j] = law.shapes
                continue
            spike = law if isinstance(law, SpikedLaw) else _spike_of_few(law, X[:, j])
            if spike is not None:
                spikes[j] = spike
        return replace(found, spiked=tuple(spikes), spikes=tuple(spikes.values()))

    @classmethod
    def none(cls, n_columns: int) -> Straight:
        """Leave all columns as they are."""
        return cls(np.full((2, n_columns), NEVER), np.ones((2, n_columns)), np.zeros((2, n_columns)))

    def spikes_alone(self) -> Straight:
        """Leave long tails as they are."""
        return replace(self, starts=np.full_like(self.starts, NEVER))

    @property
    def is_spiked(self) -> NDArray[np.bool_]:
        """Which columns have a spike."""
        found = np.zeros(self.starts.shape[1], dtype=bool)
        found[list(self.spiked)] = True
        return found

    def of(self, X: Floats) -> Floats:
        """Straighten rows."""
        found = np.array(X, dtype=np.float64)
        for column, law in zip(self.spiked, self.spikes, strict=True):
            found[:, column] = law.normal_scores(X[:, column])
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


def _spike_of_few(law: ColumnLaw, column: Floats) -> SpikedLaw | None:
    """Return the spike of a column with few values; two have a distance already (see `Units`)."""
    return SpikedLaw.learn(column) if len(law.values) > 2 else None
