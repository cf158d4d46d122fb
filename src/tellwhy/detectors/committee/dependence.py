"""Cells that are not what the other cells of their row make one expect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tellwhy.core.parallel import tracked_batches
from tellwhy.core.score_function import Floats, Integers
from tellwhy.detectors.committee.column_law import ColumnLaw, surprises_of
from tellwhy.detectors.committee.member import MOST_CORRELATED, Mask, Units, excess
from tellwhy.detectors.committee.straight import Straight

LEAST_VALUES = 10  # of a column that is measured


@dataclass(frozen=True)
class Dependence:
    """Excess surprise of what is left of each column once the others have predicted it.

    The linear prediction of every column from the others comes from one inverse covariance P: the rest of
    column j is z·P_j / P_jj, taken relative to large predictions. Judged are measured columns: those with
    many values, none of which most rows have. What is left of a label or of a column of zeros has few values,
    far apart; a rare one would look like broken dependence.

    Attributes
    ----------
    judged
        The measured columns; none of a very wide table, whose correlations are noise.
    weights
        Each column turns a row into the rest of a judged column.
    laws
        What is usual for these rests.
    """

    least_scale: ClassVar[float] = 1.0
    most_shape: ClassVar[float] = 0.15  # far from the middle a straight line predicts badly
    units: Units
    judged: Integers
    weights: Floats
    laws: tuple[ColumnLaw, ...]

    @classmethod
    def learn(cls, X: Floats, kept: Integers, straight: Straight | None = None) -> Dependence:
        """Learn the dependence from the kept rows, and what is left over from all of them."""
        units = Units.learn(X, kept, straight)
        n, d = len(kept), X.shape[1]
        judged = np.flatnonzero(is_measured(X)) if d <= MOST_CORRELATED else np.empty(0, dtype=np.int64)
        if not len(judged):
            return cls(units, judged, np.empty((d, 0)), ())
        # The ridge stands for noise in every column: without it, a column that the others give exactly
        # would make rounding errors look odd.
        ridge = 0.01 + 0.1 * d / n
        precision = np.linalg.inv(units.covariance(units.of(X[kept])) + ridge * np.eye(d))
        weights = (precision / np.diag(precision))[:, judged]
        rest = _relative_rest(units.of(X), judged, weights)
        # What a straight line leaves over has longer tails than its middle tells: no light ones are believed.
        laws = tuple(ColumnLaw.learn(column, lightest=0.0) for column in rest.T)
        return cls(units, judged, weights, laws)

    def score(self, X: Floats, points: Integers | None = None) -> Floats:  # noqa: ARG002
        """Sum of the excess surprises of a row."""
        return np.asarray(self._excess(self.units.of(X)).sum(axis=1))

    def shares(self, X: Floats, points: Integers | None = None) -> Floats:  # noqa: ARG002
        """Each surprise shared between its column and those that predicted it, by the size of their terms."""
        Z = self.units.of(X)
        odd = self._excess(Z)
        found = np.zeros_like(Z)
        for rows in tracked_batches(len(Z), 8 * self.weights.size, "sharing broken dependence"):
            terms = np.abs(Z[rows])[:, :, None] * np.abs(self.weights)  # row, column, whose rest
            totals = terms.sum(axis=1, keepdims=True)
            terms /= np.where(totals > 0, totals, 1.0)
            found[rows] = np.einsum("nij,nj->ni", terms, odd[rows])
        return found

    def _excess(self, Z: Floats) -> Floats:
        if not len(self.judged):
            return np.zeros((len(Z), 0))
        rest = _relative_rest(Z, self.judged, self.weights)
        return excess(surprises_of(self.laws, rest), Z.shape[1])


def _relative_rest(Z: Floats, judged: Integers, weights: Floats) -> Floats:
    """What is left of the judged columns, relative to the size of the prediction where that is large.

    Errors of a straight line grow with what it predicts where the truth is a product or a power.
    """
    rest = Z @ weights
    return np.asarray(rest / (1.0 + np.abs(Z[:, judged] - rest)))


def is_measured(X: Floats) -> Mask:
    """Tell which columns have many values, none of them in most rows."""
    found = np.zeros(X.shape[1], dtype=bool)
    for j, column in enumerate(X.T):
        counts = np.unique(column, return_counts=True)[1]
        found[j] = len(counts) >= LEAST_VALUES and counts.max() <= len(column) / 2
    return found
