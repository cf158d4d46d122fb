"""The equations of a Newton step, (E + Q) s = r for a step of all variables, solved through the weights.

Q s is what the step does to the scores, through the weights; E is what the bounds add, an entry for each
variable and, where sums are bounded, one for each row. With S = E⁻¹ the weights' own step y = W(s) has

    (I + W S Wᵀ) y = W(S r),   s = S (r + scores(y)),

as many equations as there are weights. One-vs-rest has those of each class alone, and Lee–Lin–Wahba one set
more that makes the steps of the weights sum to zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from tellwhy.classifiers.svm.large_c.dual_programme import Programme
from tellwhy.core.score_function import Floats

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
        found = self._solved_once(rhs)
        for _ in range(REFINED):
            scores = self._programme.scores(self._programme.weights(found))
            over = np.where(self._programme.free, self._entries.times(found) - scores, 0.0)
            found = found + self._solved_once(rhs - over)
        return found

    def _solved_once(self, rhs: Floats) -> Floats:
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
