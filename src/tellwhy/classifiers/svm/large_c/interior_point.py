"""Lee–Lin–Wahba by an interior-point method, for few features and any C.

Coordinate ascent takes steps of one variable, and at large C variables have to go a long way together: it
creeps. The dual problem is a quadratic programme with bounds alone,

    min ½ ‖W(α)‖² − Σ α   for 0 ≤ α_ic ≤ C_i,   w_c = −Σ_i α_ic x_i + w̄,

and a Newton step on it, however many variables there are, needs one small system of equations for each class,
I + Xᵀ diag(1 / D_c) X, and one more that makes the steps of the weights sum to zero. Some twenty steps give
every digit that is asked for (Mehrotra's predictor and corrector).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse

from tellwhy.classifiers.svm.problem import Problem
from tellwhy.core.score_function import Floats

MOST_FEATURES = 600  # a step takes time as their square
MOST_VARIABLES = 3_000_000  # examples × classes
MOST_WORK = 2e10  # of a step: examples × classes × features²
STEPS = 80
NEAR = 0.995  # of the way to the nearest bound that a step may go
SPOILT = 100.0  # times the least gap so far: then rounding decides
REFINED = 2  # times: what equations of very different sizes lose is put right
SNAP = 1e-9  # variables so close to a bound, in parts of it, are put there


def is_small(problem: Problem) -> bool:
    """Whether steps are cheap enough."""
    n = problem.n_examples * problem.n_classes
    d = problem.n_features
    return problem.loss == "llw" and d <= MOST_FEATURES and n <= MOST_VARIABLES and n * d * d <= MOST_WORK


@dataclass
class _Point:
    """Variables, and how far the two bounds hold them back (multipliers)."""

    a: Floats  # examples × classes, 0 where a variable is fixed
    z: Floats  # of a ≥ 0
    u: Floats  # of a ≤ caps

    def moved(self, step: _Point, length: float) -> _Point:
        """The point so far along a step."""
        return _Point(self.a + length * step.a, self.z + length * step.z, self.u + length * step.u)


def interior_point(problem: Problem, tol: float) -> Any:
    """Dual variables, examples × classes, whose relative duality gap is about `tol`."""
    entries = problem.entries
    shape = (problem.n_examples, problem.n_features)
    X = sparse.csr_array((entries.values, entries.indices, entries.indptr), shape=shape).toarray()
    X = X.astype(np.float64)
    free = np.ones((problem.n_examples, problem.n_classes), dtype=bool)
    free[np.repeat(np.arange(problem.n_examples), problem.own.counts), problem.own.classes] = False
    caps = np.broadcast_to(problem.caps[:, None], free.shape)
    with np.errstate(all="ignore"):  # where numbers leave their range, the way ends
        a = _best(_start(X, caps, free), X, caps, free, tol)
    near = SNAP * caps
    a = np.where(a < near, 0.0, np.where(a > caps - near, caps, a))
    return sparse.csr_array(np.where(free, a, 0.0))


def _best(point: _Point, X: Floats, caps: Floats, free: Any, tol: float) -> Floats:
    """The variables of the best point on the way to the gap, or until rounding spoils the steps."""
    best = point.a
    least = np.inf
    for _ in range(STEPS):
        gap, gradient = _state(point, X, caps, free)
        if gap < least:
            best = point.a
            least = gap
        if gap <= 0.5 * tol or not gap <= SPOILT * least:
            break
        try:
            point = _improved(point, gradient, X, caps, free)
        except (linalg.LinAlgError, ValueError):  # a system that is not finite, or not definite any more
            break
    return best


def _start(X: Floats, caps: Floats, free: Any) -> _Point:
    """The middle between the bounds, with multipliers that balance the gradient there."""
    a = np.where(free, 0.5 * caps, 0.0)
    gradient = _state(_Point(a, a, a), X, caps, free)[1]
    more = max(float(np.abs(gradient[free]).mean()), 1.0)
    z = np.where(free, np.maximum(gradient, 0.0) + more, 0.0)
    u = np.where(free, np.maximum(-gradient, 0.0) + more, 0.0)
    return _Point(a, z, u)


def _weights(a: Floats, X: Floats) -> Floats:
    """Weights of all classes that follow from dual variables, features × classes."""
    V = -(X.T @ a)
    return np.asarray(V - V.mean(axis=1, keepdims=True))


def _state(point: _Point, X: Floats, caps: Floats, free: Any) -> tuple[float, Floats]:
    """The relative duality gap, and the gradient of the function to be minimised."""
    W = _weights(point.a, X)
    gains = 1.0 + X @ W
    norm = 0.5 * float((W**2).sum())
    primal = norm + float((caps * np.maximum(gains, 0.0))[free].sum())
    dual = float(point.a[free].sum()) - norm
    return (primal - dual) / primal, np.where(free, -gains, 0.0)


def _improved(point: _Point, gradient: Floats, X: Floats, caps: Floats, free: Any) -> _Point:
    """One predictor-corrector step."""
    n = 2 * int(free.sum())
    room = np.where(free, caps - point.a, 1.0)
    a = np.where(free, point.a, 1.0)
    mean = float((point.a * point.z + room * point.u)[free].sum()) / n
    system = _System.of(X, np.where(free, point.z / a + point.u / room, np.inf))

    def step(lower: Floats, upper: Floats) -> _Point:
        """The step to where a·z and (caps − a)·u are changed by so much."""
        rhs = np.where(free, -(gradient - point.z + point.u) + lower / a - upper / room, 0.0)
        da = system.solved(rhs)
        dz = np.where(free, (lower - point.z * da) / a, 0.0)
        du = np.where(free, (upper + point.u * da) / room, 0.0)
        return _Point(da, dz, du)

    first = step(-point.a * point.z, -room * point.u)
    length = _longest(point, first, room, free)
    after = point.moved(first, length)
    left = float((after.a * after.z + (caps - after.a) * after.u)[free].sum()) / n
    target = mean * (left / mean) ** 3
    second = step(target - point.a * point.z - first.a * first.z, target - room * point.u + first.a * first.u)
    return point.moved(second, NEAR * _longest(point, second, room, free))


def _longest(point: _Point, step: _Point, room: Floats, free: Any) -> float:
    """How far a step may go, at most 1, until something comes to its bound."""
    far = 1.0
    for value, change in ((point.a, step.a), (room, -step.a), (point.z, step.z), (point.u, step.u)):
        falling = free & (change < 0)
        if falling.any():
            far = min(far, float((-value[falling] / change[falling]).min()))
    return far


@dataclass(frozen=True)
class _System:
    """(D + Q) da = rhs, by equations as large as there are features."""

    X: Floats
    D: Floats  # 1 for variables that are fixed
    inverse: Floats  # 1 / D, 0 for variables that are fixed
    inverses: Floats  # of I + Xᵀ diag(1 / D_c) X, classes × features × features
    joint: Any  # factor of the sum of these

    @classmethod
    def of(cls, X: Floats, D: Floats) -> _System:
        inverse = 1.0 / D
        unit = np.eye(X.shape[1])
        inverses = [linalg.cho_solve(linalg.cho_factor(unit + (X.T * w) @ X), unit) for w in inverse.T]
        joint = linalg.cho_factor(np.sum(inverses, axis=0))
        return cls(X, np.where(np.isfinite(D), D, 1.0), inverse, np.array(inverses), joint)

    def solved(self, rhs: Floats) -> Floats:
        """Solve for one right side, examples × classes."""
        found = self._solved_once(rhs)
        for _ in range(REFINED):
            over = np.where(self.inverse > 0, self.D * found - self.X @ _weights(found, self.X), 0.0)
            found = found + self._solved_once(rhs - over)
        return found

    def _solved_once(self, rhs: Floats) -> Floats:
        b = -(self.X.T @ (self.inverse * rhs))  # the weights that it would make, but for their mean
        # The class's own equations, with what keeps the sum over classes at zero.
        y = np.einsum("cfg,gc->fc", self.inverses, b)
        y -= np.einsum("cfg,g->fc", self.inverses, linalg.cho_solve(self.joint, y.sum(axis=1)))
        return np.asarray(self.inverse * (rhs + self.X @ y))
