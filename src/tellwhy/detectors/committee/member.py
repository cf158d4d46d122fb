"""What the committee asks of a member, and what several members share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tellwhy.core.score_function import Floats, Integers
from tellwhy.data.columns.codes import robust_scale
from tellwhy.detectors.committee.straight import Straight

MOST_CORRELATED = 500  # columns whose correlations are used: the cost grows with the cube of their number

Mask = NDArray[np.bool_]


class Member(Protocol):
    """A fitted member: it scores rows and says what each column contributed.

    `points[i]`, where given, is the remembered row that row i of X is, or −1. A member that compares rows
    with remembered ones leaves that one out; the others take no notice.
    """

    least_scale: ClassVar[float]
    """Smallest scale of the tail of its scores: 1 for scores that are surprises already, else 0."""

    most_shape: ClassVar[float]
    """Heaviest tail that its scores may have, as a shape of `growth`.

    Of surprises it is 0 if the laws behind them can be trusted far out.
    """

    def score(self, X: Floats, points: Integers | None = None) -> Floats:
        """One number per row, high for odd rows."""
        ...

    def shares(self, X: Floats, points: Integers | None = None) -> Floats:
        """What each column contributed to the score of each row; the score is their sum."""
        ...


@dataclass(frozen=True)
class ColumnScales:
    """Columns around 0 with a width of about 1, so that no square overflows or vanishes.

    Members then choose units of their own; this one only takes offsets and powers of ten away.
    """

    centre: Floats
    scale: Floats

    @classmethod
    def learn(cls, X: Floats) -> ColumnScales:
        """Learn from all rows: medians and ranges do not mind a few odd ones."""
        learned = np.array([robust_scale(column) for column in X.T])
        return cls(learned[:, 0], learned[:, 1])

    def of(self, X: Floats) -> Floats:
        """Scale rows; what would overflow ends at ±1e100."""
        with np.errstate(over="ignore"):
            return np.clip((X - self.centre) / self.scale, -1e100, 1e100)


@dataclass(frozen=True)
class Units:
    """Columns in units of what is usual in them, so that distances weigh them alike.

    A unit is a standard deviation. Of a column with two values the distance between them follows from how
    rare they are: Φ⁻¹(1 − p/2) is the distance that a share p of a normal distribution exceeds, and a rare
    value lies that far from a common one. In standard deviations, 1/√p, a rare label would drown all else.

    Attributes
    ----------
    straight
        What is done to long tails first.
    centre, scale
        Zero and unit of each column.
    has_two_values
        Which columns have two values.
    """

    straight: Straight
    centre: Floats
    scale: Floats
    has_two_values: Mask

    @classmethod
    def learn(cls, X: Floats, kept: Integers, straight: Straight | None = None) -> Units:
        """Learn from the kept rows; how rare each of two values is, from all rows."""
        straight = straight or Straight.none(X.shape[1])
        ordinary = straight.of(X[kept])
        centre = ordinary[0] + (ordinary - ordinary[0]).mean(axis=0)  # differences first: offsets round less
        spread = (ordinary - centre).std(axis=0)
        high = X.max(axis=0)
        two = has_two_values(X)
        share = np.clip((high == X).mean(axis=0), 0.5 / len(X), 1 - 0.5 / len(X))
        apart = np.hypot(ndtri(share / 2), ndtri((1 - share) / 2))
        scale = np.where(two, (high - X.min(axis=0)) / apart, spread)
        # A spike and the values beside it have their distances already: their spread follows from how many of
        # these values were kept, and they are the first to be set aside.
        scale = np.where(straight.is_spiked, 1.0, scale)
        centre = np.where(straight.is_spiked, 0.0, centre)
        # A column that does not vary in the ordinary rows has no unit of its own.
        return cls(straight, centre, np.where(scale > 1e-12 * np.abs(centre), scale, 1.0), two)

    @property
    def is_lumped(self) -> Mask:
        """Which columns have two values, or a spike: their distances say how rare values are."""
        return np.asarray(self.has_two_values | self.straight.is_spiked)

    def of(self, X: Floats) -> Floats:
        """Bring rows into these units."""
        return np.asarray((self.straight.of(X) - self.centre) / self.scale)

    def covariance(self, Z: Floats) -> Floats:
        """Covariance of rows in these units, in which lumped columns have at least variance 1.

        The variance of a rare label is small, and a Gaussian would find it absurdly far out.
        """
        found = np.atleast_2d(np.cov(Z.T))
        lacking = np.where(self.is_lumped, np.maximum(1.0 - np.diag(found), 0.0), 0.0)
        return np.asarray(found + np.diag(lacking))


def has_two_values(X: Floats) -> Mask:
    """Which columns hold two different values."""
    low = X.min(axis=0)
    high = X.max(axis=0)
    return np.asarray(((low == X) | (high == X)).all(axis=0) & (high > low))


def excess(surprises: Floats, n_asked: float | Floats) -> Floats:
    """What is left of surprises once so many are asked for at once: [t − log n − 1]₊ + t/1000.

    The largest of n surprises of ordinary cells is about log n. The thousandth part orders rows in which no
    cell is odd.
    """
    return np.maximum(surprises - np.log(np.maximum(n_asked, 1.0)) - 1.0, 0.0) + 1e-3 * surprises
