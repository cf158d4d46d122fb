"""The nearest row that looks normal: few cells changed, by little, to values that occur.

A row is changed block by block until its score is low enough; then what was not needed is taken back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.arrays import as_floats
from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import one_of, validate_value
from tellwhy.core.progress import track
from tellwhy.core.running import cut_batches
from tellwhy.core.score import Floats, Integers, ScoreFunction
from tellwhy.counterfactuals.choices import (
    Choices,
    Mask,
    find_choices,
    find_one_hot_blocks,
    read_column_numbers,
    read_mask,
)
from tellwhy.counterfactuals.row_scores import RowScores
from tellwhy.optimise.pattern_search import Bracket
from tellwhy.scoring.moved_columns import find_column_units
from tellwhy.scoring.reference_rows import find_whole_columns

SHORTLIST = 64
MOST_CHANGES = 12
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
        Y = self._add_changes(rows, self._choose_blocks(rows, ranking))
        lost = np.flatnonzero(self.scores.value(Y, rows) > self.level)
        if len(lost) and len(normal):
            Y[lost] = _nearest(self.X[rows[lost]], normal, self.choices.scales)
        Y = self._shrink(self._take_back(Y, rows), rows)
        Y[self.scores.value(Y, rows) > self.level] = np.nan
        return Y

    def _choose_blocks(self, rows: Integers, ranking: Floats | None) -> Mask:
        """Tell which blocks to look at: all of few, else the 64 ranked highest.

        Without a ranking, those come first whose usual value lowers the score most.
        """
        n_blocks = self.choices.n_blocks
        if n_blocks <= SHORTLIST:
            return np.ones((len(rows), n_blocks), dtype=bool)
        if ranking is None:
            ranking = self._measure_fall_by_usual_values(rows)
        chosen = np.zeros((len(rows), n_blocks), dtype=bool)
        highest = np.argsort(-np.asarray(ranking), axis=1, kind="stable")[:, :SHORTLIST]
        np.put_along_axis(chosen, highest, True, axis=1)
        return chosen

    def _measure_fall_by_usual_values(self, rows: Integers) -> Floats:
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
            Y[todo], blocks = self._make_best_change(Y[todo], rows[todo], eligible[todo] & ~taken[todo])
            taken[todo, blocks] = True
            if n_changed > 1:
                Y[todo] = self._adjust(Y[todo], rows[todo], taken[todo])
            todo = todo[self.scores.value(Y[todo], rows[todo]) > self.level]
            if not len(todo):
                break
        return Y

    def _make_best_change(self, Y: Floats, rows: Integers, eligible: Mask) -> tuple[Floats, Integers]:
        """Change one block of each row, and return the rows and the blocks.

        Where one change suffices, the smallest one is taken; else the one that lowers the score most.
        """
        i, block = np.nonzero(eligible)
        best, found = self._find_lowest_in(Y[i], rows[i], block)
        lowest = np.full(eligible.shape, np.inf)
        lowest[i, block] = found
        # `values` holds the best value of every block at once; each row then takes one block of it.
        values = Y.copy()
        mine = self.choices.block == block[:, None]
        at, column = np.nonzero(mine)
        values[i[at], column] = best[mine]
        i, able = np.nonzero(lowest <= self.level)
        ends = self._shrink(self._replace_blocks(Y[i], values[i], able), rows[i])
        distance = np.full(eligible.shape, np.inf)
        distance[i, able] = self._measure_distance(ends, rows[i])
        suffices = np.isfinite(distance).any(axis=1)
        chosen = np.where(suffices, distance.argmin(axis=1), lowest.argmin(axis=1))
        return self._replace_blocks(Y, values, chosen), chosen

    def _replace_blocks(self, Y: Floats, values: Floats, blocks: Integers) -> Floats:
        """Return the rows with one block each taken from other rows."""
        return np.where(self.choices.block == blocks[:, None], values, Y)

    def _measure_distance(self, Y: Floats, rows: Integers) -> Floats:
        return np.asarray((self.choices.block_distances(self.X[rows], Y) ** self.power).sum(axis=1))

    def _adjust(self, Y: Floats, rows: Integers, taken: Mask) -> Floats:
        """Choose the changed blocks anew, in turn, now that others have changed as well."""
        # All rows still in the search have changed equally many blocks, so that these form a table.
        order = np.argsort(~taken, axis=1, kind="stable")[:, : int(taken[0].sum())]
        for blocks in [*order.T, *order.T]:
            Y = self._find_lowest_in(Y, rows, blocks)[0]
        return Y

    def _find_lowest_in(self, Y: Floats, rows: Integers, blocks: Integers) -> tuple[Floats, Floats]:
        """Set one block of each row to the value that scores lowest; return the rows and their scores."""
        best = Y.copy()
        lowest = np.empty(len(Y))
        columns = self.choices.number_column[blocks]
        numbers = np.flatnonzero(columns >= 0)
        for some in cut_batches(len(numbers), 16 * Y.shape[1] * self.choices.grid.shape[1], _BATCH_BYTES):
            mine = numbers[some]
            best[mine], lowest[mine] = self._find_lowest_numbers(Y[mine], rows[mine], columns[mine])
        for block in np.unique(blocks[columns < 0]):
            mine = np.flatnonzero(blocks == block)
            found = self._find_lowest_candidates(Y[mine], rows[mine], int(block))
            best[mine] = found.points
            lowest[mine] = found.values
        return best, lowest

    def _find_lowest_candidates(self, Y: Floats, rows: Integers, block: int) -> _Lowest:
        """Try every value that a block may take."""
        candidates = self.choices.candidates[block]
        trials = np.repeat(Y[:, None], len(candidates), axis=1)
        trials[:, :, self.choices.block == block] = candidates
        return self._find_lowest_of(trials, rows)

    def _find_lowest_of(self, trials: Floats, rows: Integers) -> _Lowest:
        """Score trials of shape (rows, trials, columns)."""
        shape = trials.shape[:2]
        flat = trials.reshape(-1, trials.shape[2])
        scores = self.scores.value(flat, np.repeat(rows, shape[1])).reshape(shape)
        everyone = np.arange(shape[0])
        at = scores.argmin(axis=1)
        return _Lowest(trials[everyone, at], scores[everyone, at], scores)

    def _find_lowest_numbers(self, Y: Floats, rows: Integers, columns: Integers) -> tuple[Floats, Floats]:
        """Try a grid of numbers, then the lowest points of parabolas around the lowest of them."""
        everyone = np.arange(len(Y))
        grid = self.choices.grid[columns]
        trials = np.repeat(Y[:, None], grid.shape[1], axis=1)
        trials[everyone, :, columns] = grid
        found = self._find_lowest_of(trials, rows)
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
            without = self._score_without(Y[todo], rows[todo], distances > 0)
            can = without <= self.level
            half = np.maximum(can.sum(axis=1) // 2, 1)[:, None]
            rank = np.argsort(np.argsort(without, axis=1, kind="stable"), axis=1, kind="stable")
            many = np.where((can & (rank < half))[:, self.choices.block], X[todo], Y[todo])
            one = np.where((can & (rank < 1))[:, self.choices.block], X[todo], Y[todo])
            together = self.scores.value(many, rows[todo]) <= self.level
            Y[todo] = np.where(together[:, None], many, one)
            todo = todo[can.any(axis=1)]
        return Y

    def _score_without(self, Y: Floats, rows: Integers, changed: Mask) -> Floats:
        """Score of each point with one changed block put back, (n, blocks); infinite for other blocks."""
        i, block = np.nonzero(changed)
        without = np.full(changed.shape, np.inf)
        back = self._replace_blocks(Y[i], self.X[rows[i]], block)
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


_BATCH_BYTES = 64 * 2**20


@dataclass(frozen=True)
class NearestNormal:
    """The nearest normal version of each row.

    Attributes
    ----------
    points
        Rows whose score is at most the threshold; NaN where none was found.
    found
        Which rows have one (a row that is normal already is its own).
    changed
        Mask of the cells that differ from the row.
    threshold
        The score that counts as normal, at most.
    """

    points: Floats
    found: Mask
    changed: Mask
    threshold: float


def nearest_normal(
    score: ScoreFunction,
    X: ArrayLike,
    *,
    reference_rows: ArrayLike,
    threshold: float | None = None,
    scales: ArrayLike | None = None,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    integers: ArrayLike | None = None,
    steps: ArrayLike | None = None,
    owner: ArrayLike | None = None,
    listed: ArrayLike | None = None,
    distance: str = "absolute",
    ranking: ArrayLike | None = None,
    left_out: Integers | None = None,
) -> NearestNormal:
    """Find what would make each row normal: argmin dist(y, x) subject to e(y) ≤ threshold, with few changes.

    Columns are changed one after the other, each time the one that lowers the score most, until it is low
    enough; where one change suffices, the smallest such change is taken. Changes that turn out not to be
    needed are taken back, and the others shrunk until the score is at the threshold. Where that fails, the
    search starts from the nearest normal prototype. Only values of the score are used, so it needs no
    gradient.

    Parameters
    ----------
    score
        A score function (not an `EncodedScore`: pass its `inner` and encoded rows).
    X
        Rows in the score's own columns.
    reference_rows
        Ordinary rows: they give ranges, units, candidates, and a starting point of last resort.
    threshold
        Score that counts as normal, at most: the score's own threshold by default, or else what 95 % of the
        reference rows stay below.
    scales
        Unit of each column; the standard deviation of the reference rows by default.
    low, high
        Range of each column for changed cells; that of the reference rows by default.
    integers
        Mask of the columns that hold whole numbers; those of the reference rows that do by default.
    steps
        Distance between allowed values of each column, counted from the first prototype; 0 where there is
        none. For whole numbers behind an encoding that rescales them.
    owner
        Block that each column belongs to: columns of a block change together, to values that some prototype
        has in all of them. By default, neighbouring columns of 0 and 1 with a single 1 in every prototype
        (one-hot columns) are a block, and every other column is one of its own.
    listed
        Mask of the columns that, like a block, take only values that some prototype has: numbers that stand
        for something else. None by default.
    distance
        "absolute" or "squared": what is kept small, once the number of changed columns is.
    ranking
        Values (n, blocks), or without `owner` (n, columns), for instance attributions: where there are more
        than 64 blocks, only the 64 highest of each row are looked at.
    left_out
        Support point that each row of X leaves out of a kernel model, −1 for none; by default its own, where
        the model was trained on it.

    Examples
    --------
    >>> from tellwhy.scoring import FunctionScore
    >>> bowl = FunctionScore(lambda X: (X**2).sum(axis=1), threshold=4.0)
    >>> ordinary = np.random.default_rng(0).normal(size=(100, 3))
    >>> found = nearest_normal(bowl, np.array([[0.0, 9.0, 0.0]]), reference_rows=ordinary)
    >>> found.points.round(3), found.changed
    (array([[0., 2., 0.]]), array([[False,  True, False]]))
    """
    validate_value("nearest_normal", "distance", distance, one_of("absolute", "squared"))
    X = as_floats(X)
    reference_rows = as_floats(reference_rows, what="reference_rows", n_columns=X.shape[1])
    d = X.shape[1]
    whole = find_whole_columns(reference_rows) if integers is None else read_mask(integers, d, "integers")
    given_steps = read_column_numbers(steps, np.zeros(d), "steps")
    choices = find_choices(
        reference_rows,
        owner=find_one_hot_blocks(reference_rows) if owner is None else np.asarray(owner),
        scales=read_column_numbers(scales, find_column_units(reference_rows), "scales"),
        low=read_column_numbers(low, reference_rows.min(axis=0), "low"),
        high=read_column_numbers(high, reference_rows.max(axis=0), "high"),
        steps=np.where(given_steps > 0, given_steps, np.where(whole, 1.0, 0.0)),
        origin=np.where(given_steps > 0, reference_rows[0], 0.0),
        listed=read_mask(listed, d, "listed"),
    )
    # A prototype that the model was trained on must not vouch for itself, any more than a row of X.
    own = RowScores(score, reference_rows).value(reference_rows, np.arange(len(reference_rows)))
    level = _threshold(score, threshold, own)
    power = 1.0 if distance == "absolute" else 2.0
    search = ChangeSearch(RowScores(score, X, left_out), X, choices, level, power)
    order = None if ranking is None else _ranking(ranking, owner, choices.block, len(X))
    points = _search_rows(search, reference_rows[(own <= level) & _in_range(reference_rows, choices)], order)
    found = np.asarray(~np.isnan(points).any(axis=1))
    return NearestNormal(points, found, found[:, None] & (points != X), level)


def _in_range(reference_rows: Floats, choices: Choices) -> Mask:
    """Tell which reference rows lie within the range of changed cells: a given range may be narrower."""
    return np.asarray(((reference_rows >= choices.low) & (reference_rows <= choices.high)).all(axis=1))


def _search_rows(search: ChangeSearch, normal: Floats, ranking: Floats | None) -> Floats:
    """Search for the rows that are above the level, in batches; the others stay as they are."""
    points = search.X.copy()
    odd = np.flatnonzero(search.scores.value(points, np.arange(len(points))) > search.level)
    # A row is copied once for every block it may change, and a few times over.
    bytes_per_row = 8 * points.shape[1] * min(search.choices.n_blocks, SHORTLIST) * 4
    batches = cut_batches(len(odd), bytes_per_row, _BATCH_BYTES)
    for some in track(batches, len(batches), "looking for the nearest normal rows"):
        rows = odd[some]
        points[rows] = search.run(rows, normal, None if ranking is None else ranking[rows])
    return points


def _threshold(score: ScoreFunction, given: float | None, of_prototypes: Floats) -> float:
    own = score.threshold if given is None else given
    level = float(np.quantile(of_prototypes, 0.95)) if own is None else float(own)
    if not np.isfinite(level):
        raise InvalidInput(f"threshold must be a finite number. Got {level}.")
    return level


def _ranking(given: ArrayLike, owner: ArrayLike | None, block: Integers, n: int) -> Floats:
    """Return one number per row and block; values of owners that have no column are left out."""
    values = np.asarray(given, dtype=np.float64)
    n_blocks = int(block.max()) + 1
    if owner is None and values.shape == (n, len(block)):
        values = np.stack([values[:, block == b].sum(axis=1) for b in range(n_blocks)], axis=1)
    if owner is not None and values.ndim == 2 and values.shape[1] > np.max(owner):
        values = values[:, np.unique(owner)]
    if values.shape != (n, n_blocks):
        raise InvalidInput(
            f"ranking must hold one number per row and block ({n}, {n_blocks}). Got {np.shape(given)}."
        )
    return values
