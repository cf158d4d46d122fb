"""Lee–Lin–Wahba by accelerated coordinate ascent, for many features and any C.

A plain step forgets the way that a variable has come. Here each row's variables keep a momentum: a step
starts from z + θ² u, where z are variables within their bounds, u is what earlier steps add up to, and θ
falls as one over the number of steps. The distance to the optimum then falls as one over the square of the
epochs rather than as one over the epochs. An epoch costs about two plain ones over all variables, whatever
C is. The momentum is dropped from time to time, as it was gathered far from the optimum: when the duality
gap has fallen to a twentieth, or when the dual objective falls.

At a large C most losses end at zero. On the way there many are just above it, and times C they keep the
duality gap open long after the dual objective has come to rest. The same weights, longer by some per cent,
have hardly any of these losses and half of their square is little more: they are the better model, and the
dual variables certify how good it is as they do for any other weights (`find_best_length`).

References
----------
Fercoq, Richtárik, *Accelerated, parallel and proximal coordinate descent*, SIAM Journal on Optimization 25
(2015); Lin, Lu, Xiao, *An accelerated randomized proximal coordinate gradient method*, ibid.; O'Donoghue,
Candès, *Adaptive restart for accelerated gradient schemes*, Foundations of Computational Mathematics 15
(2015).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tellwhy.classifiers.svm._compiled_ascent import sweep
from tellwhy.classifiers.svm.problem import Problem
from tellwhy.classifiers.svm.records import Entries
from tellwhy.core.score import Floats, Integers

LENGTHS = (1.0, 1.001, 1.002, 1.005, 1.01, 1.02, 1.04, 1.08)  # times the weights that variables give
CHUNK = 4_000_000  # scores held at a time


class Primal:
    """The primal objective of a problem."""

    def __init__(self, problem: Problem):
        entries = problem.entries
        values = entries.values.astype(np.float64, copy=False)
        shape = (problem.n_examples, problem.n_features)
        self.X = sparse.csr_array((values, entries.indices, entries.indptr), shape=shape)
        self._own = problem.own.classes
        self._own_rows = np.repeat(np.arange(problem.n_examples), problem.own.counts)
        self._caps = problem.caps
        self._constant = problem.constant

    def of(self, W: Floats, lengths: tuple[float, ...] = (1.0,)) -> Floats:
        """Objectives of the weights W, features × classes, times each of the lengths."""
        times = np.array(lengths)
        rows = max(CHUNK // W.shape[1], 1)
        losses = sum(self._compute_losses(W, times, at, at + rows) for at in range(0, self.X.shape[0], rows))
        return np.asarray(0.5 * times**2 * float((W**2).sum()) + losses + self._constant)

    def _compute_losses(self, W: Floats, times: Floats, low: int, high: int) -> Floats:
        """Losses of some rows, times their caps, for each length."""
        scores = self.X[low:high] @ W
        own = slice(*np.searchsorted(self._own_rows, [low, high]))
        scores[self._own_rows[own] - low, self._own[own]] = -np.inf  # labels cost nothing
        caps = self._caps[low:high]
        return np.array([caps @ np.maximum(1.0 + t * scores, 0.0).sum(axis=1) for t in times])


def find_best_length(primal: Primal, W: Floats) -> tuple[float, float]:
    """The length of the weights with the lowest objective, and that objective."""
    found = primal.of(W, LENGTHS)
    best = int(np.argmin(found))
    return LENGTHS[best], float(found[best])


MOST_VARIABLES = 25_000_000  # examples × classes, and features × classes: a few arrays of each are held
MOST_EPOCHS = 4_000
MOST_WORK = 1e12  # of all epochs: multiplications, some ten minutes
CHECKED_EVERY = 10  # epochs: a check costs about a third of one
RESCALING_EVERY = 4  # checks: that many lengths of the weights cost about an epoch
ENOUGH = 0.9  # of the gap asked for: rounding to single precision may add some
DROPPED_AFTER = 20.0  # times that the gap has fallen; from 10 to 30 the epochs are much the same
SNAP = 1e-12  # variables so close to a bound, in parts of it, are put there


class _Bounds(NamedTuple):
    """What the variables of each row may be."""

    caps: Floats
    squares: Floats  # ‖x‖²
    own_at: Integers
    own: Integers  # classes whose variables stay at 0


class _Moving(NamedTuple):
    """Variables z, their momentum u, and the weights that follow from each."""

    variables: Floats  # examples × classes
    momentum: Floats
    weights: Floats  # features × classes
    momentum_weights: Floats


def is_possible(problem: Problem) -> bool:
    """Whether there is room for the variables of all classes."""
    most = max(problem.n_examples, problem.n_features)
    return problem.loss == "llw" and most * problem.n_classes <= MOST_VARIABLES


def accelerated_ascent(problem: Problem, start: Any, tol: float) -> Any:
    """Dual variables, examples × classes, from `start` to a gap of `tol`, or the best of all epochs."""
    ascent = _Ascent(problem, start)
    rng = np.random.default_rng(0)  # the order of rows is part of the method: the same for every fit
    best = ascent.variables()
    least = np.inf  # relative gap of the best variables
    last = -np.inf
    at_rest = -np.inf  # the gap when the momentum was last dropped
    for check in range(_count_most_checks(problem)):
        for _ in range(CHECKED_EVERY):
            ascent.epoch(rng.permutation(problem.n_examples))
        primal, dual = ascent.objectives()
        gap = primal - dual
        reached = ascent.reached(dual) if check % RESCALING_EVERY == 0 else gap / primal
        if reached < least:
            least = reached
            best = ascent.variables()
        if least <= ENOUGH * tol:
            break
        if dual < last or DROPPED_AFTER * gap < at_rest:
            ascent.drop_momentum()
            at_rest = gap
        at_rest = max(gap, at_rest)
        last = dual
    return sparse.csr_array(best)


def _count_most_checks(problem: Problem) -> int:
    work = 4.0 * len(problem.entries.values) * problem.n_classes
    return int(min(MOST_EPOCHS, MOST_WORK / max(work, 1.0))) // CHECKED_EVERY


class _Ascent:
    """Where the ascent stands."""

    def __init__(self, problem: Problem, start: Any):
        given = problem.entries
        values = given.values.astype(np.float64, copy=False)
        self._entries = Entries(given.indptr, given.indices, values)
        own = problem.own
        self._bounds = _Bounds(problem.caps, problem.squares, own.at, own.classes)
        self._primal = Primal(problem)
        self._constant = problem.constant
        self._begin(start.toarray().astype(np.float64))

    def _begin(self, variables: Floats) -> None:
        """Start from given variables at rest."""
        V = -(self._primal.X.T @ variables)
        V -= V.mean(axis=1, keepdims=True)
        self._at = _Moving(variables, np.zeros_like(variables), np.ascontiguousarray(V), np.zeros_like(V))
        self._theta = 1.0 / len(variables)

    def epoch(self, order: Integers) -> None:
        """Visit every row once."""
        self._theta = sweep(order, self._entries, self._bounds, self._at, self._theta)

    @property
    def _share(self) -> float:
        """θ² of the latest step: that much of the momentum counts."""
        return self._theta**2 / (1.0 - self._theta)

    def variables(self) -> Floats:
        """The dual variables, within their bounds."""
        found = self._share * self._at.momentum
        found += self._at.variables
        caps = self._bounds.caps[:, None]
        found[found < SNAP * caps] = 0.0
        return np.minimum(found, caps, out=found)

    def drop_momentum(self) -> None:
        """Go on from the same variables, at rest."""
        self._begin(self.variables())

    def objectives(self) -> tuple[float, float]:
        """Primal and dual objective."""
        W = self._weights()
        total = float(self._at.variables.sum()) + self._share * float(self._at.momentum.sum())
        return float(self._primal.of(W)[0]), total - 0.5 * float((W**2).sum()) + self._constant

    def reached(self, dual: float) -> float:
        """The relative duality gap of the weights' best length."""
        objective = find_best_length(self._primal, self._weights())[1]
        return (objective - dual) / objective if objective > 0 else -dual

    def _weights(self) -> Floats:
        return np.asarray(self._at.weights + self._share * self._at.momentum_weights)
