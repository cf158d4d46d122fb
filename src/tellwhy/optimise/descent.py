"""Limited-memory quasi-Newton descent of many small problems at once.

Each problem has its own step length and its own end: whatever it has come to, every problem that is still
going takes part in every evaluation. The step lengths satisfy the weak Wolfe conditions by bisection (Lewis
and Overton, Mathematical Programming 141, 2013), which also holds for functions with kinks; an |u| term is
handled orthant by orthant (Andrew and Gao, ICML 2007), a box by projection. Arrays are numpy's or PyTorch's,
as the start is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tellwhy.optimise._compiled_descent import STALLED, Rules
from tellwhy.optimise.arrays import Array, copied, placed
from tellwhy.optimise.edges import Edges
from tellwhy.optimise.runs import ArrayRun, CompiledRun, Evaluate, Precondition, Run

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
    rules = _rules(start, slack, _tolerances(precondition is not None, max_iterations, edges.weights is None))
    run: Run
    if isinstance(start, np.ndarray) and not edges.are_there:
        run = CompiledRun(evaluate, start, rules, precondition)
    else:
        run = ArrayRun(evaluate, start, rules, precondition, edges)
    run.go()
    states = run.tables.states
    return Descent(run.tables.U, copied(states["f"]), copied(states["converged"]))


def _rules(start: Array, slack: Slack | None, tolerances: list[float]) -> Rules:
    """Return when a problem has arrived; without slack, no decrease may be left beyond the tolerances."""
    asked = placed(start, tolerances)
    if slack is None:
        return Rules(asked, 0.0, placed(start, np.zeros(len(start))))
    return Rules(asked, slack.share, slack.tops)


def _tolerances(is_newton: bool, max_iterations: int, is_smooth: bool) -> list[float]:
    """Return what is asked for at each iteration: less of problems that take long.

    With kinks (`is_smooth` false) a small step may be due to a kink that is about to be left, so nothing is
    let off.
    """
    found = [NEWTON_TOLERANCE if is_newton else TOLERANCE] * max_iterations
    for iteration in range(_PATIENCE + 1, max_iterations if is_smooth else 0):
        cap = STALLED if iteration <= 2 * _PATIENCE else CRAWLING
        found[iteration] = min(10.0 * found[iteration - 1], cap)
    return found
