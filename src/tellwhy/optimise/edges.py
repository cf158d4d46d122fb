"""Where descent has to mind more than the slope: kinks of |u| and the walls of a box."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tellwhy.optimise.arrays import Array, at_least, namespace


@dataclass(frozen=True)
class Edges:
    """Where problems are not smooth, or end: weights of |u|, and the walls of a box, each (n_problems, d)."""

    weights: Array | None = None
    low: Array | None = None
    high: Array | None = None

    @property
    def are_there(self) -> bool:
        """Whether there is anything to mind."""
        return self.weights is not None or self.low is not None

    def slope(self, problems: Array, U: Array, G: Array) -> Array:
        """Return the slope of steepest descent: of the smallest subgradient, 0 where a wall is in the way."""
        xp = namespace(U)
        if self.weights is not None:
            w = self.weights[problems]
            at_zero = xp.sign(G) * at_least(xp.abs(G) - w, 0.0)
            G = xp.where(U == 0, at_zero, G + w * xp.sign(U))
        return G if self.low is None else xp.where(self.stop(problems, U, -G), 0.0, G)

    def stop(self, problems: Array, U: Array, D: Array) -> Array:
        """Tell which coordinates are at a wall that D points through."""
        assert self.low is not None
        assert self.high is not None
        return ((D < 0) & (self.low[problems] >= U)) | ((D > 0) & (self.high[problems] <= U))

    def length_to_wall(self, problems: Array, U: Array, D: Array) -> Array:
        """Return how far along D the first wall is, at most half of D."""
        assert self.low is not None
        assert self.high is not None
        xp = namespace(U)
        room = xp.where(D > 0, self.high[problems] - U, U - self.low[problems])
        with np.errstate(divide="ignore", invalid="ignore"):
            lengths = xp.where(D != 0, room / xp.abs(D), np.inf)
        return xp.amin(xp.where(lengths > 0, lengths, np.inf), 1).clip(max=0.5)

    def project(self, problems: Array, U: Array, slope: Array, trial: Array) -> Array:
        """Return the trial points, stopped at kinks and walls."""
        xp = namespace(U)
        if self.weights is not None:
            orthant = xp.where(U == 0, -xp.sign(slope), xp.sign(U))
            crossed = (self.weights[problems] > 0) & (trial * orthant < 0)
            trial = xp.where(crossed, 0.0, trial)
        if self.low is not None and self.high is not None:
            trial = xp.clip(trial, self.low[problems], self.high[problems])
        return trial
