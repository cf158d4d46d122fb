"""What the last steps of many descents tell of the curvature (limited-memory BFGS); kinks and walls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tellwhy.optimise._compiled_descent import Pairs, add_steps, invert_curvature, take_off_changes
from tellwhy.optimise.arrays import (
    Array,
    at_least,
    copy_array,
    filled,
    find_namespace,
    find_row_largest,
    row_dot,
)

HISTORY = 8


class LastSteps:
    """Up to 8 pairs of a step and the change of slope along it, for each of n problems.

    A pair that says nothing about the curvature keeps its place with ρ = 1/(step·change) = 0. The newest pair
    of problem i is at place `count[i] − 1` of its ring.

    Parameters
    ----------
    like
        Array of the kind and at the place that the tables are to have.
    n, d
        Numbers of problems and coordinates.

    Examples
    --------
    >>> past, everyone = LastSteps(np.empty(0), 1, 2), np.array([0])
    >>> past.add(everyone, np.array([[1.0, 0.0]]), np.array([[4.0, 0.0]]))
    >>> past.inverse_times(everyone, np.array([[4.0, 4.0]]))
    array([[1., 1.]])
    """

    def __init__(self, like: Array, n: int, d: int):
        self.pairs = Pairs(
            steps=filled(like, (n, HISTORY, d), 0.0),
            changes=filled(like, (n, HISTORY, d), 0.0),
            rho=filled(like, (n, HISTORY), 0.0),
            count=filled(like, (n,), 0),
        )

    def add(self, which: Array, step: Array, change: Array) -> None:
        """Put a pair in the place of the oldest."""
        pairs = self.pairs
        place = pairs.count[which] % HISTORY
        pairs.steps[which, place] = step
        pairs.changes[which, place] = change
        pairs.rho[which, place] = invert_curvature(
            row_dot(step, change), row_dot(step, step), row_dot(change, change)
        )
        pairs.count[which] += 1

    def forget(self, which: Array) -> None:
        """Drop the pairs of some problems."""
        self.pairs.rho[which] = 0.0

    def are_there(self, which: Array) -> Array:
        """Tell which of some problems have a pair to use."""
        return self.pairs.rho[which].any(1)

    def inverse_times(
        self, which: Array, slope: Array, precondition: Callable[[Array], Array] | None = None
    ) -> Array:
        """Return H·slope by the two-loop recursion (Nocedal, 1980).

        Between the loops stands a first guess of H: the precondition, or else the curvature of the last step.
        """
        q = copy_array(slope)
        if isinstance(q, np.ndarray):
            alphas, scale = take_off_changes(q, which, self.pairs)
            q = _scaled(q, scale) if precondition is None else precondition(q)
            add_steps(q, alphas, which, self.pairs)
            return q
        pairs = self._list_newest_first(which)
        alphas, scale = _take_changes_off(q, pairs)
        q = _scaled(q, scale) if precondition is None else precondition(q)
        for pair, alpha in zip(reversed(pairs), reversed(alphas), strict=True):
            q += (alpha - pair.rho * row_dot(pair.change, q))[:, None] * pair.step
        return q

    def _list_newest_first(self, which: Array) -> list[_Pair]:
        """Return the pairs of some problems, as many for all: those with fewer get ρ = 0, to no effect."""
        pairs = self.pairs
        count = pairs.count[which]
        most = min(HISTORY, int(count.max())) if len(which) else 0
        found = []
        for back in range(most):
            place = (count - 1 - back) % HISTORY
            found.append(
                _Pair(pairs.steps[which, place], pairs.changes[which, place], pairs.rho[which, place])
            )
        return found


class _Pair(NamedTuple):
    """One pair of each problem."""

    step: Array  # (problems, d)
    change: Array  # (problems, d)
    rho: Array  # (problems,)


def _take_changes_off(q: Array, pairs: list[_Pair]) -> tuple[list[Array], Array]:
    """Run the first loop on q itself; return its factors, and 1/curvature of the newest usable pair."""
    xp = find_namespace(q)
    alphas = []
    scale = filled(q, (len(q),), 0.0)
    for pair in pairs:
        alpha = pair.rho * row_dot(pair.step, q)
        q -= alpha[:, None] * pair.change
        alphas.append(alpha)
        is_newest = (scale == 0) & (pair.rho > 0)
        # The inner `where` keeps 1/0 away from problems whose pair is of no use.
        curvature = xp.where(is_newest, pair.rho * row_dot(pair.change, pair.change), 1.0)
        scale = xp.where(is_newest, 1.0 / curvature, scale)
    return alphas, scale


def _scaled(q: Array, scale: Array) -> Array:
    """Multiply by 1/curvature; where none is known, make q at most one unit long."""
    return find_namespace(q).where(scale[:, None] > 0, scale[:, None] * q, plain(q))


def plain(slope: Array) -> Array:
    """Return the slope, made at most one unit long in any coordinate."""
    return slope / at_least(find_row_largest(slope), 1.0)[:, None]


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
        xp = find_namespace(U)
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
        xp = find_namespace(U)
        room = xp.where(D > 0, self.high[problems] - U, U - self.low[problems])
        with np.errstate(divide="ignore", invalid="ignore"):
            lengths = xp.where(D != 0, room / xp.abs(D), np.inf)
        return xp.amin(xp.where(lengths > 0, lengths, np.inf), 1).clip(max=0.5)

    def project(self, problems: Array, U: Array, slope: Array, trial: Array) -> Array:
        """Return the trial points, stopped at kinks and walls."""
        xp = find_namespace(U)
        if self.weights is not None:
            orthant = xp.where(U == 0, -xp.sign(slope), xp.sign(U))
            crossed = (self.weights[problems] > 0) & (trial * orthant < 0)
            trial = xp.where(crossed, 0.0, trial)
        if self.low is not None and self.high is not None:
            trial = xp.clip(trial, self.low[problems], self.high[problems])
        return trial
