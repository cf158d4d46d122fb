"""Values that are common on their own and hardly ever come together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import pdtr

from tellwhy.core.score_function import Floats, Integers
from tellwhy.detectors.committee.member import Mask, excess, has_two_values


@dataclass(frozen=True)
class RarePairs:
    """Excess surprise of pairs of labels that come together less often than chance would have it.

    Labels are the higher values of columns with two values: the labels of an encoded category, or 'true'.
    With n·p·q rows expected, so few as were seen have the probability of a Poisson variable's lower tail.

    Attributes
    ----------
    high, has_two_values
        The highest value of each column, and whether there are two of them; only such columns have labels.
    surprises
        Columns × columns, 0 where the pair is not rarer than expected.
    """

    least_scale: ClassVar[float] = 1.0
    high: Floats
    has_two_values: Mask
    surprises: Floats

    @classmethod
    def learn(cls, X: Floats) -> RarePairs:
        """Count pairs in all rows."""
        high = X.max(axis=0)
        is_label = has_two_values(X)
        present = _labels(X, high, is_label)
        counts = present.T @ present
        singles = np.diag(counts)
        expected = np.outer(singles, singles) / len(X)
        # A rare label has few pairs anyway: that is the label's own surprise, not the pair's.
        surprises = -np.log(np.maximum(pdtr(counts, expected), 1e-300))
        np.fill_diagonal(surprises, 0.0)
        n_pairs = max(1, int((expected > 0).sum() - (singles > 0).sum()) // 2)
        return cls(
            high, is_label, np.where(counts < expected, np.maximum(excess(surprises, n_pairs), 0.0), 0.0)
        )

    def score(self, X: Floats, points: Integers | None = None) -> Floats:  # noqa: ARG002
        """Sum over the pairs of labels that a row has."""
        return np.asarray(self.shares(X).sum(axis=1))

    def shares(self, X: Floats, points: Integers | None = None) -> Floats:  # noqa: ARG002
        """Half of each pair's surprise for either label."""
        present = _labels(X, self.high, self.has_two_values)
        return np.asarray(0.5 * present * (present @ self.surprises))


def _labels(X: Floats, high: Floats, is_label: Mask) -> Floats:
    """1 where a row has a label, 0 elsewhere."""
    return ((high == X) & is_label).astype(np.float64)
