"""What a coalition of columns is worth: the score that remains when all other columns may become ordinary.

Takeishi and Kawahara, "A characteristic function for Shapley-value-based attribution of anomaly scores", TMLR
(2023).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tellwhy.core.parallel import batch_map, row_batches
from tellwhy.core.progress import track
from tellwhy.counterfactuals.minimise import Minima, problem_bytes
from tellwhy.counterfactuals.row_scores import RowScores
from tellwhy.counterfactuals.surroundings import Mask
from tellwhy.explainers.shapley.coalitions import Coalitions
from tellwhy.explainers.shapley.players import Players
from tellwhy.optimise.arrays import Array, counted, filled, namespace, on_host, placed

Lowest = Callable[[RowScores, Array, Mask], Minima]

_BATCH_BYTES = 64 * 2**20  # of points scored together
_ROWS_BYTES = 16 * 2**20  # of the points of rows that one thread works on


@dataclass(frozen=True)
class Games:
    """What was found of n rows, each of which is a game of its own."""

    worth: Array  # (n, m) v(S) of the coalitions
    empty: Array  # (n,) v(∅): all columns have become ordinary
    full: Array  # (n,) v(D): the score as it is
    n_unsettled: int  # minima that were not reached

    @property
    def on_host(self) -> Games:
        """The same with numpy's arrays."""
        return Games(on_host(self.worth), on_host(self.empty), on_host(self.full), self.n_unsettled)


class Setup(NamedTuple):
    """What all rows share: who plays, which coalitions are tried, and how local minima are found."""

    players: Players
    coalitions: Coalitions
    lowest: Lowest


def relaxed_games(scores: RowScores, X: Array, setup: Setup) -> Games:
    """v(S) = e(z): z = x inside S, and outside the mean of x̂*(∅) and x̂*({i}), i ∈ S (equations 4 and 5)."""
    n, d = X.shape
    players = setup.players
    kept_alone = players.of_column[None, :] != np.arange(players.n)[:, None]
    found = setup.lowest(scores, X, np.concatenate([np.ones((1, d), dtype=bool), kept_alone]))
    bottom = found.points[:, 0]  # x̂*(∅)
    # The mean of x̂*(∅) and s minima is x̂*(∅) plus the sum of their shifts from it over s + 1. The sum of a
    # complement is that of everyone less that of the set: one matrix product serves both.
    shifts = found.points[:, 1:] - bottom[:, None]  # (n, p, d)
    everyones = shifts.sum(axis=1, keepdims=True)
    members = placed(X, setup.coalitions.members)
    of_column = placed(X, players.of_column)
    worth = filled(X, (n, len(members)), 0.0)
    one = filled(X, (1,), 1.0)  # turns masks into numbers of the same kind as X
    n_pairs = len(members) // 2
    for some in row_batches(n_pairs, 8 * n * d * 6, _room(X, scores, _BATCH_BYTES)):
        sums = namespace(X).matmul(one * members[some], shifts)  # (n, some, d)
        rest = slice(some.start + n_pairs, some.stop + n_pairs)
        for part, moved in ((some, sums), (rest, everyones - sums)):
            inside = members[part][:, of_column]
            sizes = members[part].sum(1)
            z = namespace(X).where(inside, X[:, None], bottom[:, None] + moved / (1.0 + sizes)[:, None])
            worth[:, part] = _scored(scores, z)
    rows = counted(X, n)
    return Games(worth, scores.value(bottom, rows), scores.value(X, rows), int((~found.converged).sum()))


def local_games(scores: RowScores, X: Array, setup: Setup) -> Games:
    """v(S) = e(x̂*(S)): one minimum per coalition (equations 2 and 3)."""
    everything = np.ones((1, X.shape[1]), dtype=bool)
    outside = ~setup.coalitions.members[:, setup.players.of_column]
    found = setup.lowest(scores, X, np.concatenate([everything, outside]))
    worth = _scored(scores, found.points)
    full = scores.value(X, counted(X, len(X)))
    return Games(worth[:, 1:], worth[:, 0], full, int((~found.converged).sum()))


def play(scores: RowScores, X: Array, setup: Setup, *, is_relaxed: bool) -> Games:
    """Play the games of all rows, some rows at a time: on the device that X is on, or else in threads."""
    points_per_row = setup.players.n + 1 if is_relaxed else len(setup.coalitions.members) + 1
    games = relaxed_games if is_relaxed else local_games

    def some(rows: slice) -> Games:
        return games(scores.of_rows(rows), X[rows], setup).on_host

    label = "sharing scores among columns"
    d = X.shape[1]
    if isinstance(X, np.ndarray):
        parts = batch_map(some, row_batches(len(X), 24 * d * points_per_row, _ROWS_BYTES), label)
    else:
        batches = row_batches(len(X), problem_bytes(d) * points_per_row, _room(X, scores, _ROWS_BYTES))
        parts = [some(rows) for rows in track(batches, len(batches), label)]
    return Games(
        np.concatenate([part.worth for part in parts]),
        np.concatenate([part.empty for part in parts]),
        np.concatenate([part.full for part in parts]),
        sum(part.n_unsettled for part in parts),
    )


def _scored(scores: RowScores, points: Array) -> Array:
    """Score points (n, k, d) made from n rows."""
    n, k = points.shape[:2]
    flat = points.reshape(n * k, -1)
    return scores.value(flat, counted(points, n * k) // k).reshape(n, k)


def _room(X: Array, scores: RowScores, on_host: int) -> int:
    """Bytes that a batch may take where X is."""
    return on_host if isinstance(X, np.ndarray) else scores.space.room(on_host)
