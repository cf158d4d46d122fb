"""Coordinates around rows, and what it costs to move away from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.errors import InvalidInput
from tellwhy.core.rows.scaling import ColumnSpread
from tellwhy.core.score_function import Floats
from tellwhy.optimise.arrays import Array, at_least, filled, namespace

Mask = NDArray[np.bool_]
Distance = str | Callable[[Floats], Floats]

# Binary cells stay this far from the end they did not start at, where the cross-entropy is infinite.
_LEAST = 1e-6


@dataclass(frozen=True)
class Surroundings:
    """Points y = x + s·u around rows of numbers.

    Attributes
    ----------
    scales
        Unit s of each column.
    distance
        "squared" (u²), "absolute" (|u|) or a function of u, applied cell by cell. Binary columns have the
        cross-entropy −x log y − (1 − x) log(1 − y) instead, with 0 ≤ y ≤ 1.
    binary
        Mask of the binary columns.
    """

    scales: Array
    distance: Distance
    binary: Array

    @cached_property
    def has_binary(self) -> bool:
        """Whether any column is binary."""
        return bool(self.binary.any())

    def points(self, X: Array, U: Array) -> Array:
        """Return the points at coordinates U around the rows X."""
        return X + self.scales * U

    def walls(self, X: Array, radius: float | None) -> tuple[Array | None, Array | None]:
        """Lowest and highest coordinates: ±radius, or those of 0 and 1 in binary columns; None where free."""
        if radius is not None:
            return filled(X, X.shape, -float(radius)), filled(X, X.shape, float(radius))
        if not self.has_binary:
            return None, None
        low = filled(X, X.shape, -np.inf)
        high = filled(X, X.shape, np.inf)
        x = X[:, self.binary].clip(0.0, 1.0)
        s = self.scales[self.binary]
        sign = namespace(X).sign  # 0 at the end where the cell started: there the wall is the end itself
        low[:, self.binary] = (_LEAST * sign(x) - X[:, self.binary]) / s
        high[:, self.binary] = (1.0 - _LEAST * sign(1.0 - x) - X[:, self.binary]) / s
        return low, high

    @property
    def is_absolute(self) -> bool:
        """Whether the distance has a kink at the row itself."""
        return isinstance(self.distance, str) and self.distance == "absolute"

    def cells(self, X: Array, U: Array) -> tuple[Array, Array]:
        """Distance of each cell, and its slope by u (0 for |u|, which has none at 0)."""
        if callable(self.distance):
            cost, slope = self._of_function(U)
        elif self.is_absolute:
            cost = abs(U)
            slope = filled(U, U.shape, 0.0)  # the kink of |u| is the business of `Edges`
        else:
            cost = U * U
            slope = 2.0 * U
        if self.has_binary:
            entropy, entropy_slope = self._cross_entropy(X[:, self.binary], U[:, self.binary])
            cost[:, self.binary] = entropy
            slope[:, self.binary] = entropy_slope
        return cost, slope

    def bends(self, X: Floats, U: Floats) -> Floats:
        """Second derivative of the distance of each cell (2 where it is not u² or the cross-entropy)."""
        bends = np.full(U.shape, 2.0)
        if self.has_binary:
            s = self.scales[self.binary]
            x = np.clip(X[:, self.binary], 0.0, 1.0)
            y = X[:, self.binary] + s * U[:, self.binary]
            one = np.maximum(y, _LEAST / 2)
            none = np.maximum(1.0 - y, _LEAST / 2)
            bends[:, self.binary] = s**2 * (x / one**2 + (1.0 - x) / none**2)
        return bends

    def _cross_entropy(self, X: Array, U: Array) -> tuple[Array, Array]:
        s = self.scales[self.binary]
        x = X.clip(0.0, 1.0)
        log = namespace(X).log
        y = X + s * U
        one = at_least(y, _LEAST / 2)  # a trial step may still be outside [0, 1]
        none = at_least(1.0 - y, _LEAST / 2)
        return -x * log(one) - (1.0 - x) * log(none), s * ((1.0 - x) / none - x / one)

    def _of_function(self, U: Floats) -> tuple[Floats, Floats]:
        distance = cast(Callable[[Floats], Floats], self.distance)
        step = 1e-6 * (1.0 + np.abs(U))  # central differences: about the cube root of the machine precision
        cost = np.asarray(distance(U), dtype=np.float64)
        above = np.asarray(distance(U + step), dtype=np.float64)
        below = np.asarray(distance(U - step), dtype=np.float64)
        if cost.shape != U.shape or not np.isfinite(cost).all():
            raise InvalidInput(
                f"distance must give one finite number per cell: for differences of shape {U.shape} it gave "
                f"{'numbers that are not finite' if cost.shape == U.shape else f'shape {cost.shape}'}."
            )
        return cost.copy(), (above - below) / (2.0 * step)


def column_scales(X: Floats) -> tuple[Floats, Mask]:
    """Standard deviation of each column, 1 where it is constant; and which are."""
    spread = ColumnSpread.of(X)
    return np.where(spread.varies, spread.deviation, 1.0), ~spread.varies


def binary_columns(X: Floats) -> Mask:
    """Tell which columns hold nothing but 0 and 1, and both of them."""
    return np.asarray(((X == 0) | (X == 1)).all(axis=0) & (X == 0).any(axis=0) & (X == 1).any(axis=0))
