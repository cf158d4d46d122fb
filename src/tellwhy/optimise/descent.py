"""Limited-memory quasi-Newton descent of many small problems at once.

Each problem has its own step length and its own end: whatever it has come to, every problem that is still
going takes part in every evaluation. The step lengths satisfy the weak Wolfe conditions by bisection (Lewis
and Overton, Mathematical Programming 141, 2013), which also holds for functions with kinks; an |u| term is
handled orthant by orthant (Andrew and Gao, ICML 2007), a box by projection. Arrays are numpy's or PyTorch's,
as the start is.

`Run` holds the order of things: problems aim, try a length, and aim again, until each has arrived. Two
classes keep its books: `CompiledRun` goes through the problems of numpy arrays one after the other;
`ArrayRun` works on all problems at once, as tensors, kinks and walls need it. Both take every decision by the
functions of `_compiled_descent`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from tellwhy.optimise import _compiled_descent as compiled
from tellwhy.optimise._compiled_descent import (
    STALLED,
    STATE,
    Line,
    Rules,
    Search,
    Tables,
    Verdict,
    has_arrived,
    is_as_good_as_there,
    is_moving,
    judged,
    start_line,
    where,
)
from tellwhy.optimise.arrays import (
    Array,
    copy_array,
    counted,
    filled,
    find_row_largest,
    find_true_rows,
    joined,
    placed,
    row_dot,
)
from tellwhy.optimise.bfgs import Edges, LastSteps, plain

Evaluate = Callable[[Array, Array], tuple[Array, Array, Array]]  # problems, points -> value, slope, part
Precondition = Callable[[Array, Array, Array, Array], Array]  # problems, parts, points, slopes -> steps


class Trial(NamedTuple):
    """Points to be tried, a row per problem."""

    U: Array  # where the problems are
    D: Array  # their directions
    points: Array


class Found(NamedTuple):
    """What an evaluation gives, an entry per problem."""

    value: Array
    slope: Array
    part: Array


class Run(ABC):
    """Problems on their way down. Each is known by its row in the tables.

    Parameters
    ----------
    evaluate, start, precondition
        As `descend` takes them.
    rules
        When a problem has arrived.
    """

    def __init__(
        self, evaluate: Evaluate, start: Array, rules: Rules, precondition: Precondition | None = None
    ):
        self.evaluate = evaluate
        self.rules = rules
        self.precondition = precondition
        self.past = LastSteps(start, *start.shape)
        found = Found(*evaluate(counted(start, len(start)), start))
        states = self.new_states(start)
        states["f"][:] = found.value
        states["part"][:] = found.part
        # Copies, because tables change in place, and what `evaluate` gave belongs to its owner.
        self.tables = Tables(
            U=copy_array(start),
            G=copy_array(found.slope),
            D=filled(start, tuple(start.shape), 0.0),
            best_U=filled(start, tuple(start.shape), 0.0),
            best_G=filled(start, tuple(start.shape), 0.0),
            states=states,
            past=self.past.pairs,
        )

    def go(self) -> None:
        """Go on until every problem has ended."""
        going = self.aim(counted(self.tables.U, len(self.tables.U)))
        while len(going):
            going = self.advance(going)

    def advance(self, going: Array) -> Array:
        """Try the next length of each problem; who has gone far enough aims anew. Return who still goes."""
        trial = self.trial(going)
        searching, moved = self.judge(going, trial, Found(*self.evaluate(going, trial.points)))
        return joined(searching, self.aim(moved)) if len(moved) else searching

    def trial(self, going: Array) -> Trial:
        """Return the points to try next."""
        U, D = self.tables.U[going], self.tables.D[going]
        return Trial(U, D, U + self.tables.states["t"][going][:, None] * D)

    def newton(self, which: Array) -> Callable[[Array], Array] | None:
        """Return the precondition at the points where some problems are."""
        if self.precondition is None:
            return None
        return partial(self.precondition, which, self.tables.states["part"][which], self.tables.U[which])

    @abstractmethod
    def new_states(self, start: Array) -> Array:
        """Return the states of problems that have not begun: zeros, by the names of STATE."""

    @abstractmethod
    def aim(self, which: Array) -> Array:
        """Begin new searches; return the problems that have not arrived."""

    @abstractmethod
    def judge(self, going: Array, trial: Trial, found: Found) -> tuple[Array, Array]:
        """Judge trials, and move the problems whose search is over.

        Returns the problems that are still searching, and those that have moved and are to aim anew.
        """


class CompiledRun(Run):
    """Problems in numpy arrays without kinks and walls, one after the other in compiled loops."""

    def new_states(self, start: Array) -> Array:
        """Return one record per problem."""
        return np.zeros(len(start), dtype=STATE)

    def aim(self, which: Array) -> Array:
        """Begin new searches; return the problems that have not arrived."""
        tables = self.tables
        newton = self.newton(which)
        if newton is not None:  # an array function, which the compiled loop cannot call
            tables.D[which] = -self.past.inverse_times(which, tables.G[which], newton)
        return compiled.aim(which, newton is not None, tables, self.rules)

    def judge(self, going: Array, trial: Trial, found: Found) -> tuple[Array, Array]:
        """Judge trials, and move the problems whose search is over."""
        slope = np.ascontiguousarray(found.slope)  # one kind of memory, one compiled loop
        return compiled.judge(going, trial.points, found.value, slope, found.part, self.tables)


class Aim(NamedTuple):
    """Where some problems are to go next."""

    slope: Array  # of steepest descent, which kinks and walls change
    direction: Array
    promise: Array


class ArrayRun(Run):
    """Problems of any kind, all at once in arrays of numpy or PyTorch."""

    def __init__(
        self,
        evaluate: Evaluate,
        start: Array,
        rules: Rules,
        precondition: Precondition | None = None,
        edges: Edges | None = None,
    ):
        super().__init__(evaluate, start, rules, precondition)
        self.edges = edges or Edges()
        self.slope = filled(start, tuple(start.shape), 0.0)

    def new_states(self, start: Array) -> Array:
        """Return one array per name: PyTorch has no records."""
        zeros = {name: STATE[name].type(0).item() for name in STATE.names or ()}
        return {name: filled(start, (len(start),), zero) for name, zero in zeros.items()}

    def aim(self, which: Array) -> Array:
        """Begin new searches; return the problems that have not arrived."""
        states, rules = self.tables.states, self.rules
        which = which[states["iteration"][which] < len(rules.tolerances)]
        if not len(which):
            return which
        aim = self._aim(which)
        f = states["f"][which]
        tolerance = rules.tolerances[states["iteration"][which]]
        is_there = has_arrived(aim.promise, f, tolerance, rules.share * (rules.tops[which] - f))
        if is_there.any():
            states["converged"][which[is_there]] = True
            going = find_true_rows(~is_there)
            which = which[going]
            aim = Aim(aim.slope[going], aim.direction[going], aim.promise[going])
        self._begin(which, aim)
        return which

    def _aim(self, which: Array) -> Aim:
        """Choose directions, and replace those that do not go down."""
        U, G = self.tables.U[which], self.tables.G[which]
        slope = self.edges.slope(which, U, G) if self.edges.are_there else G
        direction = self._direction(which, U, slope)
        promise = -row_dot(slope, direction)
        is_wrong = ~(promise > 0)  # written so that NaN is replaced too
        if is_wrong.any():
            direction[is_wrong] = -plain(slope[is_wrong])
            promise[is_wrong] = -row_dot(slope[is_wrong], direction[is_wrong])
            self.past.forget(which[is_wrong])
        return Aim(slope, direction, promise)

    def _direction(self, which: Array, U: Array, slope: Array) -> Array:
        newton = self.newton(which)
        if newton is not None and self.edges.low is not None:
            return self._step_along_walls(which, U, slope, newton)
        direction = -self.past.inverse_times(which, slope, newton)
        if self.edges.are_there:
            # A coordinate that would go up would also leave its orthant, or push against its wall.
            direction = where(direction * slope < 0, direction, 0.0)
        return direction

    def _step_along_walls(
        self, which: Array, U: Array, slope: Array, newton: Callable[[Array], Array]
    ) -> Array:
        """Take the Newton step among the coordinates that no wall stops.

        A step may push further coordinates through their walls. These are stopped too, and the step is taken
        again, until it pushes none.
        """
        slope = copy_array(slope)
        while True:
            direction = -newton(slope)
            is_stopped = self.edges.stop(which, U, direction) & (slope != 0)
            if not is_stopped.any():
                return direction
            slope[is_stopped] = 0.0

    def _begin(self, which: Array, aim: Aim) -> None:
        """Begin the searches of some problems."""
        states = self.tables.states
        self.slope[which] = aim.slope
        self.tables.D[which] = aim.direction
        states["promise"][which] = aim.promise
        f = states["f"][which]
        # The promise minds kinks and walls; the slope of the smooth part along the direction does not.
        before = row_dot(self.tables.G[which], aim.direction)
        line = start_line(f, -before, find_row_largest(aim.direction))
        states["before"][which] = line.before
        states["longest"][which] = line.longest
        states["t"][which] = 1.0
        states["low"][which] = 0.0
        states["high"][which] = np.inf
        states["best_f"][which] = f
        states["n_tried"][which] = 0
        states["has_moved"][which] = False
        states["iteration"][which] += 1

    def trial(self, going: Array) -> Trial:
        """Return the points to try next, stopped at kinks and walls."""
        trial = super().trial(going)
        if not self.edges.are_there:
            return trial
        return trial._replace(points=self.edges.project(going, trial.U, self.slope[going], trial.points))

    def judge(self, going: Array, trial: Trial, found: Found) -> tuple[Array, Array]:
        """Judge trials, and move the problems whose search is over."""
        verdict = self._judge_trial(going, trial, found)
        self._keep(going, trial.points, found, find_true_rows(verdict.is_best))
        for name, numbers in verdict.search._asdict().items():
            self.tables.states[name][going] = numbers
        searching = going[find_true_rows(~verdict.is_over)]
        return searching, self._move(going[find_true_rows(verdict.is_over)])

    def _judge_trial(self, going: Array, trial: Trial, found: Found) -> Verdict:
        states, edges = self.tables.states, self.edges
        line = Line(*(states[name][going] for name in Line._fields))
        search = Search(*(states[name][going] for name in Search._fields))
        expected = search.t * line.before
        if edges.are_there:
            expected = row_dot(self.slope[going], trial.points - trial.U)
        after = row_dot(found.slope, trial.D)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            verdict = judged(line, search, found.value, after, expected, edges.are_there)
        if edges.low is None:
            return verdict
        # A first trial that goes too far has been bent by walls: the next one ends at the first of them.
        is_first = verdict.search.n_tried == 1
        t = where(is_first, edges.length_to_wall(going, trial.U, trial.D), verdict.search.t)
        return verdict._replace(search=verdict.search._replace(t=t))

    def _keep(self, going: Array, points: Array, found: Found, best: Array) -> None:
        """Keep the trials that are the best so far."""
        kept = going[best]
        self.tables.best_U[kept] = points[best]
        self.tables.best_G[kept] = found.slope[best]
        self.tables.states["best_part"][kept] = found.part[best]
        self.tables.states["has_moved"][kept] = True

    def _move(self, which: Array) -> Array:
        """Go to the best points of the searches; return the problems that can go on."""
        tables, states = self.tables, self.tables.states
        step = tables.best_U[which] - tables.U[which]
        moves = is_moving(states["has_moved"][which], find_row_largest(step))
        stuck = which[:0]
        if not moves.all():
            stuck = self._stuck(which[~moves])
            moving = find_true_rows(moves)
            which, step = which[moving], step[moving]
        G = tables.best_G[which]
        self.past.add(which, step, G - tables.G[which])
        tables.U[which] = tables.best_U[which]
        tables.G[which] = G
        states["f"][which] = states["best_f"][which]
        states["part"][which] = states["best_part"][which]
        return joined(which, stuck) if len(stuck) else which

    def _stuck(self, which: Array) -> Array:
        """Let problems that went nowhere forget their steps and try again; those that had none have ended."""
        states = self.tables.states
        tries_again = self.past.are_there(which)
        ended = which[~tries_again]
        states["converged"][ended] = is_as_good_as_there(states["promise"][ended], states["f"][ended])
        self.past.forget(which)
        return which[tries_again]


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
    """How much of a fall may be left: a problem ends when a step promises less than `share`·(tops − f)."""

    share: float
    tops: Array

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
    edges = edges or Edges()
    rules = _rules(
        start, slack, _choose_tolerances(precondition is not None, max_iterations, edges.weights is None)
    )
    run: Run
    if isinstance(start, np.ndarray) and not edges.are_there:
        run = CompiledRun(evaluate, start, rules, precondition)
    else:
        run = ArrayRun(evaluate, start, rules, precondition, edges)
    run.go()
    states = run.tables.states
    return Descent(run.tables.U, copy_array(states["f"]), copy_array(states["converged"]))


def _rules(start: Array, slack: Slack | None, tolerances: list[float]) -> Rules:
    """Return when a problem has arrived; without slack, no decrease may be left beyond the tolerances."""
    asked = placed(start, tolerances)
    if slack is None:
        return Rules(asked, 0.0, placed(start, np.zeros(len(start))))
    return Rules(asked, slack.share, slack.tops)


def _choose_tolerances(is_newton: bool, max_iterations: int, is_smooth: bool) -> list[float]:
    """Return what is asked for at each iteration: less of problems that take long.

    With kinks (`is_smooth` false) a small step may be due to a kink that is about to be left, so nothing is
    let off.
    """
    found = [NEWTON_TOLERANCE if is_newton else TOLERANCE] * max_iterations
    for iteration in range(_PATIENCE + 1, max_iterations if is_smooth else 0):
        cap = STALLED if iteration <= 2 * _PATIENCE else CRAWLING
        found[iteration] = min(10.0 * found[iteration - 1], cap)
    return found
