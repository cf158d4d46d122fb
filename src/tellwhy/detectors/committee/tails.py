"""Values that are far out in their column, or rare for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tellwhy.core.score_function import Floats, Integers
from tellwhy.detectors.committee.column_law import ColumnLaw, how_many_reach, surprises_of
from tellwhy.detectors.committee.member import MOST_CORRELATED, excess
from tellwhy.detectors.committee.straight import Straight


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
    laws: tuple[ColumnLaw, ...]
    alike: Floats

    @classmethod
    def learn(cls, X: Floats, laws: tuple[ColumnLaw, ...] | None = None) -> Tails:
        """Learn the law of each column from all rows: a few per cent of anomalies do not move it."""
        laws = laws or tuple(ColumnLaw.learn(column) for column in X.T)
        return cls(laws, _alike(Straight.of_laws(laws).of(X)))

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
