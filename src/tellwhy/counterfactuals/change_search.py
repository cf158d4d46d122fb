"""Changing a row block by block until its score is low enough, then as little as possible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tellwhy.core.parallel import row_batches
from tellwhy.core.score_function import Floats, Integers
from tellwhy.counterfactuals.choices import Choices, Mask
from tellwhy.counterfactuals.row_scores import RowScores

SHORTLIST = 64
MOST_CHANGES = 12
_BATCH_BYTES = 64 * 2**20
_BISECTIONS = 24
_PARABOLAS = 4


@dataclass(frozen=True)
class ChangeSearch:
    """The search for all rows of X; every point that it keeps was scored."""

    scores: RowScores
    X: Floats
    choices: Choices
    level: float
    power: float

    def run(self, rows: Integers, normal: Floats, ranking: Floats | None) -> Floats:
        """Return a normal version of some odd rows; NaN where there is none."""
        Y = self._add_changes(rows, self._shortlist(rows, ranking))
        lost = np.flatnonzero(self.scores.value(Y, rows) > self.level)
        if len(lost) and len(normal):
            Y[lost] = _nearest(self.X[rows[lost]], normal, self.choices.scales)
        Y = self._shrink(self._take_back(Y, rows), rows)
        Y[self.scores.value(Y, rows) > self.level] = np.nan
        return Y

    def _shortlist(self, rows: Integers, ranking: Floats | None) -> Mask:
        """Tell which blocks to look at: all, or those ranked highest, or whose usual value lowers the score most."""
        n_blocks = self.choices.n_blocks
        if n_blocks <= SHORTLIST:
            return np.ones((len(rows), n_blocks), dtype=bool)
        if ranking is None:
            usual = self.choices.usual_row()
            Y, everyone = self.X[rows], np.arange(n_blocks)
            ranking = np.stack(
                [-self.scores.value(np.where(self.choices.block == b, usual, Y), rows) for b in everyone],
                axis=1,
            )
        chosen = np.zeros((len(rows), n_blocks), dtype=bool)
        highest = np.argsort(-np.asarray(ranking), axis=1, kind="stable")[:, :SHORTLIST]
        np.put_along_axis(chosen, highest, True, axis=1)
        return chosen

    def _add_changes(self, rows: Integers, eligible: Mask) -> Floats:
        """Change one block after the other until the score is low enough."""
        Y, todo, taken = self.X[rows], np.arange(len(rows)), np.zeros(eligible.shape, dtype=bool)
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
        """Change one block of each row: the least change that suffices, or else the one that lowers the score most."""
        i, block = np.nonzero(eligible)
        values, lowest = Y.copy(), np.full(eligible.shape, np.inf)
        best, lowest[i, block] = self._lowest_in(Y[i], rows[i], block)
        mine = self.choices.block == block[:, None]
        values[i[np.nonzero(mine)[0]], np.nonzero(mine)[1]] = best[mine]
        i, able = np.nonzero(lowest <= self.level)
        ends = self._shrink(self._with_blocks(Y[i], values[i], able), rows[i])
        distance = np.full(eligible.shape, np.inf)
        distance[i, able] = self._distance(ends, rows[i])
        chosen = np.where(np.isfinite(distance).any(axis=1), distance.argmin(axis=1), lowest.argmin(axis=1))
        return self._with_blocks(Y, values, chosen), chosen

    def _with_blocks(self, Y: Floats, values: Floats, blocks: Integers) -> Floats:
        """Return the rows with one block each taken from other rows."""
        return np.where(self.choices.block == blocks[:, None], values, Y)

    def _distance(self, Y: Floats, rows: Integers) -> Floats:
        return np.asarray((self.choices.block_distances(self.X[rows], Y) ** self.power).sum(axis=1))

    def _adjust(self, Y: Floats, rows: Integers, taken: Mask) -> Floats:
        """Choose the changed blocks anew, in turn, now that others have changed as well."""
        order = np.argsort(~taken, axis=1, kind="stable")[:, : int(taken[0].sum())]
        for blocks in [*order.T, *order.T]:
            Y = self._lowest_in(Y, rows, blocks)[0]
        return Y

    def _lowest_in(self, Y: Floats, rows: Integers, blocks: Integers) -> tuple[Floats, Floats]:
        """Set one block of each row to the value that scores lowest; return the rows and their scores."""
        best, lowest = Y.copy(), np.empty(len(Y))
        columns = self.choices.number_column[blocks]
        numbers = np.flatnonzero(columns >= 0)
        for some in row_batches(len(numbers), 16 * Y.shape[1] * self.choices.grid.shape[1], _BATCH_BYTES):
            mine = numbers[some]
            best[mine], lowest[mine] = self._lowest_numbers(Y[mine], rows[mine], columns[mine])
        for block in np.unique(blocks[columns < 0]):
            mine = np.flatnonzero(blocks == block)
            best[mine], lowest[mine] = self._lowest_candidates(Y[mine], rows[mine], int(block))
        return best, lowest

    def _lowest_candidates(self, Y: Floats, rows: Integers, block: int) -> tuple[Floats, Floats]:
        candidates = self.choices.candidates[block]
        trials = np.repeat(Y[:, None], len(candidates), axis=1)
        trials[:, :, self.choices.block == block] = candidates
        return self._lowest_of(trials, rows)[:2]

    def _lowest_of(self, trials: Floats, rows: Integers) -> tuple[Floats, Floats, Floats]:
        """Return the trial that scores lowest for each row, its score, and all scores."""
        n, k, d = trials.shape
        scores = self.scores.value(trials.reshape(-1, d), np.repeat(rows, k)).reshape(n, k)
        at = scores.argmin(axis=1)
        return trials[np.arange(n), at], scores[np.arange(n), at], scores

    def _lowest_numbers(self, Y: Floats, rows: Integers, columns: Integers) -> tuple[Floats, Floats]:
        """Try a grid, then the lowest points of parabolas through the lowest of it and its neighbours."""
        n, grid = np.arange(len(Y)), self.choices.grid[columns]
        trials = np.repeat(Y[:, None], grid.shape[1], axis=1)
        trials[n, :, columns] = grid
        best, lowest, scores = self._lowest_of(trials, rows)
        around = np.clip(scores.argmin(axis=1), 1, grid.shape[1] - 2)[:, None] + np.array([-1, 0, 1])
        places, heights = np.take_along_axis(grid, around, axis=1), np.take_along_axis(scores, around, axis=1)
        for _ in range(_PARABOLAS):
            trial = best.copy()
            trial[n, columns] = self.choices.allowed(_vertex(places, heights), columns)
            value = self.scores.value(trial, rows)
            better = value < lowest
            best[better], lowest[better] = trial[better], value[better]
            places, heights = _narrower(places, heights, trial[n, columns], value)
        return best, lowest

    def _take_back(self, Y: Floats, rows: Integers) -> Floats:
        """Undo the changes that are not needed: half of those that could each be undone alone, or else the best one."""
        Y, X, todo = Y.copy(), self.X[rows], np.arange(len(rows))
        while len(todo):
            distances = self.choices.block_distances(X[todo], Y[todo])
            distances[(distances > 0).sum(axis=1) < 2] = 0.0
            i, block = np.nonzero(distances)
            if not len(i):
                break
            without = np.full(distances.shape, np.inf)
            without[i, block] = self.scores.value(
                self._with_blocks(Y[todo[i]], X[todo[i]], block), rows[todo[i]]
            )
            can = without <= self.level
            half = np.maximum(can.sum(axis=1) // 2, 1)[:, None]
            rank = np.argsort(np.argsort(without, axis=1, kind="stable"), axis=1, kind="stable")
            many, one = (
                np.where((can & (rank < k))[:, self.choices.block], X[todo], Y[todo]) for k in (half, 1)
            )
            together = self.scores.value(many, rows[todo]) <= self.level
            Y[todo] = np.where(together[:, None], many, one)
            todo = todo[can.any(axis=1)]
        return Y

    def _shrink(self, Y: Floats, rows: Integers) -> Floats:
        """Move changed numbers back towards the row as far as the score stays low enough: all together, then each."""
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
        """Return the last point on the way from y to x, in some columns, before the score rises above the level."""
        X, best = self.X[rows], Y.copy()
        todo = np.flatnonzero((columns & (X != Y)).any(axis=1))
        low, high = np.zeros(len(Y)), np.ones(len(Y))
        for _ in range(_BISECTIONS if len(todo) else 0):
            share = (low[todo] + high[todo]) / 2.0
            way = self.choices.allowed(Y[todo] + share[:, None] * (X[todo] - Y[todo]), slice(None))
            trial = np.where(columns[todo] & (X[todo] != Y[todo]), way, Y[todo])
            good = self.scores.value(trial, rows[todo]) <= self.level
            best[todo[good]] = trial[good]
            low[todo[good]], high[todo[~good]] = share[good], share[~good]
        return best


def _nearest(X: Floats, normal: Floats, scales: Floats) -> Floats:
    """Return the normal row nearest to each row."""
    Z, V = X / scales, normal / scales
    squares = (V * V).sum(axis=1) - 2.0 * Z @ V.T
    return np.asarray(normal[squares.argmin(axis=1)])


def _vertex(places: Floats, heights: Floats) -> Floats:
    """Lowest point of the parabola through three points; half-way into the wider side where there is none inside."""
    (a, b, c), (fa, fb, fc) = places.T, heights.T
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        top = (b - a) ** 2 * (fb - fc) - (b - c) ** 2 * (fb - fa)
        vertex = b - 0.5 * top / ((b - a) * (fb - fc) - (b - c) * (fb - fa))
    inside = np.isfinite(vertex) & (vertex > a) & (vertex < c) & (vertex != b)
    wider = np.where(c - b > b - a, 0.5 * (b + c), 0.5 * (a + b))
    return np.where(inside, vertex, wider)


def _narrower(places: Floats, heights: Floats, at: Floats, value: Floats) -> tuple[Floats, Floats]:
    """Three of the four points around the lowest of them, in order."""
    places, heights = np.column_stack([places, at]), np.column_stack([heights, value])
    order = np.argsort(places, axis=1, kind="stable")
    places, heights = np.take_along_axis(places, order, axis=1), np.take_along_axis(heights, order, axis=1)
    middle = np.clip(heights.argmin(axis=1), 1, 2)[:, None] + np.array([-1, 0, 1])
    return np.take_along_axis(places, middle, axis=1), np.take_along_axis(heights, middle, axis=1)
