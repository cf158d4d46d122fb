"""The optimum of a multi-class SVM by an interior-point method, for few features and any C.

Coordinate ascent takes steps of one variable, or of one row's, and at large C variables have to go a long
way together: it creeps. Here all of them move at once, by Newton steps that keep away from the bounds
(Mehrotra's predictor and corrector). However many variables there are, a step needs no more equations than
there are weights. Some tens of steps, at most a hundred or so, give the gap that is asked for at any C.

All losses have one shape: variables a ≥ 0, examples × classes, give the weights W(a), and

    min ½ ‖W(a)‖² − Σ a   with bounds from above.

They differ in how variables make weights, and in what is bounded: the sum of a row's variables
(Crammer–Singer) or each of them (all others).

A Newton step s solves (E + Q) s = r. Q s is what the step does to the scores, through the weights; E is what
the bounds add, an entry for each variable and, where sums are bounded, one for each row. With S = E⁻¹ the
weights' own step y = W(s) has

    (I + W S Wᵀ) y = W(S r),   s = S (r + scores(y)),

as many equations as there are weights. One-vs-rest has those of each class alone, and Lee–Lin–Wahba one set
more that makes the steps of the weights sum to zero.

References
----------
Mehrotra, *On the implementation of a primal-dual interior point method*, SIAM Journal on Optimization 2
(1992); Ferris, Munson, *Interior-point methods for massive support vector machines*, ibid. 13 (2002).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse

from tellwhy.classifiers.svm.problem import Problem
from tellwhy.core.score import Floats, Integers


@dataclass(frozen=True)
class Programme:
    """A dual problem in dense arrays."""

    loss: str
    X: Floats  # examples × features
    labels: Integers  # the class that an example defends, of losses that compare it with the others
    caps: Floats  # examples × 1
    signs: Floats  # examples × classes: 1 for a row's own labels, -1 for all others
    free: (
        Any  # examples × classes: False for a row's own labels, whose variables stay at 0 but for one-vs-rest
    )

    @classmethod
    def of(cls, problem: Problem) -> Programme:
        """The programme of a problem, whose rows are unpacked."""
        entries = problem.entries
        shape = (len(entries.indptr) - 1, problem.n_features)
        rows = sparse.csr_array((entries.values, entries.indices, entries.indptr), shape=shape)
        X = rows.toarray().astype(np.float64)[problem.rows]
        signs = -np.ones((problem.n_examples, problem.n_classes))
        signs[np.repeat(np.arange(problem.n_examples), problem.own.counts), problem.own.classes] = 1.0
        caps = problem.caps[:, None]
        free = ((signs < 0) | (problem.loss == "ovr")) & (caps > 0)  # rows may have no weight
        return cls(problem.loss, X, problem.labels, caps, signs, free)

    @property
    def are_pairs(self) -> bool:
        """Whether a variable compares a class with the label."""
        return self.loss in ("ww", "cs")

    @property
    def bounds_sums(self) -> bool:
        """Whether the sum of a row's variables has the bound, instead of each."""
        return self.loss == "cs"

    @property
    def held(self) -> Any:
        """Which of the bounds from above are there."""
        return self.free.any(axis=1, keepdims=True) if self.bounds_sums else self.free

    def bounded(self, a: Floats) -> Floats:
        """What has a bound from above: the variables, or their sums."""
        return np.asarray(a.sum(axis=1, keepdims=True)) if self.bounds_sums else a

    def weights(self, a: Floats) -> Floats:
        """Weights of all classes that follow from variables, features × classes."""
        per_class = self.signs * a
        if self.are_pairs:
            per_class[np.arange(len(a)), self.labels] += a.sum(axis=1)
        W = self.X.T @ per_class
        return np.asarray(W - W.mean(axis=1, keepdims=True) if self.loss == "llw" else W)

    def scores(self, W: Floats) -> Floats:
        """What weights add to the loss of each variable: its class's score, for pairs less the label's."""
        scores = self.X @ W
        if self.are_pairs:
            return np.asarray(scores - scores[np.arange(len(scores)), self.labels][:, None])
        return np.asarray(-self.signs * scores)

    def losses(self, W: Floats) -> float:
        """Losses of all rows, times their caps."""
        each = np.where(self.free, np.maximum(1.0 + self.scores(W), 0.0), 0.0)
        of_rows = each.max(axis=1) if self.bounds_sums else each.sum(axis=1)
        return float(self.caps[:, 0] @ of_rows)


SolveWeights = Callable[[Floats], Floats]  # from W(S r) to the step y of the weights

REFINED = 1  # times: what equations of very different sizes lose is put right


@dataclass(frozen=True)
class Entries:
    """E and its inverse S."""

    each: Floats  # of variables, 1 for those that are fixed
    inverse: Floats  # 1 / each, 0 for variables that are fixed
    of_sums: Floats | None  # of rows, examples × 1, where sums are bounded

    @classmethod
    def of(cls, programme: Programme, lower: Floats, upper: Floats) -> Entries:
        """From what the bounds below add for each variable, and those above for what they bound."""
        of_sums = upper if programme.bounds_sums else None
        each = np.where(programme.free, lower if programme.bounds_sums else lower + upper, 1.0)
        return cls(each, np.where(programme.free, 1.0 / each, 0.0), of_sums)

    def times(self, s: Floats) -> Floats:
        """E s."""
        found = self.each * s
        return found if self.of_sums is None else found + self.of_sums * s.sum(axis=1, keepdims=True)

    def divided(self, r: Floats) -> Floats:
        """S r."""
        if self.of_sums is None:
            return self.inverse * r
        # As a mean and what differs from it: a bound that is nearly reached lets the mean move by next to
        # nothing, and a difference of large numbers would not tell by how much.
        total = self.inverse.sum(axis=1, keepdims=True)  # 0 where all of a row's variables are fixed
        mean = (self.inverse * r).sum(axis=1, keepdims=True) / np.where(total > 0, total, 1.0)
        return self.inverse * ((r - mean) + mean * self.kept)

    @property
    def kept(self) -> Floats:
        """How much of a change of a row's sum its bound lets through, examples × 1."""
        assert self.of_sums is not None
        return 1.0 / (1.0 + self.of_sums * self.inverse.sum(axis=1, keepdims=True))


class NewtonStep:
    """The equations at one point; they can be solved for several right sides."""

    def __init__(self, programme: Programme, entries: Entries):
        self._programme = programme
        self._entries = entries
        equations = _of_pairs if programme.are_pairs else _by_class
        self._solve_weights = equations(programme, entries)

    def solved(self, rhs: Floats) -> Floats:
        """Solve for one right side, examples × classes."""
        found = self._solve_once(rhs)
        for _ in range(REFINED):
            scores = self._programme.scores(self._programme.weights(found))
            over = np.where(self._programme.free, self._entries.times(found) - scores, 0.0)
            found = found + self._solve_once(rhs - over)
        return found

    def _solve_once(self, rhs: Floats) -> Floats:
        programme = self._programme
        y = self._solve_weights(programme.weights(self._entries.divided(rhs)))
        return self._entries.divided(rhs + programme.scores(y))


def _by_class(programme: Programme, entries: Entries) -> SolveWeights:
    """The equations of each class, for Lee–Lin–Wahba with what keeps the sum over classes at zero."""
    X = programme.X
    unit = np.eye(X.shape[1])
    equations = [linalg.cho_factor(unit + (X.T * w) @ X) for w in entries.inverse.T]
    inverses = np.array([linalg.cho_solve(factor, unit) for factor in equations])
    joint = linalg.cho_factor(inverses.sum(axis=0))

    def solve(b: Floats) -> Floats:
        y = np.einsum("cfg,gc->fc", inverses, b)
        if programme.loss != "llw":
            return np.asarray(y)
        return np.asarray(y - np.einsum("cfg,g->fc", inverses, linalg.cho_solve(joint, y.sum(axis=1))))

    return solve


def _of_pairs(programme: Programme, entries: Entries) -> SolveWeights:
    """The equations of Weston–Watkins and Crammer–Singer: those of all classes at once."""
    n_classes = programme.free.shape[1]
    n_features = programme.X.shape[1]
    equations = np.zeros((n_classes, n_features, n_classes, n_features))
    for label in np.unique(programme.labels):
        _add_label(equations, int(label), programme, entries)
    size = n_classes * n_features
    factor = linalg.cho_factor(equations.reshape(size, size) + np.eye(size))
    return lambda b: np.asarray(linalg.cho_solve(factor, b.T.ravel()).reshape(n_classes, n_features).T)


def _add_label(equations: Floats, label: int, programme: Programme, entries: Entries) -> None:
    """Add what the rows of one label contribute: a step of (label, c) moves the weights of these two."""
    rows = np.flatnonzero(programme.labels == label)
    X = programme.X[rows]
    S = entries.inverse[rows]
    S_label = S
    if entries.of_sums is not None:
        kept = entries.kept[rows]
        S_label = S * kept
        # Where the sum stays as it is, the steps of other classes make up for one.
        joint = S * np.sqrt(entries.of_sums[rows] * kept)
        moved = (joint[:, :, None] * X[:, None, :]).reshape(len(rows), -1)
        equations -= (moved.T @ moved).reshape(equations.shape)
    for c in np.flatnonzero(S.any(axis=0)):
        between = (X.T * S_label[:, c]) @ X
        equations[c, :, c] += (X.T * S[:, c]) @ X
        equations[label, :, label] += between
        equations[c, :, label] -= between
        equations[label, :, c] -= between


MOST_FEATURES = 600  # a step takes time as their square
MOST_VARIABLES = 3_000_000  # examples × classes
MOST_WORK = 2e10  # of a step: multiplications for its equations
MOST_WEIGHTS = 3_000  # features × classes, of losses whose equations are those of all classes at once
STEPS = 200
PATIENCE = 60  # steps without a lower gap: the first twenty or so only come nearer to the middle of the way
NEAR = 0.995  # of the way to the nearest bound that a step may go
SPOILT = 100.0  # times the least gap so far: then rounding decides
SNAP = 1e-12  # variables so close to a bound, in parts of it, are put there


def is_small(problem: Problem) -> bool:
    """Whether steps are cheap enough."""
    n = problem.n_examples
    d = problem.n_features
    k = problem.n_classes
    if d > MOST_FEATURES or n * k > MOST_VARIABLES:
        return False
    if problem.loss in ("llw", "ovr"):
        return n * k * d * d <= MOST_WORK
    weights = d * k
    work = n * weights * (weights if problem.loss == "cs" else d)
    return weights <= MOST_WEIGHTS and work + weights**3 / 3 <= MOST_WORK


@dataclass
class _Point:
    """Variables, and how far the two bounds hold them back (multipliers)."""

    a: Floats  # examples × classes, 0 where a variable is fixed
    z: Floats  # of a ≥ 0
    u: Floats  # of what is bounded from above

    def moved(self, step: _Point, length: float) -> _Point:
        """The point so far along a step."""
        return _Point(self.a + length * step.a, self.z + length * step.z, self.u + length * step.u)


def interior_point(problem: Problem, tol: float) -> Any:
    """Dual variables, examples × classes, whose relative duality gap is about `tol`."""
    programme = Programme.of(problem)
    with np.errstate(all="ignore"):  # where numbers leave their range, the way ends
        a = _best(_start(programme), programme, tol)
    caps = programme.caps
    near = SNAP * caps
    a = np.where(a < near, 0.0, np.where(a > caps - near, caps, a))
    return sparse.csr_array(np.where(programme.free, a, 0.0))


def _best(point: _Point, programme: Programme, tol: float) -> Floats:
    """The variables of the best point on the way to the gap, or until rounding spoils the steps."""
    best = point.a
    least = np.inf
    found_at = 0
    for step in range(STEPS):
        gap, gradient = _state(point.a, programme)
        if gap < least:
            best = point.a
            least = gap
            found_at = step
        if gap <= 0.5 * tol or not gap <= SPOILT * least or step - found_at > PATIENCE:
            break
        try:
            point = _improved(point, gradient, programme)
        except (linalg.LinAlgError, ValueError):  # a system that is not finite, or not definite any more
            break
    return best


def _start(programme: Programme) -> _Point:
    """The middle between the bounds, with multipliers that balance the gradient there."""
    n_bounded = programme.bounded(programme.free.astype(np.float64))
    a = np.where(programme.free, 0.5 * programme.caps / np.maximum(n_bounded, 1.0), 0.0)
    gradient = _state(a, programme)[1]
    more = max(float(np.abs(gradient[programme.free]).mean()), 1.0)
    u = np.maximum(-gradient, 0.0) + more
    if programme.bounds_sums:
        u = u.max(axis=1, keepdims=True)
    z = np.where(programme.free, gradient + u, 0.0)
    return _Point(a, z, np.where(programme.held, u, 0.0))


def _state(a: Floats, programme: Programme) -> tuple[float, Floats]:
    """The relative duality gap, and the gradient of the function to be minimised."""
    W = programme.weights(a)
    norm = 0.5 * float((W**2).sum())
    primal = norm + programme.losses(W)
    dual = float(a.sum()) - norm
    return (primal - dual) / primal, np.where(programme.free, -1.0 - programme.scores(W), 0.0)


def _improved(point: _Point, gradient: Floats, programme: Programme) -> _Point:
    """One predictor-corrector step."""
    free = programme.free
    bounded = programme.bounded
    room = np.where(programme.held, programme.caps - bounded(point.a), 1.0)
    a = np.where(free, point.a, 1.0)
    newton = NewtonStep(programme, Entries.of(programme, point.z / a, point.u / room))

    def step(lower: Floats, upper: Floats) -> _Point:
        """The step to where a·z and room·u are changed by so much."""
        da = newton.solved(np.where(free, point.z - point.u - gradient + lower / a - upper / room, 0.0))
        dz = np.where(free, (lower - point.z * da) / a, 0.0)
        du = np.where(programme.held, (upper + point.u * bounded(da)) / room, 0.0)
        return _Point(da, dz, du)

    first = step(-point.a * point.z, -room * point.u)
    mean = _complementarity(point, programme)
    left = _complementarity(point.moved(first, _find_longest(point, first, programme)), programme)
    target = mean * (left / mean) ** 3
    lower = target - point.a * point.z - first.a * first.z
    second = step(lower, target - room * point.u + bounded(first.a) * first.u)
    return point.moved(second, NEAR * _find_longest(point, second, programme))


def _complementarity(point: _Point, programme: Programme) -> float:
    """The mean of a·z and room·u, which is zero at the optimum."""
    room = programme.caps - programme.bounded(point.a)
    total = float((point.a * point.z).sum()) + float((room * point.u).sum())
    return total / (int(programme.free.sum()) + int(programme.held.sum()))


def _find_longest(point: _Point, step: _Point, programme: Programme) -> float:
    """How far a step may go, at most 1, until something comes to its bound."""
    room = programme.caps - programme.bounded(point.a)
    far = 1.0
    for value, change, there in (
        (point.a, step.a, programme.free),
        (point.z, step.z, programme.free),
        (room, -programme.bounded(step.a), programme.held),
        (point.u, step.u, programme.held),
    ):
        falling = there & (change < 0)
        if falling.any():
            far = min(far, float((-value[falling] / change[falling]).min()))
    return far
