"""The last steps of many descents, and the inverse curvature that they tell (limited-memory BFGS)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tellwhy.optimise._compiled_bfgs import add_steps, take_off_changes
from tellwhy.optimise.arrays import Array, at_least, copied, filled, namespace, row_dot, row_largest

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
        self.steps, self.changes = filled(like, (n, HISTORY, d), 0.0), filled(like, (n, HISTORY, d), 0.0)
        self.rho = filled(like, (n, HISTORY), 0.0)
        self.count = filled(like, (n,), 0)

    def add(self, which: Array, step: Array, change: Array) -> None:
        """Put a pair in the place of the oldest."""
        xp = namespace(step)
        product = row_dot(step, change)
        usable = product > 1e-12 * xp.sqrt(row_dot(step, step) * row_dot(change, change))
        place = self.count[which] % HISTORY
        self.steps[which, place], self.changes[which, place] = step, change
        self.rho[which, place] = xp.where(usable, 1.0 / xp.where(usable, product, 1.0), 0.0)
        self.count[which] += 1

    def forget(self, which: Array) -> None:
        """Drop the pairs of some problems."""
        self.rho[which] = 0.0

    def are_there(self, which: Array) -> Array:
        """Tell which of some problems have a pair to use."""
        return self.rho[which].any(1)

    def inverse_times(
        self, which: Array, slope: Array, precondition: Callable[[Array], Array] | None = None
    ) -> Array:
        """H·slope by the two-loop recursion (Nocedal, 1980); without a precondition H starts as the last curvature."""
        q = copied(slope)
        if isinstance(q, np.ndarray):
            tables = which, self.steps, self.changes, self.rho, self.count
            alphas, scale = take_off_changes(q, *tables)
            q = _scaled(q, scale) if precondition is None else precondition(q)
            add_steps(q, alphas, *tables)
            return q
        pairs = self._newest_first(which)
        alphas, scale = _changes_taken_off(q, pairs)
        q = _scaled(q, scale) if precondition is None else precondition(q)
        for (s, y, rho), alpha in zip(reversed(pairs), reversed(alphas), strict=True):
            q += (alpha - rho * row_dot(y, q))[:, None] * s
        return q

    def _newest_first(self, which: Array) -> list[tuple[Array, Array, Array]]:
        count = self.count[which]
        most = min(HISTORY, int(count.max())) if len(which) else 0
        places = [(count - 1 - back) % HISTORY for back in range(most)]
        return [(self.steps[which, at], self.changes[which, at], self.rho[which, at]) for at in places]


def _changes_taken_off(q: Array, pairs: list[tuple[Array, Array, Array]]) -> tuple[list[Array], Array]:
    """Run the first loop on q itself; return its factors, and 1/curvature along the newest pair of use (0: none)."""
    xp, alphas, scale = namespace(q), [], filled(q, (len(q),), 0.0)
    for s, y, rho in pairs:
        alphas.append(rho * row_dot(s, q))
        q -= alphas[-1][:, None] * y
        newest = (scale == 0) & (rho > 0)
        scale = xp.where(newest, 1.0 / xp.where(newest, rho * row_dot(y, y), 1.0), scale)
    return alphas, scale


def _scaled(q: Array, scale: Array) -> Array:
    """Multiply by 1/curvature; where none is known, make q at most one unit long."""
    return namespace(q).where(scale[:, None] > 0, scale[:, None] * q, plain(q))


def plain(slope: Array) -> Array:
    """Return the slope, made at most one unit long in any coordinate."""
    return slope / at_least(row_largest(slope), 1.0)[:, None]
