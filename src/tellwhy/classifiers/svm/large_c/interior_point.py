"""The optimum of a multi-class SVM by an interior-point method, for few features and any C.

Coordinate ascent takes steps of one variable, or of one row's, and at large C variables have to go a long
way together: it creeps. Here all of them move at once, by Newton steps that keep away from the bounds
(Mehrotra's predictor and corrector). However many variables there are, a step needs no more equations than
there are weights. Some tens of steps, at most a hundred or so, give the gap that is asked for at any C.

References
----------
Mehrotra, *On the implementation of a primal-dual interior point method*, SIAM Journal on Optimization 2
(1992); Ferris, Munson, *Interior-point methods for massive support vector machines*, ibid. 13 (2002).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse

from tellwhy.classifiers.svm.large_c.dual_programme import Programme
from tellwhy.classifiers.svm.large_c.newton_step import Entries, NewtonStep
from tellwhy.classifiers.svm.problem import Problem
from tellwhy.core.score_function import Floats

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
    left = _complementarity(point.moved(first, _longest(point, first, programme)), programme)
    target = mean * (left / mean) ** 3
    lower = target - point.a * point.z - first.a * first.z
    second = step(lower, target - room * point.u + bounded(first.a) * first.u)
    return point.moved(second, NEAR * _longest(point, second, programme))


def _complementarity(point: _Point, programme: Programme) -> float:
    """The mean of a·z and room·u, which is zero at the optimum."""
    room = programme.caps - programme.bounded(point.a)
    total = float((point.a * point.z).sum()) + float((room * point.u).sum())
    return total / (int(programme.free.sum()) + int(programme.held.sum()))


def _longest(point: _Point, step: _Point, programme: Programme) -> float:
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
