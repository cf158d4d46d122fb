"""Values that are far out in their column, or rare for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tellwhy.core.score_function import Floats, Integers
from tellwhy.detectors.committee.column_law import how_many_reach, surprises_of
from tellwhy.detectors.committee.member import MOST_CORRELATED, excess
from tellwhy.detectors.committee.spiked import Law, law_of
from tellwhy.detectors.committee.straight import Straight

ODD = 3.0  # surprise from which a cell is odd: one in twenty


@dataclass(frozen=True)
class Tails:
    """Excess surprise of the cells of a row, each in its own column.

    Columns that go together are odd together. Of a column with correlation ρ to the oddest one of the row
    only the part 1 − ρ² is counted: the rest has been said.

    Attributes
    ----------
    laws
        What is usual in each column.
    alike
        ρ² of each two columns, in straightened units.
    """

    least_scale: ClassVar[float] = 1.0
    most_shape: ClassVar[float] = 0.0
    laws: tuple[Law, ...]
    alike: Floats

    @classmethod
    def learn(cls, X: Floats, laws: tuple[Law, ...] | None = None) -> Tails:
        """Learn the law of each column from all rows: a few per cent of anomalies do not move it."""
        laws = laws or tuple(law_of(column) for column in X.T)
        alike = _alike(Straight.learn(X, laws).of(X))
        return cls(laws, np.maximum(alike, _odd_together(surprises_of(laws, X))))

    def score(self, X: Floats, points: Integers | None = None) -> Floats:  # noqa: ARG002
        """Sum of the excess surprises of a row."""
        return np.asarray(self.shares(X).sum(axis=1))

    def shares(self, X: Floats, points: Integers | None = None) -> Floats:  # noqa: ARG002
        """Excess surprise of each cell, as far as the oddest cell of its row has not told it."""
        surprises = surprises_of(self.laws, X)
        found = excess(surprises, how_many_reach(self.laws, surprises))
        oddest = np.argmax(found, axis=1)
        counted = 1.0 - self.alike[oddest]
        counted[np.arange(len(X)), oddest] = 1.0
        return np.asarray(found * counted)


def _alike(Z: Floats) -> Floats:
    """Squared correlations; 0 where a column does not vary, and in very wide tables, where they are noise."""
    d = Z.shape[1]
    if d == 1 or d > MOST_CORRELATED:
        return np.zeros((d, d))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.clip(np.nan_to_num(np.corrcoef(Z.T)) ** 2, 0.0, 1.0))


def _odd_together(surprises: Floats) -> Floats:
    """Part of a column's surprise that is told once another is odd: 1 − log p(odd | other odd)/log p(odd).

    Correlations do not see it: of two columns of zeros, other values may be in the same few rows.
    """
    n, d = surprises.shape
    if d == 1 or d > MOST_CORRELATED:
        return np.zeros((d, d))
    is_odd = (surprises > ODD).astype(np.float64)
    together = is_odd.T @ is_odd
    counts = np.diag(together)
    # As many as there are at least, by one standard error: a few rows may be odd together by chance.
    sure = np.maximum(together - np.sqrt(together), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        told = 1.0 - np.log(sure / counts[:, None]) / np.log(counts / n)
    return np.asarray(np.clip(np.nan_to_num(told, nan=0.0, posinf=0.0, neginf=0.0), 0.0, 1.0))
