"""What a coalition of columns is worth: the score that remains when all other columns may become ordinary.

Takeishi and Kawahara, "A characteristic function for Shapley-value-based attribution of anomaly scores", TMLR
(2023).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tellwhy.core.parallel import batch_map, row_batches
from tellwhy.core.progress import track
from tellwhy.core.score_function import Integers
from tellwhy.core.tables import evenly_spread
from tellwhy.counterfactuals.minimise import Minima, problem_bytes
from tellwhy.counterfactuals.row_scores import RowScores
from tellwhy.explainers.shapley.coalitions import Coalitions
from tellwhy.explainers.shapley.players import Players
from tellwhy.optimise.arrays import Array, at_least, counted, filled, namespace, on_host, placed, true_rows

Lowest = Callable[..., Minima]  # of the scores, rows and masks of free columns, as `Neighbourhood.lowest`

_BATCH_BYTES = 64 * 2**20  # of points scored together
_ROWS_BYTES = 16 * 2**20  # of the points of rows that one thread works on
_LOCAL_BYTES = 2 * 2**20  # the same with a minimum per set, which takes long enough to share few rows
N_CHECKED = 8  # sets of each row whose minima are sought to the end
TOLERATED = 0.05  # of the fall, by which relaxed points of these sets may lie above their minima
POLISHING_STEPS = 3  # of descent, where they lie higher
POLISHING_SLACK = 5e-3  # of the fall: a set that has less to gain is left where it is


@dataclass(frozen=True)
class Games:
    """What was found of n rows, each of which is a game of its own."""

    worth: Array  # (n, m) v(S) of the coalitions
    empty: Array  # (n,) v(∅): all columns have become ordinary
    full: Array  # (n,) v(D): the score as it is
    n_unsettled: int  # minima that were not reached
    above: Array | None = None  # (n, 2) shares of the fall: relaxed, then polished points above minima

    @property
    def on_host(self) -> Games:
        """The same with numpy's arrays."""
        above = None if self.above is None else on_host(self.above)
        return Games(on_host(self.worth), on_host(self.empty), on_host(self.full), self.n_unsettled, above)


class Setup(NamedTuple):
    """What all rows share: who plays, which coalitions are tried, and how local minima are found."""

    players: Players
    coalitions: Coalitions
    lowest: Lowest


@dataclass(frozen=True)
class _Ansatz:
    """Points z(S): x inside S, and outside the mean of x̂*(∅) and x̂*({i}), i ∈ S."""

    X: Array
    setup: Setup
    found: Minima  # of no player, then of each alone

    @classmethod
    def of(cls, scores: RowScores, X: Array, setup: Setup) -> _Ansatz:
        players = setup.players
        kept_alone = players.of_column[None, :] != np.arange(players.n)[:, None]
        free = np.concatenate([np.ones((1, X.shape[1]), dtype=bool), kept_alone])
        return cls(X, setup, setup.lowest(scores, X, free))

    @property
    def bottom(self) -> Array:
        """x̂*(∅) of each row."""
        return self.found.points[:, 0]

    def of_rows(self, rows: Array) -> _Ansatz:
        """Return that of some rows."""
        return _Ansatz(self.X[rows], self.setup, Minima(self.found.points[rows], self.found.converged[rows]))

    def some_points(self, sets: Integers) -> tuple[Array, Array]:
        """Columns inside a few sets, and z of each row and set."""
        members = self.setup.coalitions.members[sets]
        inside = placed(self.X, members[:, self.setup.players.of_column])
        shares = placed(self.X, members / (1.0 + members.sum(axis=1, keepdims=True)))
        shifts = self.found.points[:, 1:] - self.bottom[:, None]
        shifted = self.bottom[:, None] + namespace(self.X).matmul(shares, shifts)
        return inside, namespace(self.X).where(inside, self.X[:, None], shifted)

    def points(self, room: int) -> Iterator[tuple[slice, Array, Array]]:
        """Some sets at a time: their places, which columns are inside, and z of each row and set."""
        X = self.X
        # The mean of x̂*(∅) and s minima is x̂*(∅) plus the sum of their shifts from it over s + 1. The sum
        # of a complement is that of everyone less that of the set: one matrix product serves both.
        shifts = self.found.points[:, 1:] - self.bottom[:, None]  # (n, p, d)
        everyones = shifts.sum(axis=1, keepdims=True)
        members = placed(X, self.setup.coalitions.members)
        of_column = placed(X, self.setup.players.of_column)
        one = filled(X, (1,), 1.0)  # turns masks into numbers of the same kind as X
        n_pairs = len(members) // 2
        for some in row_batches(n_pairs, 8 * X.shape[0] * X.shape[1] * 6, room):
            sums = namespace(X).matmul(one * members[some], shifts)  # (n, some, d)
            rest = slice(some.start + n_pairs, some.stop + n_pairs)
            for part, moved in ((some, sums), (rest, everyones - sums)):
                inside = members[part][:, of_column]
                sizes = members[part].sum(1)
                shifted = self.bottom[:, None] + moved / (1.0 + sizes)[:, None]
                yield part, inside, namespace(X).where(inside, X[:, None], shifted)


def relaxed_games(scores: RowScores, X: Array, setup: Setup) -> Games:
    """v(S) = e(z): z = x inside S, and outside the mean of x̂*(∅) and x̂*({i}), i ∈ S (equations 4 and 5)."""
    ansatz = _Ansatz.of(scores, X, setup)
    return _games(scores, X, ansatz, _relaxed_worth(scores, ansatz))


def polished_games(scores: RowScores, X: Array, setup: Setup) -> Games:
    """v(S) = e(z), where that is next to the minima of a few sets; else e a few steps of descent below z."""
    ansatz = _Ansatz.of(scores, X, setup)
    worth = _relaxed_worth(scores, ansatz)
    games = _games(scores, X, ansatz, worth)
    n_sets = worth.shape[1]
    if not n_sets:  # one player
        return games
    checked = evenly_spread(n_sets, N_CHECKED)
    inside, z = ansatz.some_points(checked)
    lowest = _scored(scores, setup.lowest(scores, X, on_host(~inside), start=z).points)
    falls = at_least(games.full - games.empty, np.finfo(float).tiny)
    before = (worth[:, checked] - lowest).mean(1) / falls
    rows = true_rows(before > TOLERATED)
    if len(rows):
        worth[rows] = _polished_worth(scores.of_rows(rows), ansatz.of_rows(rows))
    after = (worth[:, checked] - lowest).mean(1) / falls
    return replace(games, above=namespace(X).stack((before, after), 1))


def _relaxed_worth(scores: RowScores, ansatz: _Ansatz) -> Array:
    X = ansatz.X
    worth = filled(X, (len(X), len(ansatz.setup.coalitions.members)), 0.0)
    for part, _, z in ansatz.points(_room(X, scores, _BATCH_BYTES)):
        worth[:, part] = _scored(scores, z)
    return worth


def _polished_worth(scores: RowScores, ansatz: _Ansatz) -> Array:
    X = ansatz.X
    worth = filled(X, (len(X), len(ansatz.setup.coalitions.members)), 0.0)
    for part, inside, z in ansatz.points(_room(X, scores, _BATCH_BYTES)):
        found = ansatz.setup.lowest(
            scores, X, on_host(~inside), start=z, max_iterations=POLISHING_STEPS, slack=POLISHING_SLACK
        )
        worth[:, part] = _scored(scores, found.points)
    return worth


def _games(scores: RowScores, X: Array, ansatz: _Ansatz, worth: Array) -> Games:
    rows = counted(X, len(X))
    n_unsettled = int((~ansatz.found.converged).sum())
    return Games(worth, scores.value(ansatz.bottom, rows), scores.value(X, rows), n_unsettled)


def local_games(scores: RowScores, X: Array, setup: Setup) -> Games:
    """v(S) = e(x̂*(S)): one minimum per coalition (equations 2 and 3)."""
    everything = np.ones((1, X.shape[1]), dtype=bool)
    outside = ~setup.coalitions.members[:, setup.players.of_column]
    found = setup.lowest(scores, X, np.concatenate([everything, outside]))
    worth = _scored(scores, found.points)
    full = scores.value(X, counted(X, len(X)))
    return Games(worth[:, 1:], worth[:, 0], full, int((~found.converged).sum()))


GAMES = {"relaxed": relaxed_games, "polished": polished_games, "local": local_games, "ball": local_games}


def play(scores: RowScores, X: Array, setup: Setup, characteristic: str) -> Games:
    """Play the games of all rows, some rows at a time: on the device that X is on, or else in threads."""
    is_relaxed = characteristic == "relaxed"
    points_per_row = setup.players.n + 1 if is_relaxed else len(setup.coalitions.members) + 1

    def some(rows: slice) -> Games:
        return GAMES[characteristic](scores.of_rows(rows), X[rows], setup).on_host

    label = "sharing scores among columns"
    d = X.shape[1]
    if isinstance(X, np.ndarray):
        limit = _LOCAL_BYTES if GAMES[characteristic] is local_games else _ROWS_BYTES
        parts = batch_map(some, row_batches(len(X), 24 * d * points_per_row, limit), label)
    else:
        batches = row_batches(len(X), problem_bytes(d) * points_per_row, _room(X, scores, _ROWS_BYTES))
        parts = [some(rows) for rows in track(batches, len(batches), label)]
    return Games(
        np.concatenate([part.worth for part in parts]),
        np.concatenate([part.empty for part in parts]),
        np.concatenate([part.full for part in parts]),
        sum(part.n_unsettled for part in parts),
        np.concatenate([part.above for part in parts]) if parts[0].above is not None else None,
    )


def _scored(scores: RowScores, points: Array) -> Array:
    """Score points (n, k, d) made from n rows."""
    n, k = points.shape[:2]
    flat = points.reshape(n * k, -1)
    return scores.value(flat, counted(points, n * k) // k).reshape(n, k)


def _room(X: Array, scores: RowScores, on_host: int) -> int:
    """Bytes that a batch may take where X is."""
    return on_host if isinstance(X, np.ndarray) else scores.space.room(on_host)
