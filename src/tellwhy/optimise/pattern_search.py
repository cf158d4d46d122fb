"""Derivative-free local search of many problems at once, for scores without a gradient.

A forest's score is flat between its splits: only steps of some size find anything. Each round tries steps
along the columns that stand out most and towards a few ordinary points, takes the lowest where one is lower,
and halves the steps where none is. Where the score is smooth, parabolas through three points of a line narrow
its lowest place down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.running import cut_batches
from tellwhy.core.score import Floats, Integers
from tellwhy.optimise.bfgs import Edges
from tellwhy.optimise.descent import Descent

Mask = NDArray[np.bool_]

COLUMNS_TRIED = 8  # of each problem in a round, however many there are
SMALLEST_STEP = 1.0 / 8.0  # smaller steps stay within the flat parts of a forest's score
_BATCH_BYTES = 64 * 2**20


def search_pattern(
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
    >>> def away_from_two(problems, U):
    ...     return np.abs(U - 2).sum(axis=1)
    >>> found = search_pattern(away_from_two, np.zeros((1, 2)), free=np.array([[True, False]]))
    >>> found.U, found.converged
    (array([[2., 0.]]), array([ True]))
    """
    found = Descent(start.copy(), np.empty(len(start)), np.zeros(len(start), dtype=bool))
    search = _Search(value, free, targets, edges or Edges())
    for batch in cut_batches(len(start), 8 * start.shape[1] * (6 * COLUMNS_TRIED + 32), _BATCH_BYTES):
        search.go_down(found, np.arange(batch.start, batch.stop), max_rounds)
    return found


@dataclass(frozen=True)
class _Search:
    """What the rounds of a search have in common."""

    value: Callable[[Integers, Floats], Floats]
    free: Mask
    targets: Callable[[Integers], Floats] | None
    edges: Edges

    def go_down(self, found: Descent, todo: Integers, max_rounds: int) -> None:
        """Search from where some problems are; write where they end into `found`."""
        step = np.ones(len(todo))
        found.values[todo] = self.value(todo, found.U[todo])
        for _ in range(max_rounds):
            lowest, at = self._lowest(todo, self._make_trials(todo, found.U[todo], step))
            is_lower = lowest < found.values[todo]
            found.U[todo[is_lower]] = at[is_lower]
            found.values[todo[is_lower]] = lowest[is_lower]
            step[~is_lower] /= 2.0
            is_done = step < SMALLEST_STEP
            found.converged[todo[is_done]] = True
            todo, step = todo[~is_done], step[~is_done]
            if not len(todo):
                break

    def _make_trials(self, todo: Integers, U: Floats, step: Floats) -> Floats:
        """Points to try, shape (problems, trials, d), within the walls."""
        aims = np.zeros((len(todo), 1, U.shape[1])) if self.targets is None else self.targets(todo)
        trials = _moved(U, self.free[todo], step, aims)
        if self.edges.low is None or self.edges.high is None:
            return trials
        return np.clip(trials, self.edges.low[todo, None], self.edges.high[todo, None])

    def _lowest(self, todo: Integers, trials: Floats) -> tuple[Floats, Floats]:
        """Lowest value among the trials of each problem, and where it is."""
        n_trials, d = trials.shape[1:]
        values = self.value(np.repeat(todo, n_trials), trials.reshape(-1, d)).reshape(-1, n_trials)
        at = values.argmin(axis=1)
        problem = np.arange(len(todo))
        return values[problem, at], trials[problem, at]


def _moved(U: Floats, free: Mask, step: Floats, aims: Floats) -> Floats:
    """Points (problems, trials, d) a step away from U.

    Some lie on the way to each aim, in all free columns. The others differ from U in one column, one of those
    that are farthest from the aims: it goes towards the aims' mean, or a step up, or a step down.
    """
    n, d = U.shape
    towards = step[:, None, None] * (aims - U[:, None])
    mean = towards.mean(axis=1)
    # Columns that are not free sort behind all others, even behind those at the mean.
    far = np.where(free, np.abs(mean), -1.0)
    chosen = np.argsort(-far, axis=1, kind="stable")[:, : min(COLUMNS_TRIED, d)]
    single = np.zeros((n, 3, chosen.shape[1], d))
    problem, k = np.arange(n)[:, None], np.arange(chosen.shape[1])
    single[problem, 0, k, chosen] = np.take_along_axis(mean, chosen, axis=1)
    single[problem, 1, k, chosen] = step[:, None]
    single[problem, 2, k, chosen] = -step[:, None]
    moves = np.concatenate([towards, single.reshape(n, -1, d)], axis=1)
    return np.asarray(U[:, None] + np.where(free[:, None], moves, 0.0))


class Bracket(NamedTuple):
    """Three places of each of n curves, in order, and the heights there; both of shape (n, 3).

    Examples
    --------
    >>> bowl = Bracket(np.array([[0.0, 1.0, 4.0]]), np.array([[4.0, 1.0, 4.0]]))  # (x − 2)²
    >>> bowl.vertex()
    array([2.])
    >>> bowl.narrower(bowl.vertex(), np.array([0.0])).places
    array([[1., 2., 4.]])
    """

    places: Floats
    heights: Floats

    @classmethod
    def around_lowest(cls, places: Floats, heights: Floats) -> Bracket:
        """Take the lowest of many places, and its neighbours."""
        middle = np.clip(heights.argmin(axis=1), 1, places.shape[1] - 2)
        return cls(places, heights)._put_three_around(middle)

    def vertex(self) -> Floats:
        """Return the lowest place of the parabola; half-way into the wider side where it is not inside."""
        a = self.places[:, 0]
        b = self.places[:, 1]
        c = self.places[:, 2]
        left = self.heights[:, 1] - self.heights[:, 0]
        right = self.heights[:, 1] - self.heights[:, 2]
        # Three places on a line, or two that are equal, have no vertex: the division then gives no number.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            top = (b - a) ** 2 * right - (b - c) ** 2 * left
            vertex = b - 0.5 * top / ((b - a) * right - (b - c) * left)
        inside = np.isfinite(vertex) & (vertex > a) & (vertex < c) & (vertex != b)
        wider = np.where(c - b > b - a, 0.5 * (b + c), 0.5 * (a + b))
        return np.where(inside, vertex, wider)

    def narrower(self, place: Floats, height: Floats) -> Bracket:
        """Add one place to each curve, and keep the three around the lowest of the four."""
        places = np.column_stack([self.places, place])
        heights = np.column_stack([self.heights, height])
        order = np.argsort(places, axis=1, kind="stable")
        sorted_four = Bracket(
            np.take_along_axis(places, order, axis=1), np.take_along_axis(heights, order, axis=1)
        )
        return sorted_four._put_three_around(np.clip(sorted_four.heights.argmin(axis=1), 1, 2))

    def _put_three_around(self, middle: Integers) -> Bracket:
        around = middle[:, None] + np.array([-1, 0, 1])
        return Bracket(
            np.take_along_axis(self.places, around, axis=1), np.take_along_axis(self.heights, around, axis=1)
        )
