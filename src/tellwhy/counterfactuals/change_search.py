"""Changing a row block by block until its score is low enough, then taking back what was not needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tellwhy.core.parallel import row_batches
from tellwhy.core.score_function import Floats, Integers
from tellwhy.counterfactuals.choices import Choices, Mask
from tellwhy.counterfactuals.row_scores import RowScores
from tellwhy.optimise.parabolas import Bracket

SHORTLIST = 64
MOST_CHANGES = 12
_BATCH_BYTES = 64 * 2**20
_BISECTIONS = 24  # 2⁻²⁴ of the way: less than the digits that anybody is shown
_PARABOLAS = 4


class _Lowest(NamedTuple):
    """The trial of each row that scores lowest, its score, and the scores of all trials of the row."""

    points: Floats  # (n, d)
    values: Floats  # (n,)
    all_values: Floats  # (n, trials)


@dataclass(frozen=True)
class ChangeSearch:
    """The search for all rows of X; every point that it keeps was scored.

    Methods take points Y and, as `rows`, the number of the row in X that each point was made from. A block is
    one column, or several that change together (see `Choices`).

    Attributes
    ----------
    scores
        Score of points that were made from rows of X.
    level
        Score that counts as normal, at most.
    power
        1 or 2: the distance of a change is the sum of |y − x|/s over the blocks, or of its squares.
    """

    scores: RowScores
    X: Floats
    choices: Choices
    level: float
    power: float

    def run(self, rows: Integers, normal: Floats, ranking: Floats | None) -> Floats:
        """Return a normal version of some odd rows; NaN where there is none.

        `normal` are ordinary rows to fall back on; `ranking` tells which blocks to look at first.
        """
        Y = self._add_changes(rows, self._shortlist(rows, ranking))
        lost = np.flatnonzero(self.scores.value(Y, rows) > self.level)
        if len(lost) and len(normal):
            Y[lost] = _nearest(self.X[rows[lost]], normal, self.choices.scales)
        Y = self._shrink(self._take_back(Y, rows), rows)
        Y[self.scores.value(Y, rows) > self.level] = np.nan
        return Y

    def _shortlist(self, rows: Integers, ranking: Floats | None) -> Mask:
        """Tell which blocks to look at: all of few, else the 64 ranked highest.

        Without a ranking, those come first whose usual value lowers the score most.
        """
        n_blocks = self.choices.n_blocks
        if n_blocks <= SHORTLIST:
            return np.ones((len(rows), n_blocks), dtype=bool)
        if ranking is None:
            ranking = self._fall_by_usual_values(rows)
        chosen = np.zeros((len(rows), n_blocks), dtype=bool)
        highest = np.argsort(-np.asarray(ranking), axis=1, kind="stable")[:, :SHORTLIST]
        np.put_along_axis(chosen, highest, True, axis=1)
        return chosen

    def _fall_by_usual_values(self, rows: Integers) -> Floats:
        """Minus the score of each row with one block set to its usual value, shape (n, blocks)."""
        usual = self.choices.usual_row()
        Y = self.X[rows]
        scores = [
            self.scores.value(np.where(self.choices.block == b, usual, Y), rows)
            for b in range(self.choices.n_blocks)
        ]
        return -np.stack(scores, axis=1)

    def _add_changes(self, rows: Integers, eligible: Mask) -> Floats:
        """Change one block after the other until the score is low enough."""
        Y = self.X[rows]
        todo = np.arange(len(rows))
        taken = np.zeros(eligible.shape, dtype=bool)
        for n_changed in range(1, min(MOST_CHANGES, int(eligible[0].sum())) + 1):
            Y[todo], blocks = self._best_change(Y[todo], rows[todo], eligible[todo] & ~taken[todo])
            taken[todo, blocks] = True
            if n_changed > 1:
                Y[todo] = self._adjust(Y[todo], rows[todo], taken[todo])
            todo = todo[self.scores.value(Y[todo], rows[todo]) > self.level]
            if not len(todo):
                break
        return Y

    def _best_change(self, Y: Floats, rows: Integers, eligible: Mask) -> tuple[Floats, Integers]:
        """Change one block of each row, and return the rows and the blocks.

        Where one change suffices, the smallest one is taken; else the one that lowers the score most.
        """
        i, block = np.nonzero(eligible)
        best, found = self._lowest_in(Y[i], rows[i], block)
        lowest = np.full(eligible.shape, np.inf)
        lowest[i, block] = found
        # `values` holds the best value of every block at once; each row then takes one block of it.
        values = Y.copy()
        mine = self.choices.block == block[:, None]
        at, column = np.nonzero(mine)
        values[i[at], column] = best[mine]
        i, able = np.nonzero(lowest <= self.level)
        ends = self._shrink(self._with_blocks(Y[i], values[i], able), rows[i])
        distance = np.full(eligible.shape, np.inf)
        distance[i, able] = self._distance(ends, rows[i])
        suffices = np.isfinite(distance).any(axis=1)
        chosen = np.where(suffices, distance.argmin(axis=1), lowest.argmin(axis=1))
        return self._with_blocks(Y, values, chosen), chosen

    def _with_blocks(self, Y: Floats, values: Floats, blocks: Integers) -> Floats:
        """Return the rows with one block each taken from other rows."""
        return np.where(self.choices.block == blocks[:, None], values, Y)

    def _distance(self, Y: Floats, rows: Integers) -> Floats:
        return np.asarray((self.choices.block_distances(self.X[rows], Y) ** self.power).sum(axis=1))

    def _adjust(self, Y: Floats, rows: Integers, taken: Mask) -> Floats:
        """Choose the changed blocks anew, in turn, now that others have changed as well."""
        # All rows still in the search have changed equally many blocks, so that these form a table.
        order = np.argsort(~taken, axis=1, kind="stable")[:, : int(taken[0].sum())]
        for blocks in [*order.T, *order.T]:
            Y = self._lowest_in(Y, rows, blocks)[0]
        return Y

    def _lowest_in(self, Y: Floats, rows: Integers, blocks: Integers) -> tuple[Floats, Floats]:
        """Set one block of each row to the value that scores lowest; return the rows and their scores."""
        best = Y.copy()
        lowest = np.empty(len(Y))
        columns = self.choices.number_column[blocks]
        numbers = np.flatnonzero(columns >= 0)
        for some in row_batches(len(numbers), 16 * Y.shape[1] * self.choices.grid.shape[1], _BATCH_BYTES):
            mine = numbers[some]
            best[mine], lowest[mine] = self._lowest_numbers(Y[mine], rows[mine], columns[mine])
        for block in np.unique(blocks[columns < 0]):
            mine = np.flatnonzero(blocks == block)
            found = self._lowest_candidates(Y[mine], rows[mine], int(block))
            best[mine] = found.points
            lowest[mine] = found.values
        return best, lowest

    def _lowest_candidates(self, Y: Floats, rows: Integers, block: int) -> _Lowest:
        """Try every value that a block may take."""
        candidates = self.choices.candidates[block]
        trials = np.repeat(Y[:, None], len(candidates), axis=1)
        trials[:, :, self.choices.block == block] = candidates
        return self._lowest_of(trials, rows)

    def _lowest_of(self, trials: Floats, rows: Integers) -> _Lowest:
        """Score trials of shape (rows, trials, columns)."""
        shape = trials.shape[:2]
        flat = trials.reshape(-1, trials.shape[2])
        scores = self.scores.value(flat, np.repeat(rows, shape[1])).reshape(shape)
        everyone = np.arange(shape[0])
        at = scores.argmin(axis=1)
        return _Lowest(trials[everyone, at], scores[everyone, at], scores)

    def _lowest_numbers(self, Y: Floats, rows: Integers, columns: Integers) -> tuple[Floats, Floats]:
        """Try a grid of numbers, then the lowest points of parabolas around the lowest of them."""
        everyone = np.arange(len(Y))
        grid = self.choices.grid[columns]
        trials = np.repeat(Y[:, None], grid.shape[1], axis=1)
        trials[everyone, :, columns] = grid
        found = self._lowest_of(trials, rows)
        best = found.points
        lowest = found.values
        bracket = Bracket.around_lowest(grid, found.all_values)
        for _ in range(_PARABOLAS):
            trial = best.copy()
            trial[everyone, columns] = self.choices.allowed(bracket.vertex(), columns)
            value = self.scores.value(trial, rows)
            better = value < lowest
            best[better] = trial[better]
            lowest[better] = value[better]
            bracket = bracket.narrower(trial[everyone, columns], value)
        return best, lowest

    def _take_back(self, Y: Floats, rows: Integers) -> Floats:
        """Undo the changes that are not needed.

        Each time, half of the changes that could each be undone alone are undone together; where that is too
        much, only the one that costs least.
        """
        Y = Y.copy()
        X = self.X[rows]
        todo = np.arange(len(rows))
        while len(todo):
            distances = self.choices.block_distances(X[todo], Y[todo])
            distances[(distances > 0).sum(axis=1) < 2] = 0.0  # the last change is needed
            if not distances.any():
                break
            without = self._scores_without(Y[todo], rows[todo], distances > 0)
            can = without <= self.level
            half = np.maximum(can.sum(axis=1) // 2, 1)[:, None]
            rank = np.argsort(np.argsort(without, axis=1, kind="stable"), axis=1, kind="stable")
            many = np.where((can & (rank < half))[:, self.choices.block], X[todo], Y[todo])
            one = np.where((can & (rank < 1))[:, self.choices.block], X[todo], Y[todo])
            together = self.scores.value(many, rows[todo]) <= self.level
            Y[todo] = np.where(together[:, None], many, one)
            todo = todo[can.any(axis=1)]
        return Y

    def _scores_without(self, Y: Floats, rows: Integers, changed: Mask) -> Floats:
        """Score of each point with one changed block put back, (n, blocks); infinite for other blocks."""
        i, block = np.nonzero(changed)
        without = np.full(changed.shape, np.inf)
        back = self._with_blocks(Y[i], self.X[rows[i]], block)
        without[i, block] = self.scores.value(back, rows[i])
        return without

    def _shrink(self, Y: Floats, rows: Integers) -> Floats:
        """Move changed numbers back towards the row while that stays normal: all together, then each."""
        numbers = self.choices.is_number
        Y = self._bisect(Y, rows, np.broadcast_to(numbers, Y.shape))
        moved = (self.X[rows] != Y) & numbers
        if moved.sum(axis=1).max(initial=0) < 2:
            return Y
        order = np.argsort(~moved, axis=1, kind="stable")
        for j in range(int(moved.sum(axis=1).max())):
            alone = np.zeros(Y.shape, dtype=bool)
            alone[np.arange(len(Y)), order[:, j]] = True
            Y = self._bisect(Y, rows, alone & moved)
        return Y

    def _bisect(self, Y: Floats, rows: Integers, columns: Mask) -> Floats:
        """Return the last point on the way from y to x, in some columns, whose score is low enough."""
        X = self.X[rows]
        best = Y.copy()
        todo = np.flatnonzero((columns & (X != Y)).any(axis=1))
        low = np.zeros(len(Y))
        high = np.ones(len(Y))
        for _ in range(_BISECTIONS if len(todo) else 0):
            share = (low[todo] + high[todo]) / 2.0
            way = self.choices.allowed(Y[todo] + share[:, None] * (X[todo] - Y[todo]), slice(None))
            trial = np.where(columns[todo] & (X[todo] != Y[todo]), way, Y[todo])
            good = self.scores.value(trial, rows[todo]) <= self.level
            best[todo[good]] = trial[good]
            low[todo[good]] = share[good]
            high[todo[~good]] = share[~good]
        return best


def _nearest(X: Floats, normal: Floats, scales: Floats) -> Floats:
    """Return the normal row nearest to each row."""
    Z = X / scales
    V = normal / scales
    squares = (V * V).sum(axis=1) - 2.0 * Z @ V.T  # ‖z − v‖² without ‖z‖², which is the same for all v
    return np.asarray(normal[squares.argmin(axis=1)])
