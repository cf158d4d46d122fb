"""Derivative-free local search of many problems at once, for scores without a gradient.

A forest's score is flat between its splits: only steps of some size find anything. Each round tries steps
along the columns that stand out most and towards a few ordinary points, takes the lowest where one is lower,
and halves the steps where none is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.parallel import row_batches
from tellwhy.core.score_function import Floats, Integers
from tellwhy.optimise.descent import Descent
from tellwhy.optimise.edges import Edges

Mask = NDArray[np.bool_]

COLUMNS_TRIED = 8
SMALLEST_STEP = 1.0 / 8.0
_BATCH_BYTES = 64 * 2**20


def pattern_search(
    value: Callable[[Integers, Floats], Floats],
    start: Floats,
    *,
    free: Mask,
    targets: Callable[[Integers], Floats] | None = None,
    edges: Edges | None = None,
    max_rounds: int = 40,
) -> Descent:
    """Go down from each start by trial steps of 1, 1/2, 1/4 and 1/8.

    Parameters
    ----------
    value
        Value of some problems at some points.
    start
        One row per problem, in coordinates whose unit is an ordinary step.
    free
        Coordinates that may change, shaped like `start`.
    targets
        Points (problems, r, d) that are worth looking towards, for some problems; 0 alone by default.
    edges
        Walls that no point may pass.
    max_rounds
        Problems that take longer end where they are, not converged.

    Examples
    --------
    >>> found = pattern_search(lambda p, U: np.abs(U - 2).sum(axis=1), np.zeros((1, 2)), free=np.array([[True, False]]))
    >>> found.U, found.converged
    (array([[2., 0.]]), array([ True]))
    """
    U, f, converged = start.copy(), np.empty(len(start)), np.zeros(len(start), dtype=bool)
    for batch in row_batches(len(start), 8 * start.shape[1] * (6 * COLUMNS_TRIED + 32), _BATCH_BYTES):
        todo = np.arange(batch.start, batch.stop)
        f[todo], step = value(todo, U[todo]), np.ones(len(todo))
        for _ in range(max_rounds):
            aims = np.zeros((len(todo), 1, U.shape[1])) if targets is None else targets(todo)
            trials = _trials(U[todo], free[todo], step, aims)
            if edges is not None and edges.low is not None and edges.high is not None:
                trials = np.clip(trials, edges.low[todo, None], edges.high[todo, None])
            lowest, at = _lowest(value, todo, trials)
            lower = lowest < f[todo]
            U[todo[lower]], f[todo[lower]] = at[lower], lowest[lower]
            step[~lower] /= 2.0
            done = step < SMALLEST_STEP
            converged[todo[done]] = True
            todo, step = todo[~done], step[~done]
            if not len(todo):
                break
    return Descent(U, f, converged)


def _trials(U: Floats, free: Mask, step: Floats, aims: Floats) -> Floats:
    """Points (problems, trials, d): part of the way to each aim, and some columns towards their mean or ± a step."""
    n, d = U.shape
    towards = step[:, None, None] * (aims - U[:, None])
    mean = towards.mean(axis=1)
    out = np.argsort(-np.where(free, np.abs(mean), -1.0), axis=1, kind="stable")[:, : min(COLUMNS_TRIED, d)]
    moves = np.zeros((n, 3, out.shape[1], d))
    problem, k = np.arange(n)[:, None], np.arange(out.shape[1])
    moves[problem, 0, k, out] = np.take_along_axis(mean, out, axis=1)
    moves[problem, 1, k, out] = step[:, None]
    moves[problem, 2, k, out] = -step[:, None]
    moves = np.concatenate([towards, moves.reshape(n, -1, d)], axis=1)
    return np.asarray(U[:, None] + np.where(free[:, None], moves, 0.0))


def _lowest(
    value: Callable[[Integers, Floats], Floats], todo: Integers, trials: Floats
) -> tuple[Floats, Floats]:
    """Lowest value among the trials of each problem, and where it is."""
    n, k, d = trials.shape
    values = value(np.repeat(todo, k), trials.reshape(-1, d)).reshape(n, k)
    at = values.argmin(axis=1)
    return values[np.arange(n), at], trials[np.arange(n), at]
