"""Columns brought to mean 0 and standard deviation 1, whatever their offsets and scales."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats


@dataclass(frozen=True)
class Scaling:
    """z = (x − centre)/scale, one centre and one scale per column."""

    centre: Floats
    scale: Floats

    @classmethod
    def of(cls, X: Floats) -> Scaling:
        """Means and standard deviations of the columns; a constant column takes the median scale of the others.

        Examples
        --------
        >>> Scaling.of(np.array([[1e9, 7.0], [1e9 + 2.0, 7.0]])).scale
        array([1., 1.])
        """
        half = X / 2.0  # sums and differences of halves do not overflow
        lowest, highest = half.min(axis=0), half.max(axis=0)
        varies = highest > lowest
        if not varies.any():
            raise InvalidInput("All rows are equal: there is no spread to learn from. Give rows that differ.")
        middle = half.mean(axis=0)
        reach = np.where(varies, np.maximum(highest - middle, middle - lowest), 1.0)
        scale = np.sqrt(np.mean(((half - middle) / reach) ** 2, axis=0)) * reach * 2.0
        centre = np.where(varies, 2.0 * middle, X[0])
        return cls(centre, np.where(varies, scale, np.median(scale[varies])))

    @classmethod
    def none(cls, n_columns: int) -> Scaling:
        """Leave rows as they are."""
        return cls(np.zeros(n_columns), np.ones(n_columns))

    def apply(self, X: Floats) -> Floats:
        """Bring rows into scaled coordinates."""
        return np.ascontiguousarray((X - self.centre) / self.scale)
