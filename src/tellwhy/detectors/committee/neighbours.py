"""Rows that are far from those most like them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from tellwhy.core.parallel import tracked_batches
from tellwhy.core.score_function import Floats, Integers, NeighbourDistance
from tellwhy.detectors.committee.member import Units
from tellwhy.detectors.committee.straight import Straight
from tellwhy.scoring import NeighbourScore


@dataclass(frozen=True)
class Neighbours:
    """Mean distance to the k nearest of the remembered rows, r̄ = (1/k) Σ_j ‖z − u_j‖.

    Squeezed units grow like a logarithm, ±log(1 + |z|): long tails then do not decide every distance, and
    rows between clusters are seen better.
    """

    least_scale: ClassVar[float] = 0.0
    most_shape: ClassVar[float] = 0.3
    units: Units
    squeezed: bool
    expansion: NeighbourDistance

    @classmethod
    def learn(
        cls,
        X: Floats,
        remembered: Integers,
        k: int,
        *,
        squeezed: bool = False,
        straight: Straight | None = None,
    ) -> Neighbours:
        """Remember some rows; of few rows fewer neighbours count."""
        units = Units.learn(X, remembered, straight)
        points = X[remembered]
        n_neighbours = max(1, min(k, len(points) // 3))
        Z = _squeeze(units.of(points)) if squeezed else units.of(points)
        return cls(units, squeezed, NeighbourDistance(Z, n_neighbours))

    @cached_property
    def distance(self) -> NeighbourScore:
        """The distance, which keeps the remembered rows as products of matrices need them."""
        return NeighbourScore(self.expansion)

    def score(self, X: Floats, points: Integers | None = None) -> Floats:
        """Mean distance of each row to its neighbours."""
        return self.distance.value(self._in_units(X), points)

    def shares(self, X: Floats, points: Integers | None = None) -> Floats:
        """(1/k) Σ_j (z_i − u_ji)²/r_j: the columns' parts of each distance."""
        Z = self._in_units(X)
        found = np.zeros_like(Z)
        index, distance = self.distance.neighbours(Z, points)
        for rows in tracked_batches(len(Z), Z.shape[1] * 16, "sharing distances"):
            for j, r in zip(index[rows].T, distance[rows].T, strict=True):
                # Of a neighbour at distance 0 no column has a part.
                found[rows] += (Z[rows] - self.expansion.points[j]) ** 2 / np.where(r > 0, r, np.inf)[:, None]
        return found / self.expansion.n_neighbours

    def _in_units(self, X: Floats) -> Floats:
        Z = self.units.of(X)
        return _squeeze(Z) if self.squeezed else Z


def _squeeze(Z: Floats) -> Floats:
    return np.asarray(np.sign(Z) * np.log1p(np.abs(Z)))
