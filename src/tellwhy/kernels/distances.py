"""Squared Euclidean distances by matrix products, without losing digits to cancellation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tellwhy.core.score_function import Floats
from tellwhy.kernels._compiled import finish_squared_distances


@dataclass(frozen=True)
class ScaledPoints:
    """Points centred on their mean and divided by a length: large offsets and scales cancel here, once."""

    centre: Floats
    length: float
    scaled: Floats
    squared_norms: Floats

    @classmethod
    def of(cls, points: Floats, length: float) -> ScaledPoints:
        """Centre on the mean and divide by the length."""
        centre, _ = centre_and_unit(points)
        scaled = np.ascontiguousarray((points - centre) / length)
        return cls(centre, length, scaled, np.einsum("ij,ij->i", scaled, scaled))

    def rescale(self, X: Floats) -> Floats:
        """Bring rows into the same coordinates."""
        return np.ascontiguousarray((np.asarray(X, dtype=np.float64) - self.centre) / self.length)

    def squared_distances(self, Z: Floats, points: slice = slice(None)) -> Floats:
        """‖z_i − v_j‖² for rescaled rows Z and all or some of the points, shape (len(Z), n_points)."""
        # ‖z − v‖² = ‖z‖² + ‖v‖² − 2 z·v: nearly all the work is one matrix product.
        V = self.scaled[points]
        products = Z @ V.T
        norms = np.einsum("ij,ij->i", Z, Z)
        finish_squared_distances(products, Z, V, norms, self.squared_norms[points])
        return products


def centre_and_unit(X: Floats) -> tuple[Floats, float]:
    """Return the mean of rows and the largest deviation from it (1 where there is none), without overflow."""
    half = X / 2.0  # the difference of the largest numbers of either sign is twice as large as a float can be
    centre = np.mean(half, axis=0)
    unit = float(np.abs(half - centre).max()) * 2.0
    return 2.0 * centre, unit if unit > 0 else 1.0
