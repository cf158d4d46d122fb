"""The relevance that columns have on ordinary rows, and whether to tell a row's relevance beside it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

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


# What was found for a model is kept as long as its expansion is, by whose `id` it is known: explaining rows
# one by one must not find it each time. Only numbers are kept, nothing that would keep the model itself.
_FOUND: dict[int, dict[tuple[str, bytes], Any]] = {}


@dataclass(frozen=True, eq=False)
class OrdinaryRows:
    """Rows that a model was trained on or that were given as ordinary, each judged without itself.

    `some` are at most 300 of them, in the columns that the score sees, and `known` all that are known.
    `are_given` tells that they are not the model's own.
    """

    some: Rows
    known: Floats
    are_given: bool

    @classmethod
    def of(cls, explained: Rows, given: Floats | None) -> OrdinaryRows | None:
        """Take the given rows, in the score's columns, or those that the model keeps; None: too few."""
        X = given
        if X is None:
            kept = kept_rows(explained.score)
            X = None if kept is None else np.asarray(kept.rows, dtype=np.float64)
        if X is None or len(X) < LEAST_ROWS:
            return None
        some = X[evenly_spread(len(X), MOST_ROWS)]
        return cls(replace(explained, X=some, left_out=None, output=None), X, given is not None)

    @cached_property
    def rows(self) -> Rows:
        """The rows, with what each of them leaves out."""
        score = self.some.score
        if not isinstance(score, LeavesRowsOut):
            return self.some
        return replace(self.some, left_out=score.match(self.some.X))

    @cached_property
    def usual(self) -> Floats:
        """The relevance that each of the user's columns usually has."""
        found: Floats = self._found_once("usual", self._find_usual)
        return found

    @cached_property
    def naming(self) -> Naming:
        """Which form names the moved column of altered ordinary rows; the same rows every time."""
        found: Naming = self._found_once("naming", self._find_naming)
        return found

    def _found_once(self, what: str, find: Callable[[], Any]) -> Any:
        """Find something, or take what was found before for the same model and columns."""
        if self.are_given:
            return find()
        expansion = self.some.score.expansion
        if id(expansion) not in _FOUND:
            _FOUND[id(expansion)] = {}
            weakref.finalize(expansion, _FOUND.pop, id(expansion), None)
        found = _FOUND[id(expansion)]
        key = (what, self.some.owner.tobytes())
        if key not in found:
            found[key] = find()
        return found[key]

    def _find_usual(self) -> Floats:
        values, scores = relevance(self.rows.score, self.rows.X, self.rows.skipped)
        return usual_relevance(self.rows.by_owner(values), scores)

    def _find_naming(self) -> Naming:
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
