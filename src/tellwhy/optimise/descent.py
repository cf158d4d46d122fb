"""Limited-memory quasi-Newton descent of many small problems at once.

Each problem has its own step length and its own end: whatever it has come to, every problem that is still
going takes part in every evaluation. The step lengths satisfy the weak Wolfe conditions by bisection (Lewis
and Overton, Mathematical Programming 141, 2013), which also holds for functions with kinks; an |u| term is
handled orthant by orthant (Andrew and Gao, ICML 2007), a box by projection. Arrays are numpy's or PyTorch's,
as the start is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from tellwhy.optimise import _compiled_descent as compiled
from tellwhy.optimise._compiled_descent import (
    ARMIJO,
    ENOUGH_TRIALS,
    FARTHEST,
    ROUNDING,
    STALLED,
    TRIALS,
    WOLFE,
)
from tellwhy.optimise.arrays import (
    Array,
    at_least,
    copied,
    counted,
    filled,
    joined,
    namespace,
    placed,
    row_dot,
    row_largest,
    true_rows,
)
from tellwhy.optimise.edges import Edges
from tellwhy.optimise.last_steps import LastSteps, plain

Evaluate = Callable[[Array, Array], tuple[Array, Array, Array]]  # problems, points -> value, slope, part
Precondition = Callable[[Array, Array, Array, Array], Array]  # problems, parts, points, slopes -> steps

TOLERANCE = 1e-14  # of the decrease that a last step promises, against 1 + |f|
NEWTON_TOLERANCE = 1e-18  # the same with a precondition, which gets there in a step more
CRAWLING = 1e-5  # the same for problems that take very long: they follow a kink or a bent valley step by step
_PATIENCE = 30


@dataclass(frozen=True)
class Descent:
    """Where each problem ended, the value there, and whether it is a minimum."""

    U: Array
    values: Array
    converged: Array


@dataclass(frozen=True)
class Slack:
    """How much of a fall may be left: a problem ends when its next step promises less than `share`·(tops − f)."""

    share: float
    tops: Array

    def allows(self, problems: Array, f: Array) -> Array:
        """Return the decrease that each problem may leave undone."""
        return self.share * (self.tops[problems] - f)

    def some(self, which: Array) -> Slack:
        """Return the slack of some of the problems."""
        return replace(self, tops=self.tops[which])


def descend(
    evaluate: Evaluate,
    start: Array,
    *,
    precondition: Precondition | None = None,
    edges: Edges | None = None,
    slack: Slack | None = None,
    max_iterations: int = 300,
) -> Descent:
    """Go down from each start to a local minimum.

    Parameters
    ----------
    evaluate
        Value, slope of the smooth part, and `part` (a number handed to `precondition`) of some problems at
        some points.
    start
        One row per problem, in coordinates whose unit is an ordinary step.
    precondition
        Slopes to steps by an approximate inverse curvature; without it the curvature of the last step is
        used.
    edges
        Kinks and walls.
    slack
        Where less than a minimum to rounding is asked for.
    max_iterations
        Problems that take longer end where they are, not converged.

    Examples
    --------
    >>> def bowl(problems, U):
    ...     return (U**2).sum(axis=1), 2 * U, np.zeros(len(U), dtype=int)
    >>> descend(bowl, np.array([[3.0, 4.0]])).converged
    array([ True])
    """
    is_plain = precondition is None and not (edges and edges.are_there) and isinstance(start, np.ndarray)
    run = (_CompiledRun if is_plain else _Run)(
        evaluate,
        start,
        precondition=precondition,
        edges=edges or Edges(),
        slack=slack,
        max_iterations=max_iterations,
    )
    going = run.aim(counted(start, len(start)))
    while len(going):
        going = run.advance(going)
    return Descent(run.U, run.f, run.converged)


def _tolerances(first: float, max_iterations: int, is_smooth: bool) -> list[float]:
    """Return what is asked for at each iteration: less of problems that take long."""
    found = [first] * max_iterations
    for iteration in range(_PATIENCE + 1, max_iterations if is_smooth else 0):
        cap = STALLED if iteration <= 2 * _PATIENCE else CRAWLING
        found[iteration] = min(10.0 * found[iteration - 1], cap)
    return found


class _Run:
    """Tables of all problems, a row each: where they are, which way they go, how far, and the best of that way."""

    def __init__(
        self,
        evaluate: Evaluate,
        start: Array,
        *,
        precondition: Precondition | None,
        edges: Edges,
        slack: Slack | None,
        max_iterations: int,
    ):
        n, d = start.shape
        self.evaluate, self.precondition, self.edges, self.slack = evaluate, precondition, edges, slack
        first = TOLERANCE if precondition is None else NEWTON_TOLERANCE
        self.tolerances = placed(start, _tolerances(first, max_iterations, edges.weights is None))
        self.U = copied(start)
        self.f, G, self.parts = evaluate(counted(start, n), start)
        self.G = G if not isinstance(G, np.ndarray) else np.ascontiguousarray(G)
        self.past = LastSteps(start, n, d)
        self.slope, self.D, self.best_U, self.best_G = (filled(start, (n, d), 0.0) for _ in range(4))
        self.best_f, self.best_parts = copied(self.f), copied(self.parts)
        self.promise, self.before, self.longest = (filled(start, (n,), 0.0) for _ in range(3))
        self.t, self.low, self.high = (filled(start, (n,), 0.0) for _ in range(3))
        self.n_tried, self.iteration = filled(start, (n,), 0), filled(start, (n,), 0)
        self.has_moved, self.converged = filled(start, (n,), False), filled(start, (n,), False)

    def aim(self, which: Array) -> Array:
        """Choose the directions of some problems; return those that have not arrived."""
        which = which[self.iteration[which] < len(self.tolerances)]
        if not len(which):
            return which
        f = self.f[which]
        slope, D, promise = self._directions(which)
        least = self.tolerances[self.iteration[which]] * (1.0 + abs(f))
        if self.slack is not None:
            least = namespace(f).maximum(least, self.slack.allows(which, f))
        done = promise <= least
        if done.any():
            self.converged[which[done]] = True
            going = true_rows(~done)
            which, f, slope, D, promise = which[going], f[going], slope[going], D[going], promise[going]
        self.slope[which], self.D[which], self.promise[which] = slope, D, promise
        self.before[which] = row_dot(self.G[which], D)
        self.longest[which] = FARTHEST / at_least(row_largest(D), float(np.finfo(float).tiny))
        self.t[which], self.low[which], self.high[which] = 1.0, 0.0, np.inf
        self.best_f[which], self.has_moved[which], self.n_tried[which] = f, False, 0
        self.iteration[which] += 1
        return which

    def _directions(self, which: Array) -> tuple[Array, Array, Array]:
        """Slope, direction and the decrease that it promises; a direction that does not go down is replaced."""
        U, G, parts = self.U[which], self.G[which], self.parts[which]
        slope = self.edges.slope(which, U, G) if self.edges.are_there else G
        if self.edges.low is not None and self.precondition is not None:
            D = self._along_walls(which, U, slope, partial(self.precondition, which, parts, U))
        else:
            newton = self.precondition and partial(self.precondition, which, parts, U)
            D = -self.past.inverse_times(which, slope, newton)
            if self.edges.are_there:
                D = namespace(D).where(D * slope < 0, D, 0.0)
        promise = -row_dot(slope, D)
        wrong = ~(promise > 0)
        if wrong.any():
            D[wrong] = -plain(slope[wrong])
            promise[wrong] = -row_dot(slope[wrong], D[wrong])
            self.past.forget(which[wrong])
        return slope, D, promise

    def _along_walls(self, which: Array, U: Array, slope: Array, newton: Callable[[Array], Array]) -> Array:
        """Newton step among the coordinates that no wall stops; those it would push through one are stopped in turn."""
        slope = copied(slope)
        while True:
            D = -newton(slope)
            stopped = self.edges.stop(which, U, D) & (slope != 0)
            if not stopped.any():
                return D
            slope[stopped] = 0.0

    def advance(self, going: Array) -> Array:
        """Try the next length of each problem; those that have gone far enough aim anew. Return who is still going."""
        U, D, t = self.U[going], self.D[going], self.t[going]
        trial = U + t[:, None] * D
        if self.edges.are_there:
            trial = self.edges.project(going, U, self.slope[going], trial)
        f, G, parts = self.evaluate(going, trial)
        rise, after, before = f - self.f[going], row_dot(G, D), self.before[going]
        expected = row_dot(self.slope[going], trial - U) if self.edges.are_there else t * before
        levelled = (abs(after) < 0.5 * abs(before)) & (not self.edges.are_there)
        is_low = (rise <= ARMIJO * expected) | (levelled & (rise <= ROUNDING * (1.0 + abs(f))))
        better = true_rows(is_low & ((f < self.best_f[going]) | levelled))
        kept = going[better]
        self.best_U[kept], self.best_f[kept], self.best_G[kept] = trial[better], f[better], G[better]
        self.best_parts[kept], self.has_moved[kept] = parts[better], True
        finished = self._is_far_enough(going, is_low, after)
        searching = true_rows(~finished)
        if len(searching):
            self._lengthen(going[searching], is_low[searching], rise[searching])
        moved = self._move(going[true_rows(finished)])
        return joined(going[searching], self.aim(moved))

    def _is_far_enough(self, going: Array, is_low: Array, after: Array) -> Array:
        """Tell which searches are over: low enough and not steep, or tried often enough."""
        before, f = self.before[going], self.f[going]
        is_flat = (
            (after >= WOLFE * before) | self.edges.are_there | (2.0 * self.t[going] > self.longest[going])
        )
        self.n_tried[going] += 1
        n_tried = self.n_tried[going]
        is_noise = -before <= STALLED * (1.0 + abs(f))
        enough = ((self.best_f[going] < f) | is_noise) & (n_tried >= ENOUGH_TRIALS)
        return (is_low & is_flat) | enough | (n_tried >= TRIALS)

    def _lengthen(self, which: Array, is_low: Array, rise: Array) -> None:
        """Choose the next length: within what was found too far and what was not far enough."""
        xp, t = namespace(rise), self.t[which]
        low, high = xp.where(is_low, t, self.low[which]), xp.where(is_low, self.high[which], t)
        self.low[which], self.high[which] = low, high
        t = _next_length(t, low, high, self.before[which], rise)
        if self.edges.low is not None:
            first = self.n_tried[which] == 1
            t = xp.where(first, self.edges.length_to_wall(which, self.U[which], self.D[which]), t)
        self.t[which] = t

    def _move(self, which: Array) -> Array:
        """Go to the best points of the searches; return the problems that can go on.

        A problem that went nowhere forgets its steps and tries again; when it had none to forget, it has
        ended.
        """
        step = self.best_U[which] - self.U[which]
        is_stuck = ~(self.has_moved[which] & (step != 0).any(1))
        if is_stuck.any():
            stuck, moving = which[is_stuck], true_rows(~is_stuck)
            again = self.past.are_there(stuck)
            ended = stuck[~again]
            self.converged[ended] = self.promise[ended] <= STALLED * (1.0 + abs(self.f[ended]))
            self.past.forget(stuck)
            which, step = which[moving], step[moving]
        else:
            stuck = again = is_stuck[:0]
        G = self.best_G[which]
        self.past.add(which, step, G - self.G[which])
        self.U[which], self.f[which], self.G[which] = self.best_U[which], self.best_f[which], G
        self.parts[which] = self.best_parts[which]
        return joined(which, stuck[again]) if len(stuck) else which


class _CompiledRun(_Run):
    """Smooth problems in numpy arrays."""

    @cached_property
    def _tables(self) -> tuple[Any, ...]:
        rules = (
            (self.tolerances, 0.0, self.f)
            if self.slack is None
            else (self.tolerances, self.slack.share, self.slack.tops)
        )
        return (
            (self.U, self.G, self.D, self.best_U, self.best_G),
            (self.f, self.best_f, self.promise, self.before, self.longest, self.t, self.low, self.high),
            (self.n_tried, self.iteration, self.has_moved, self.converged),
            (self.past.steps, self.past.changes, self.past.rho, self.past.count),
            rules,
        )

    def aim(self, which: Array) -> Array:
        """Choose the directions of some problems; return those that have not arrived."""
        return compiled.aim(which, *self._tables)

    def advance(self, going: Array) -> Array:
        """Try the next length of each problem; those that have gone far enough aim anew. Return who is still going."""
        trials = self.U[going] + self.t[going, None] * self.D[going]
        values, slopes, _ = self.evaluate(going, trials)
        return compiled.advance(going, trials, values, np.ascontiguousarray(slopes), *self._tables)


def _next_length(t: Array, low: Array, high: Array, before: Array, rise: Array) -> Array:
    """Twice as far where every length so far went down; the lowest point of a parabola, or half-way, otherwise."""
    xp = namespace(t)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        parabola = xp.clip(-before * t**2 / (2.0 * (rise - before * t)), 0.1 * t, 0.5 * t)
    inside = xp.where((low == 0) & xp.isfinite(parabola), parabola, 0.5 * (low + high))
    return xp.where(xp.isinf(high), 2.0 * t, inside)
