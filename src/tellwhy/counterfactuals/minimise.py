"""x̂*(S): local minima of a score around rows, for many sets of free columns at once.

For each row x and each set of free columns c: argmin over y of e(y) + γ/|c| Σ_{i∈c} dist(y_i, x_i), with y =
x outside c, the local minimum that descent from y = x ends in (Takeishi and Kawahara, equation 3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.errors import InvalidInput
from tellwhy.core.progress import track
from tellwhy.core.running import cut_batches
from tellwhy.core.score import Floats, Integers
from tellwhy.counterfactuals.row_scores import Evaluated, FreeInverses, RowScores
from tellwhy.optimise.arrays import (
    Array,
    at_least,
    counted,
    filled,
    find_namespace,
    find_true_rows,
    placed,
    row_dot,
)
from tellwhy.optimise.bfgs import HISTORY, Edges
from tellwhy.optimise.descent import Descent, Precondition, Slack, descend
from tellwhy.optimise.pattern_search import search_pattern

Distance = str | Callable[[Floats], Floats]

# Binary cells stay this far from the end they did not start at, where the cross-entropy is infinite.
_LEAST = 1e-6


@dataclass(frozen=True)
class MoveCost:
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
        sign = find_namespace(X).sign  # 0 at the end where the cell started: there the wall is the end itself
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
            cost, slope = self._minimise_function(U)
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
        log = find_namespace(X).log
        y = X + s * U
        one = at_least(y, _LEAST / 2)  # a trial step may still be outside [0, 1]
        none = at_least(1.0 - y, _LEAST / 2)
        return -x * log(one) - (1.0 - x) * log(none), s * ((1.0 - x) / none - x / one)

    def _minimise_function(self, U: Floats) -> tuple[Floats, Floats]:
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


Mask = NDArray[np.bool_]
BATCH_BYTES = 64 * 2**20
_ROWS_TOGETHER = 16


@dataclass(frozen=True)
class Minima:
    """Local minima for n rows and m sets of free columns."""

    points: Array  # (n, m, d)
    converged: Array  # (n, m): which of them are minima


def minimise(
    score: Any,
    X: Array,
    free: Mask,
    *,
    gamma: float = 0.01,
    scales: Floats | None = None,
    distance: Distance = "squared",
    binary: Mask | None = None,
    radius: float | None = None,
    reference_rows: Floats | None = None,
    slack: float = 0.0,
    start: Array | None = None,
    max_iterations: int = 300,
) -> Minima:
    """Move the free columns of each row to where the score is lowest nearby.

    Parameters
    ----------
    score
        A score function, or the `RowScores` of one and X. Without a gradient, a derivative-free search takes
        the place of descent; quadratic scores (Gaussian mixtures) are solved in a few Newton steps.
    X
        Rows, shape (n, d): numpy's, or in the `space` of the `RowScores`, where all the work is then done and
        the minima are left.
    free
        Masks of the columns that may move, shape (m, d).
    gamma, scales
        Weight of the distance, and the unit of each column; 1 by default.
    distance
        "squared" (((y−x)/s)²), "absolute" (|y−x|/s) or a function of (y−x)/s, cell by cell.
    binary
        Mask of columns of 0 and 1: there 0 ≤ y ≤ 1, with the cross-entropy as distance.
    radius
        Instead of paying for distance, keep |y_i − x_i| ≤ radius·s_i; `gamma` then has no effect.
    reference_rows
        Ordinary rows (r, d): the derivative-free search also looks in their direction.
    slack
        Share of the fall that descent may leave undone. When it is positive, and the score has a gradient but
        is not made of quadratic forms, descent for each further set of free columns starts at the minimum of
        the first set, with the fixed columns put back; from the row itself where that ends no lower than the
        row.
    start
        With slack: points (n, m, d) to go down from instead.
    max_iterations
        Steps of descent at most; after few, points are lower than the start but need not be minima.

    Examples
    --------
    >>> from tellwhy.scoring import FunctionScore
    >>> bowl = FunctionScore(lambda X: (X**2).sum(axis=1), gradient=lambda X: 2 * X)
    >>> found = minimise(bowl, np.array([[3.0, 4.0]]), np.array([[True, True], [True, False]]), gamma=0.0)
    >>> found.points.round(6) + 0.0
    array([[[0., 0.],
            [0., 4.]]])
    """
    d = X.shape[1]
    free = np.atleast_2d(np.asarray(free, dtype=bool))
    if free.shape[1] != d:
        raise InvalidInput(f"free has {free.shape[1]} columns, X has {d}.")
    units = np.ones(d) if scales is None else np.asarray(scales, dtype=np.float64)
    # Within a radius, binary columns are walled in like all others, and distance costs nothing.
    is_walled = binary is None or radius is not None
    flips = np.zeros(d, dtype=bool) if is_walled else np.asarray(binary, dtype=bool)
    around = MoveCost(placed(X, units), distance, placed(X, flips))
    scores = score if isinstance(score, RowScores) else RowScores(score, X)
    weights = np.zeros(len(free)) if radius is not None else gamma / np.maximum(free.sum(axis=1), 1)
    sets = (placed(X, free), placed(X, weights))
    return _in_batches(_Task(scores, X, *sets, around, radius, reference_rows, slack, start, max_iterations))


def _in_batches(whole: _Task) -> Minima:
    n, d = whole.X.shape
    m = len(whole.free)
    points = filled(whole.X, (n, m, d), 0.0)
    converged = filled(whole.X, (n, m), False)
    for masks in _mask_batches(n, m, d, whole):
        task = whole.part(masks, points[:, :1] if masks.start and whole.starts_at_first else None)
        for rows in cut_batches(n, len(task.free) * count_problem_bytes(d), whole.room):
            points[rows, masks], converged[rows, masks] = task.solve(rows)
    return Minima(points, converged)


def count_problem_bytes(d: int) -> int:
    """Bytes that one problem takes on its way down."""
    return 8 * d * (2 * HISTORY + 12)


def _mask_batches(n: int, m: int, d: int, task: _Task) -> Any:
    """Slices of masks: 16 rows of each and the inverse curvatures of all fit in memory at once."""
    quadratics = task.scores.quadratics
    n_forms = 0 if quadratics is None else len(quadratics.offsets)
    n_together = n if task.is_on_device else min(n, _ROWS_TOGETHER)
    per_mask = max(n_together * count_problem_bytes(d), 2 * n_forms * d * d)
    n_first = 1 if task.starts_at_first else 0  # the first set goes alone: the others start from its minima
    rest = [slice(b.start + n_first, b.stop + n_first) for b in cut_batches(m - n_first, per_mask, task.room)]
    batches = [slice(0, 1), *rest] if n_first else rest
    return track(batches, len(batches), "looking for the lowest scores nearby")


@dataclass(frozen=True)
class _Task:
    """Sets of free columns to be tried with any rows."""

    scores: RowScores
    X: Array  # all rows
    free: Array
    weights: Array  # γ/|c| of each set
    around: MoveCost
    radius: float | None
    reference_rows: Floats | None
    slack: float
    start: Array | None  # points to go down from: (n, m, d), or (n, 1, d) for all sets
    max_iterations: int

    @property
    def is_on_device(self) -> bool:
        """Whether arrays are PyTorch's."""
        return not isinstance(self.X, np.ndarray)

    @property
    def room(self) -> int:
        """Bytes that problems may take together."""
        return self.scores.space.room(BATCH_BYTES) // 2 if self.is_on_device else BATCH_BYTES

    @property
    def is_quick(self) -> bool:
        """Whether descent may end early and start elsewhere than at the row."""
        is_free = self.scores.quadratics is None or self.start is not None
        return self.slack > 0 and self.scores.has_gradient and is_free

    @property
    def starts_at_first(self) -> bool:
        """Whether the minima of the first set serve the others."""
        return self.is_quick and self.start is None

    def part(self, masks: slice, first: Array | None) -> _Task:
        """Return some of the sets; `first` are minima of the first set."""
        start = first if self.start is None else self.start[:, masks]
        return replace(self, free=self.free[masks], weights=self.weights[masks], start=start)

    def solve(self, rows: slice) -> tuple[Array, Array]:
        """Points (rows, masks, d) of some rows, and which are minima."""
        n = rows.stop - rows.start
        number = counted(self.X, n * len(self.free))  # problem k is row k mod n with set k div n
        problems = _Problems(self, rows.start + number % n, number // n)
        start = filled(self.X, (len(number), self.X.shape[1]), 0.0)
        if self.scores.has_gradient:
            found = self._descended(problems, start, rows)
        else:
            targets = None if self.reference_rows is None else problems.seen_reference_rows
            free = self.free[problems.masks]
            found = search_pattern(problems.value, start, free=free, targets=targets, edges=problems.edges())
        shape = (len(self.free), n)
        points = problems.points(number, found.U).reshape(*shape, -1)
        return points.swapaxes(0, 1), found.converged.reshape(shape).T

    def _descended(self, problems: _Problems, start: Array, rows: slice) -> Descent:
        """Go down from the minima of the first set; where that ends higher than the row is, from the row."""
        if not self.is_quick:
            return problems.descend(start, None)
        number = counted(self.X, rows.stop)[rows]
        slack = Slack(self.slack, self.scores.value(self.X[rows], number)[problems.rows - rows.start])
        if self.start is None:
            return problems.descend(start, slack)
        found = problems.descend(problems.coordinates(self.start), slack)
        higher = find_true_rows(found.values > slack.tops)
        if len(higher):
            again = problems.some(higher).descend(start[higher], slack.some(higher))
            found.U[higher] = again.U
            found.converged[higher] = again.converged
        return found

    @cached_property
    def inverses(self) -> FreeInverses | None:
        """Newton steps, where the score is made of quadratic forms."""
        quadratics = self.scores.quadratics
        if quadratics is None:
            return None
        s = self.around.scales
        # The squared distance γ/|c|·u² bends by 2γ/|c| in every direction.
        return FreeInverses(quadratics.curvatures * np.outer(s, s), self.free, 2.0 * self.weights)


@dataclass(frozen=True)
class _Problems:
    """One problem per pair of a row and a set of free columns, the sets in order."""

    task: _Task
    rows: Array
    masks: Array

    def some(self, which: Array) -> _Problems:
        """Return some of the problems."""
        return _Problems(self.task, self.rows[which], self.masks[which])

    def descend(self, start: Array, slack: Slack | None) -> Descent:
        """Go down from each start."""
        down = partial(descend, precondition=self.newton, edges=self.edges(), slack=slack)
        return down(self.evaluate, start, max_iterations=self.task.max_iterations)

    def coordinates(self, start: Array) -> Array:
        """Coordinates of each problem's point, 0 in the columns that are not free."""
        points = start[self.rows, self.masks if start.shape[1] > 1 else 0]
        moved = (points - self.task.X[self.rows]) / self.task.around.scales
        return find_namespace(moved).where(self.task.free[self.masks], moved, 0.0)

    def points(self, which: Array, U: Array) -> Array:
        """Points at coordinates U, which are 0 in the columns that are not free: there, the row itself."""
        return self.task.around.points(self.task.X[self.rows[which]], U)

    def cost(self, which: Array, X: Array, U: Array) -> tuple[Array, Array]:
        """Weighted distance of each problem from its row, and its slope."""
        masks = self.masks[which]
        cost, slope = self.task.around.cells(X, U)
        weights = self.task.weights[masks]
        return weights * row_dot(cost, self.task.free[masks]), weights[:, None] * slope

    def evaluate(self, which: Array, U: Array) -> Evaluated:
        """Value, slope and lowest quadratic form at coordinates U."""
        rows = self.rows[which]
        X = self.task.X[rows]
        score = self.task.scores.evaluate(self.task.around.points(X, U), rows)
        cost, cost_slope = self.cost(which, X, U)
        G = score.slope * self.task.around.scales  # y = x + s·u: by the chain rule, s times the slope by y
        G += cost_slope
        G *= self.task.free[self.masks[which]]
        return Evaluated(score.value + cost, G, score.form)

    def value(self, which: Integers, U: Floats) -> Floats:
        """Value alone, for scores without a gradient."""
        X = self.task.X[self.rows[which]]
        return self.task.scores.value(self.points(which, U), self.rows[which]) + self.cost(which, X, U)[0]

    @property
    def newton(self) -> Precondition | None:
        """The Newton step of the lowest quadratic form."""
        inverses = self.task.inverses
        if inverses is None:
            return None
        if self.edges().low is None:
            return lambda which, parts, _, G: inverses.apply(G, self.masks[which], parts)

        def along_walls(which: Integers, parts: Integers, U: Floats, G: Floats) -> Floats:
            bends = self.task.around.bends(self.task.X[self.rows[which]], U)
            return inverses.apply_along_walls(G, parts, self.task.weights[self.masks[which], None] * bends)

        return along_walls

    def edges(self) -> Edges:
        """The kink of an absolute distance, or the walls of a neighbourhood."""
        task = self.task
        low, high = task.around.walls(task.X[self.rows], task.radius)
        if task.radius is not None or not task.around.is_absolute:
            return Edges(None, low, high)
        has_kink = task.free[self.masks] & ~task.around.binary
        return Edges(task.weights[self.masks, None] * has_kink, low, high)

    def seen_reference_rows(self, which: Integers) -> Floats:
        """Coordinates of the reference_rows around each problem's row, shape (problems, r, d)."""
        assert self.task.reference_rows is not None
        return np.asarray(
            (self.task.reference_rows - self.task.X[self.rows[which], None]) / self.task.around.scales
        )
