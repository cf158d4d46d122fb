"""The one standardiser: mean and standard deviation of columns, whatever their offsets and scales.

Two things go wrong in the plain formulas. Squares of large numbers overflow, and those of small ones vanish.
And the mean of equal numbers may be off by a rounding error, so that a constant column seems to have a tiny
spread, by which others are then divided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats


@dataclass(frozen=True)
class ColumnSpread:
    """Mean and standard deviation of each column; the deviation of a constant column is exactly 0.

    Examples
    --------
    >>> spread = ColumnSpread.of(np.array([[0.0, 0.1], [2.0, 0.1], [4.0, 0.1]]))
    >>> spread.mean, spread.deviation.round(3), spread.varies
    (array([2. , 0.1]), array([1.633, 0.   ]), array([ True, False]))
    """

    mean: Floats
    deviation: Floats

    @classmethod
    def of(cls, X: NDArray[Any]) -> ColumnSpread:
        """Measure the columns of rows of any float type, in float64."""
        exponent = np.frexp(np.abs(X).max(axis=0))[1]
        # Dividing by a power of two changes no digit, so that the results are those of the plain formulas
        # wherever these are right. The exponent is one less than it could be: 2^1024 is not a number.
        unit = np.ldexp(1.0, exponent - 1)
        scaled = X / unit
        varies = X.max(axis=0) > X.min(axis=0)
        mean = np.where(varies, scaled.mean(axis=0) * unit, X[0])
        return cls(mean, np.where(varies, scaled.std(axis=0) * unit, 0.0))

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Mask of the columns that are not constant."""
        return self.deviation > 0


@dataclass(frozen=True)
class Scaling:
    """z = (x − centre)/scale, with one centre and one scale per column.

    Learned from rows, it gives their columns mean 0 and standard deviation 1.
    """

    centre: Floats
    scale: Floats

    @classmethod
    def of(cls, X: NDArray[Any], *, constant: float | None = None) -> Self:
        """Learn from the columns of rows.

        A constant column takes the scale `constant`. By default it takes the median scale of the others, so
        that a cell that differs from the constant one day counts like a cell of an ordinary column.

        Examples
        --------
        >>> Scaling.of(np.array([[1e9, 7.0], [1e9 + 2.0, 7.0]])).scale
        array([1., 1.])
        """
        spread = ColumnSpread.of(X)
        if constant is None:
            if not spread.varies.any():
                raise InvalidInput(
                    "All rows are equal: there is no spread to learn from. Give rows that differ."
                )
            constant = float(np.median(spread.deviation[spread.varies]))
        return cls(spread.mean, np.where(spread.varies, spread.deviation, constant))

    @classmethod
    def none(cls, n_columns: int) -> Self:
        """Leave rows as they are."""
        return cls(np.zeros(n_columns), np.ones(n_columns))

    def apply(self, X: NDArray[Any]) -> Floats:
        """Bring rows into scaled coordinates."""
        return np.ascontiguousarray((X - self.centre) / self.scale)
