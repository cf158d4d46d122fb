"""Values that are common on their own and hardly ever come together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import pdtr

from tellwhy.core.score_function import Floats, Integers
from tellwhy.detectors.committee.member import excess, has_two_values

MOST_LABELS = 1_000  # whose pairs are counted
FEW_ROWS = 3
FEW_SHARE = 1e-3


@dataclass(frozen=True)
class RarePairs:
    """Excess surprise of pairs of labels that come together less often than chance would have it.

    Labels are the higher values of columns with two values: the labels of an encoded category, or 'true'.
    With n·p·q rows expected, so few as were seen have the probability of a Poisson variable's lower tail. Of
    a pair that k rows have, and more than a few, the surprise is at most log(n/k).

    Attributes
    ----------
    labels
        Columns that are labels: those with two values.
    high
        The higher value of each of them.
    surprises
        Labels × labels, 0 where the pair is not rarer than expected.
    """

    least_scale: ClassVar[float] = 1.0
    most_shape: ClassVar[float] = 0.15  # labels that depend on a third have rare pairs in many rows
    labels: Integers
    high: Floats
    surprises: Floats

    @classmethod
    def learn(cls, X: Floats) -> RarePairs:
        """Count pairs in all rows."""
        high = X.max(axis=0)
        labels = np.flatnonzero(has_two_values(X))
        if len(labels) > MOST_LABELS:  # the most common ones: a rare label has few pairs anyway
            common = np.argsort(-(X[:, labels] == high[labels]).mean(axis=0), kind="stable")
            labels = np.sort(labels[common[:MOST_LABELS]])
        present = _present(X, labels, high[labels])
        counts = present.T @ present
        singles = np.diag(counts)
        expected = np.outer(singles, singles) / len(X)
        # A rare label has few pairs anyway: that is the label's own surprise, not the pair's.
        surprises = -np.log(np.maximum(pdtr(counts, expected), 1e-300))
        np.fill_diagonal(surprises, 0.0)
        n_pairs = max(1, len(labels) * (len(labels) - 1) // 2)
        surprises = np.where(counts < expected, np.maximum(excess(surprises, n_pairs), 0.0), 0.0)
        # A pair that more than a few rows have is a habit of the data: no odder than these rows are rare.
        is_habit = counts > max(FEW_ROWS, FEW_SHARE * len(X))
        habitual = np.minimum(surprises, np.log(len(X) / np.maximum(counts, 1.0)))
        surprises = np.where(is_habit, habitual, surprises)
        return cls(labels, high[labels], surprises)

    def score(self, X: Floats, points: Integers | None = None) -> Floats:  # noqa: ARG002
        """Sum over the pairs of labels that a row has."""
        return np.asarray(self._halves(X).sum(axis=1))

    def shares(self, X: Floats, points: Integers | None = None) -> Floats:  # noqa: ARG002
        """Half of each pair's surprise for either label."""
        found = np.zeros_like(X)
        found[:, self.labels] = self._halves(X)
        return found

    def _halves(self, X: Floats) -> Floats:
        present = _present(X, self.labels, self.high)
        return np.asarray(0.5 * present * (present @ self.surprises))


def _present(X: Floats, labels: Integers, high: Floats) -> Floats:
    """1 where a row has a label, 0 elsewhere."""
    return (X[:, labels] == high).astype(np.float64)
