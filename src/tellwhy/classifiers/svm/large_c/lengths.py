"""The primal objective of Lee–Lin–Wahba weights of several lengths.

At a large C most losses end at zero. On the way there many are just above it, and times C they keep the
duality gap open long after the dual objective has come to rest. The same weights, longer by some per cent,
have hardly any of these losses and half of their square is little more: they are the better model, and the
dual variables certify how good it is as they do for any other weights.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from tellwhy.classifiers.svm.problem import Problem
from tellwhy.core.score_function import Floats

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
        losses = sum(self._losses(W, times, at, at + rows) for at in range(0, self.X.shape[0], rows))
        return np.asarray(0.5 * times**2 * float((W**2).sum()) + losses + self._constant)

    def _losses(self, W: Floats, times: Floats, low: int, high: int) -> Floats:
        """Losses of some rows, times their caps, for each length."""
        scores = self.X[low:high] @ W
        own = slice(*np.searchsorted(self._own_rows, [low, high]))
        scores[self._own_rows[own] - low, self._own[own]] = -np.inf  # labels cost nothing
        caps = self._caps[low:high]
        return np.array([caps @ np.maximum(1.0 + t * scores, 0.0).sum(axis=1) for t in times])


def best_length(primal: Primal, W: Floats) -> tuple[float, float]:
    """The length of the weights with the lowest objective, and that objective."""
    found = primal.of(W, LENGTHS)
    best = int(np.argmin(found))
    return LENGTHS[best], float(found[best])
