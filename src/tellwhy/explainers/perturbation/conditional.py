"""Cells given the cells around them, as a Gaussian distribution learned from rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.covariance import ledoit_wolf

from tellwhy.core.score_function import Floats, Integers

_LEAST = 1e-9  # of a variance, relative to the mean variance: constant cells have none


@dataclass(frozen=True)
class ConditionalGaussian:
    """x_w given x_near ~ N(mean_w + slopes (x_near − mean_near), spread spreadᵀ)."""

    mean: Floats
    mean_near: Floats
    slopes: Floats
    spread: Floats

    @classmethod
    def of(cls, rows: Floats, cells: Integers, near: Integers) -> ConditionalGaussian:
        """Learn it; the covariance is shrunk, since rows may be fewer than cells."""
        both = np.concatenate([cells, near])
        some = rows[:, both]
        scale = some.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        mean = some.mean(axis=0)
        covariance = np.asarray(ledoit_wolf((some - mean) / scale, assume_centered=True)[0])
        covariance[np.diag_indices_from(covariance)] += _LEAST * max(
            float(np.trace(covariance)) / len(both), _LEAST
        )
        k = len(cells)
        factor = cho_factor(covariance[k:, k:], lower=True)
        slopes = cho_solve(factor, covariance[k:, :k]).T
        left = covariance[:k, :k] - slopes @ covariance[k:, :k]
        # A root that also serves where rounding made a variance of zero slightly negative.
        eigenvalues, vectors = np.linalg.eigh((left + left.T) / 2)
        spread = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
        return cls(mean[:k], mean[k:], slopes * scale[:k, None] / scale[k:], spread * scale[:k, None])

    def draw(self, near: Floats, normal: Floats) -> Floats:
        """Draws for every row, (rows, draws, cells), from standard normal numbers (draws, cells)."""
        centre = self.mean + (near - self.mean_near) @ self.slopes.T
        return np.asarray(centre[:, None, :] + normal @ self.spread.T)
