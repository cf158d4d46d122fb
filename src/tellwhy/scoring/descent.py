"""Limited-memory quasi-Newton descent of many small problems at once.

Each problem has its own step length and its own end; those that have ended leave the batch. The step lengths satisfy
the weak Wolfe conditions by bisection (Lewis and Overton, Mathematical Programming 141, 2013), which also holds for
functions with kinks; an |u| term is handled orthant by orthant (Andrew and Gao, ICML 2007), a box by projection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.score_function import Floats, Integers

Mask = NDArray[np.bool_]
Evaluate = Callable[[Integers, Floats], tuple[Floats, Floats, Integers]]  # problems, points -> value, slope, part
Precondition = Callable[[Integers, Integers, Floats, Floats], Floats]  # problems, parts, points, slopes -> steps

HISTORY = 8
TOLERANCE = 1e-14  # of the decrease that a last step promises, against 1 + |f|
NEWTON_TOLERANCE = 1e-18  # the same with a precondition, which gets there in a step more
STALLED = 1e-8  # the same, where rounding lets no step decrease the value any more, and for problems that take long
CRAWLING = 1e-5  # the same for problems that take very long: they follow a kink or a bent valley step by step
_PATIENCE = 30
_TRIALS, _ENOUGH_TRIALS = 24, 4  # a problem that has gone down by then, or has nowhere to go, ends its search
_FARTHEST = 1e9
_ARMIJO, _WOLFE = 1e-4, 0.9
_ROUNDING = 1e-11  # values closer than this may differ by rounding only; slopes then tell which point is lower


@dataclass(frozen=True)
class Edges:
    """Where problems are not smooth, or end: weights of |u|, and the walls of a box, each (n_problems, d)."""

    weights: Floats | None = None
    low: Floats | None = None
    high: Floats | None = None

    @property
    def are_there(self) -> bool:
        """Whether there is anything to mind."""
        return self.weights is not None or self.low is not None

    def slope(self, problems: Integers, U: Floats, G: Floats) -> Floats:
        """Return the slope of steepest descent: of the smallest subgradient, 0 where a wall is in the way."""
        if self.weights is not None:
            w = self.weights[problems]
            at_zero = np.sign(G) * np.maximum(np.abs(G) - w, 0.0)
            G = np.where(U == 0, at_zero, G + w * np.sign(U))
        return G if self.low is None else np.where(self.stop(problems, U, -G), 0.0, G)

    def stop(self, problems: Integers, U: Floats, D: Floats) -> Mask:
        """Tell which coordinates are at a wall that D points through."""
        assert self.low is not None
        assert self.high is not None
        return ((D < 0) & (self.low[problems] >= U)) | ((D > 0) & (self.high[problems] <= U))

    def length_to_wall(self, problems: Integers, U: Floats, D: Floats) -> Floats:
        """Return how far along D the first wall is, at most half of D."""
        assert self.low is not None
        assert self.high is not None
        room = np.where(D > 0, self.high[problems] - U, U - self.low[problems])
        with np.errstate(divide="ignore", invalid="ignore"):
            lengths = np.where(D != 0, room / np.abs(D), np.inf)
        return np.minimum(np.where(lengths > 0, lengths, np.inf).min(axis=1), 0.5)

    def project(self, problems: Integers, U: Floats, slope: Floats, trial: Floats) -> Floats:
        """Return the trial points, stopped at kinks and walls."""
        if self.weights is not None:
            orthant = np.where(U == 0, -np.sign(slope), np.sign(U))
            crossed = (self.weights[problems] > 0) & (trial * orthant < 0)
            trial = np.where(crossed, 0.0, trial)
        if self.low is not None and self.high is not None:
            trial = np.clip(trial, self.low[problems], self.high[problems])
        return trial


@dataclass(frozen=True)
class _State:
    """Problems still going: where they are, and their last steps and changes of slope."""

    problems: Integers
    U: Floats
    f: Floats
    G: Floats
    parts: Integers
    steps: tuple[Floats, ...] = ()
    changes: tuple[Floats, ...] = ()
    rho: tuple[Floats, ...] = ()  # 1/(step·change), 0 for a pair that is not to be used

    def keep(self, kept: Any) -> _State:
        """Return the state of some of the problems."""
        return _State(
            self.problems[kept],
            self.U[kept],
            self.f[kept],
            self.G[kept],
            self.parts[kept],
            tuple(s[kept] for s in self.steps),
            tuple(y[kept] for y in self.changes),
            tuple(r[kept] for r in self.rho),
        )

    def forget(self, which: Mask) -> _State:
        """Drop the history of some problems."""
        return replace(self, rho=tuple(np.where(which, 0.0, r) for r in self.rho))

    def has_history(self) -> Mask:
        """Tell which problems have a pair to use."""
        return np.any(self.rho, axis=0) if self.rho else np.zeros(len(self.f), dtype=bool)

    def moved(self, new: _State) -> _State:
        """Return the new state with the pair that led to it."""
        step, change = new.U - self.U, new.G - self.G
        product = _dot(step, change)
        usable = product > 1e-12 * np.sqrt(_dot(step, step) * _dot(change, change))
        rho = np.where(usable, 1.0 / np.where(usable, product, 1.0), 0.0)
        return replace(
            new,
            steps=(*self.steps, step)[-HISTORY:],
            changes=(*self.changes, change)[-HISTORY:],
            rho=(*self.rho, rho)[-HISTORY:],
        )


@dataclass(frozen=True)
class Descent:
    """Where each problem ended, the value there, and whether it is a minimum."""

    U: Floats
    values: Floats
    converged: Mask


@dataclass(frozen=True)
class Slack:
    """How much of a fall may be left: a problem ends when its next step promises less than `share`·(tops − f)."""

    share: float
    tops: Floats

    def allows(self, problems: Integers, f: Floats) -> Floats:
        """Return the decrease that each problem may leave undone."""
        return np.maximum(self.share * (self.tops[problems] - f), 0.0)

    def some(self, which: Integers) -> Slack:
        """Return the slack of some of the problems."""
        return replace(self, tops=self.tops[which])


def descend(
    evaluate: Evaluate,
    start: Floats,
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
        Value, slope of the smooth part, and `part` (a number handed to `precondition`) of some problems at some points.
    start
        One row per problem, in coordinates whose unit is an ordinary step.
    precondition
        Slopes to steps by an approximate inverse curvature; without it the curvature of the last step is used.
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
    edges = edges or Edges()
    everyone = np.arange(len(start))
    state = _State(everyone, start.copy(), *evaluate(everyone, start))
    U, values, converged = start.copy(), state.f.copy(), np.zeros(len(start), dtype=bool)
    tolerance = TOLERANCE if precondition is None else NEWTON_TOLERANCE
    for iteration in range(max_iterations):
        if iteration > _PATIENCE and edges.weights is None:  # less is asked of problems that take long
            tolerance = min(10.0 * tolerance, STALLED if iteration <= 2 * _PATIENCE else CRAWLING)
        state, slope, D, promise = _direction(state, edges, precondition)
        least = tolerance * (1.0 + np.abs(state.f))
        done = promise <= (least if slack is None else np.maximum(least, slack.allows(state.problems, state.f)))
        if done.any():
            converged[state.problems[done]] = True
            U[state.problems[done]] = state.U[done]
            state, slope, D, promise = state.keep(~done), slope[~done], D[~done], promise[~done]
        if not len(state.f):
            break
        new = _search(evaluate, state, slope, D, edges)
        stuck = (new.U == state.U).all(axis=1)
        again = stuck & state.has_history()
        ended = stuck & ~again
        converged[state.problems[ended]] = promise[ended] <= STALLED * (1.0 + np.abs(state.f[ended]))
        state = state.moved(new).forget(again)
        U[state.problems], values[state.problems] = state.U, state.f
        state = state.keep(~ended)
        if not len(state.f):
            break
    return Descent(U, values, converged)


def _dot(a: Floats, b: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", a, b))


def _direction(state: _State, edges: Edges, precondition: Precondition | None) -> tuple[_State, Floats, Floats, Floats]:
    """Slope, direction and the decrease that it promises; a direction that does not go down is replaced."""
    slope = edges.slope(state.problems, state.U, state.G) if edges.are_there else state.G
    if edges.low is not None and precondition is not None:
        D = _along_walls(state, slope, edges, precondition)
    else:
        D = -_two_loops(state, slope, precondition)
        if edges.are_there:
            D = np.where(D * slope < 0, D, 0.0)
    promise = -_dot(slope, D)
    wrong = ~(promise > 0)
    if wrong.any():
        D[wrong] = -_plain(slope[wrong])
        promise[wrong] = -_dot(slope[wrong], D[wrong])
        state = state.forget(wrong)
    return state, slope, D, promise


def _along_walls(state: _State, slope: Floats, edges: Edges, precondition: Precondition) -> Floats:
    """Newton step among the coordinates that no wall stops; those it would push through one are stopped in turn."""
    slope = slope.copy()
    while True:
        D = -precondition(state.problems, state.parts, state.U, slope)
        stopped = edges.stop(state.problems, state.U, D) & (slope != 0)
        if not stopped.any():
            return D
        slope[stopped] = 0.0


def _plain(slope: Floats) -> Floats:
    """Return the slope, made at most one unit long in any coordinate."""
    return np.asarray(slope / np.maximum(np.abs(slope).max(axis=1, keepdims=True), 1.0))


def _two_loops(state: _State, slope: Floats, precondition: Precondition | None) -> Floats:
    """H·slope, with H from the last steps: the two-loop recursion (Nocedal, 1980)."""
    q, alphas = slope.copy(), []
    pairs = list(zip(state.steps, state.changes, state.rho, strict=True))
    for s, y, rho in reversed(pairs):
        alphas.append(rho * _dot(s, q))
        q -= alphas[-1][:, None] * y
    q = precondition(state.problems, state.parts, state.U, q) if precondition is not None else _scaled(state, q)
    for (s, y, rho), alpha in zip(pairs, reversed(alphas), strict=True):
        q += (alpha - rho * _dot(y, q))[:, None] * s
    return q


def _scaled(state: _State, q: Floats) -> Floats:
    """Multiply by the inverse curvature along the last usable step."""
    scale = np.zeros(len(q))
    for y, rho in zip(state.changes, state.rho, strict=True):
        scale = np.where(rho > 0, 1.0 / np.where(rho > 0, rho * _dot(y, y), 1.0), scale)
    return np.where(scale[:, None] > 0, scale[:, None] * q, _plain(q))


def _search(evaluate: Evaluate, state: _State, slope: Floats, D: Floats, edges: Edges) -> _State:
    """Find a step for each problem that goes down enough and ends on no steep slope; none where there is none."""
    t, low, high = np.ones(len(D)), np.zeros(len(D)), np.full(len(D), np.inf)
    new = replace(state, U=state.U.copy(), f=state.f.copy(), G=state.G.copy(), parts=state.parts.copy())
    longest = _FARTHEST / np.maximum(np.abs(D).max(axis=1), np.finfo(float).tiny)
    before, todo = _dot(state.G, D), np.arange(len(D))
    for n_tried in range(1, _TRIALS + 1):
        trial = state.U[todo] + t[todo, None] * D[todo]
        if edges.are_there:
            trial = edges.project(state.problems[todo], state.U[todo], slope[todo], trial)
        f, G, parts = evaluate(state.problems[todo], trial)
        rise = f - state.f[todo]
        after = _dot(G, D[todo])
        levelled = (np.abs(after) < 0.5 * np.abs(before[todo])) & (not edges.are_there)
        is_low = rise <= _ARMIJO * _dot(slope[todo], trial - state.U[todo])
        is_low |= levelled & (rise <= _ROUNDING * (1.0 + np.abs(f)))
        better = is_low & ((f < new.f[todo]) | levelled)
        kept = todo[better]
        new.U[kept], new.f[kept], new.G[kept], new.parts[kept] = trial[better], f[better], G[better], parts[better]
        is_flat = (after >= _WOLFE * before[todo]) | edges.are_there | (2.0 * t[todo] > longest[todo])
        is_noise = -before[todo] <= STALLED * (1.0 + np.abs(state.f[todo]))
        enough = ((new.f[todo] < state.f[todo]) | is_noise) & (n_tried >= _ENOUGH_TRIALS)
        going = ~(is_low & is_flat | enough)
        high[todo[~is_low]], low[todo[is_low]] = t[todo[~is_low]], t[todo[is_low]]
        todo, rise = todo[going], rise[going]
        if not len(todo):
            break
        t[todo] = _next_length(t[todo], low[todo], high[todo], before[todo], rise)
        if n_tried == 1 and edges.low is not None:
            t[todo] = edges.length_to_wall(state.problems[todo], state.U[todo], D[todo])
    return new


def _next_length(t: Floats, low: Floats, high: Floats, before: Floats, rise: Floats) -> Floats:
    """Twice as far where every length so far went down; the lowest point of a parabola, or half-way, otherwise."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        parabola = np.clip(-before * t**2 / (2.0 * (rise - before * t)), 0.1 * t, 0.5 * t)
    inside = np.where((low == 0) & np.isfinite(parabola), parabola, 0.5 * (low + high))
    return np.where(np.isinf(high), 2.0 * t, inside)
