"""The relevance that columns have on ordinary rows, and whether to tell a row's relevance beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tellwhy.core.capabilities import LeavesRowsOut
from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import evenly_spread
from tellwhy.explainers.score_rows import Rows
from tellwhy.scoring.kept_rows import kept_rows
from tellwhy.scoring.moved_columns import LEAST_MOVED, MovedColumns, Naming
from tellwhy.scoring.relevance import relevance, usual_relevance

MOST_ROWS = 300  # ordinary rows, and as many with one column moved: their explanation costs little
LEAST_ROWS = 20  # fewer do not tell what is usual


@dataclass(frozen=True, eq=False)
class OrdinaryRows:
    """Rows that a model was trained on or that were given as ordinary, each judged without itself.

    `rows` are at most 300 of them, in the columns that the score sees, and `known` all that are known.
    """

    rows: Rows
    known: Floats

    @classmethod
    def of(cls, explained: Rows, given: Floats | None) -> OrdinaryRows | None:
        """Take the given rows, in the score's columns, or those that the model keeps; None: too few."""
        X = given
        if X is None:
            kept = kept_rows(explained.score)
            X = None if kept is None else np.asarray(kept.rows, dtype=np.float64)
        if X is None or len(X) < LEAST_ROWS:
            return None
        known = X
        X = X[evenly_spread(len(X), MOST_ROWS)]
        score = explained.score
        left_out = score.match(X) if isinstance(score, LeavesRowsOut) else None
        return cls(replace(explained, X=X, left_out=left_out, output=None), known)

    @cached_property
    def usual(self) -> Floats:
        """The relevance that each of the user's columns usually has."""
        values, scores = relevance(self.rows.score, self.rows.X, self.rows.skipped)
        return usual_relevance(self.rows.by_owner(values), scores)

    @cached_property
    def naming(self) -> Naming:
        """Which form names the moved column of altered ordinary rows; the same rows every time."""
        rows = self.rows
        rng = np.random.default_rng(0)
        moved = MovedColumns.drawn(rows.X, rows.owner, MOST_ROWS, rng, known=self.known)
        if len(moved.X) < LEAST_MOVED:
            return Naming(0.0, 0.0, 0.0, 0)
        values, _ = relevance(rows.score, moved.X, self._left_out(moved))
        return Naming.of(moved, rows.by_owner(values), self.usual)

    def _left_out(self, moved: MovedColumns) -> Integers:
        """What the row that each was made from leaves out: beside itself, no row would look odd."""
        return np.asarray(self.rows.skipped[moved.origin])
