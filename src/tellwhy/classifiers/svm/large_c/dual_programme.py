"""The dual problems of the losses as quadratic programmes, with few features and rows held in full.

All have the same shape: variables a ≥ 0, examples × classes, give the weights W(a), and

    min ½ ‖W(a)‖² − Σ a   with bounds from above.

They differ in how variables make weights, and in what is bounded: the sum of a row's variables
(Crammer–Singer) or each of them (all others).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from tellwhy.classifiers.svm.problem import Problem
from tellwhy.core.score_function import Floats, Integers


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
