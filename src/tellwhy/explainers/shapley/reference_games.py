"""What sets of columns are worth where absent columns take the cells of reference rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.parallel import row_batches
from tellwhy.core.progress import track
from tellwhy.core.score_function import Floats, Integers
from tellwhy.counterfactuals.row_scores import RowScores
from tellwhy.explainers.shapley.coalitions import Coalitions
from tellwhy.explainers.shapley.players import Players
from tellwhy.explainers.shapley.reference_errors import ReferenceErrors

_BATCH_BYTES = 64 * 2**20  # of points scored together


@dataclass(frozen=True)
class References:
    """Reference rows of each explained row (n, r, d), or of all (1, r, d), and their weights (r,)."""

    rows: Floats
    weights: Floats

    def of(self, rows: slice) -> Floats:
        """Reference rows of some explained rows, or of all."""
        return self.rows if len(self.rows) == 1 else self.rows[rows]


def equal_weights(rows: Floats) -> References:
    """Reference rows of equal weight."""
    return References(rows, np.full(rows.shape[1], 1.0 / rows.shape[1]))


class Explained(NamedTuple):
    """Explained rows, their scores, and who plays."""

    X: Floats
    full: Floats
    players: Players


class Played(NamedTuple):
    """v(∅) of each row, v(S) of each row and coalition, and the errors of drawn reference rows, if any."""

    empty: Floats
    worth: Floats
    errors: Floats | None


def play(
    scores: RowScores,
    table: Explained,
    references: References,
    coalitions: Coalitions,
    drawn: ReferenceErrors | None = None,
) -> Played:
    """Score every set of columns of every row with every reference row, some rows at a time."""
    n, d = table.X.shape
    inside = coalitions.members[:, table.players.of_column]
    no_errors = None if drawn is None else np.empty((n, table.players.n))
    found = Played(np.empty(n), np.empty((n, len(inside))), no_errors)
    batches = row_batches(n, 16 * references.rows.shape[1] * d * (len(inside) + 1), _BATCH_BYTES)
    for rows in track(batches, len(batches), "explaining with reference rows"):
        own = np.arange(rows.start, rows.stop)
        b = references.of(rows)
        nothing = _scored(scores, np.broadcast_to(b, (len(own), *b.shape[1:])), own)
        found.empty[rows] = nothing @ references.weights
        sums = np.zeros((*nothing.shape, table.players.n))
        for some in row_batches(len(inside), 16 * len(own) * b[0].size, _BATCH_BYTES):
            each = _scored(scores, _mixed(inside[some], table.X[rows], b), own)  # (rows, sets, r)
            found.worth[rows, some] = each @ references.weights
            if drawn is not None:
                sums += drawn.summed(each, some)
        if drawn is not None and found.errors is not None:
            found.errors[rows] = drawn.of_rows(sums, nothing, table.full[rows])
    return found


def _mixed(inside: NDArray[np.bool_], X: Floats, references: Floats) -> Floats:
    """Every set with every reference row, (rows, sets, r, d): absent columns are those of the reference."""
    return np.where(inside[:, None], X[:, None, None], references[:, None])


def _scored(scores: RowScores, points: Floats, own: Integers) -> Floats:
    """Score points (rows, …, d) made from some rows."""
    each = points[0].size // points.shape[-1]
    return scores.value(points.reshape(-1, points.shape[-1]), own.repeat(each)).reshape(points.shape[:-1])
