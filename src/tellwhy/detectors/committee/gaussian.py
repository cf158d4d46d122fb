"""Rows that are far out in a direction in which rows spread little."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tellwhy.core.score_function import Floats, Integers
from tellwhy.detectors.committee.member import MOST_CORRELATED, Units
from tellwhy.detectors.committee.straight import Straight


@dataclass(frozen=True)
class Gaussian:
    """Mahalanobis distance √(zᵀPz), with P the inverse of a shrunken covariance.

    The root, because the tail of a square is too heavy to be followed from where most rows are.
    P is a matrix; of a very wide table, whose correlations are noise, it is the diagonal alone.
    """

    least_scale: ClassVar[float] = 0.0
    most_shape: ClassVar[float] = 0.3
    units: Units
    precision: Floats

    @classmethod
    def learn(cls, X: Floats, kept: Integers, straight: Straight | None = None) -> Gaussian:
        """Learn from the kept rows."""
        units = Units.learn(X, kept, straight)
        n, d = len(kept), X.shape[1]
        if d > MOST_CORRELATED:
            variances = np.where(units.is_lumped, 1.0, units.of(X[kept]).var(axis=0))
            return cls(units, 1.0 / (variances + 1e-6))
        covariance = units.covariance(units.of(X[kept]))
        # With few rows for the columns, correlations are noise: they are shrunk towards none.
        shrinkage = min(0.5, d / n)
        shrunken = (1 - shrinkage) * covariance + shrinkage * np.diag(np.diag(covariance))
        # Directions without spread would be infinitely far; the ridge keeps the inverse finite.
        return cls(units, np.linalg.inv(shrunken + 1e-6 * np.eye(d)))

    def score(self, X: Floats, points: Integers | None = None) -> Floats:  # noqa: ARG002
        """Distance of each row."""
        return np.asarray(np.sqrt(np.maximum(self._squares(X).sum(axis=1), 0.0)))

    def shares(self, X: Floats, points: Integers | None = None) -> Floats:  # noqa: ARG002
        """z_i (Pz)_i/√(zᵀPz), which is negative where a column makes the row less odd."""
        squares = self._squares(X)
        length = np.sqrt(np.maximum(squares.sum(axis=1), 0.0))
        return squares / np.where(length > 0, length, np.inf)[:, None]

    def _squares(self, X: Floats) -> Floats:
        Z = self.units.of(X)
        if self.precision.ndim == 1:
            return np.asarray(Z * Z * self.precision)
        return np.asarray(Z * (Z @ self.precision))
