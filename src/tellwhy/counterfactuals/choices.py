"""What the cells of a row may become: numbers within a range or in steps, blocks of columns seen before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellwhy.core.arrays import spread_evenly
from tellwhy.core.errors import InvalidInput
from tellwhy.core.score import Floats, Integers

Mask = NDArray[np.bool_]

GRID = 9
MOST_CANDIDATES = 16


@dataclass(frozen=True)
class Choices:
    """Blocks of columns that change together, and what they may become.

    A block of one column is a number: anything in [low, high], or a multiple of `steps` away from `origin`
    there. A block of several columns (one-hot, parts of a date), and a column that is `listed`, takes only
    values that ordinary rows have.

    Attributes
    ----------
    block
        Block of each column: 0, 1, …
    grid
        Values to try for each column that is a number, in order, shape (columns, values).
    candidates
        Values to try for each block that is no number, shape (values, columns of the block).
    scales
        Unit of each column.
    """

    block: Integers
    grid: Floats
    candidates: dict[int, Floats]
    scales: Floats
    low: Floats
    high: Floats
    steps: Floats
    origin: Floats
    listed: Mask

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return int(self.block.max()) + 1

    @cached_property
    def is_number(self) -> Mask:
        """Tell which columns are numbers."""
        return (np.bincount(self.block)[self.block] == 1) & ~self.listed

    @cached_property
    def number_column(self) -> Integers:
        """Column of each block that is a number, −1 for others."""
        found = np.full(self.n_blocks, -1, dtype=np.int64)
        columns = np.flatnonzero(self.is_number)
        found[self.block[columns]] = columns
        return found

    def allowed(self, values: Floats, columns: Integers | slice) -> Floats:
        """Return the allowed numbers nearest to some values of some columns."""
        low = self.low[columns]
        high = self.high[columns]
        step = self.steps[columns]
        origin = self.origin[columns]
        values = np.clip(values, low, high)
        safe = np.where(step > 0, step, 1.0)
        # The ends of the range are steps themselves, but for rounding: 1e-9 of a step keeps them in.
        first = np.ceil((low - origin) / safe - 1e-9)
        last = np.floor((high - origin) / safe + 1e-9)
        stepped = origin + np.clip(np.round((values - origin) / safe), first, last) * safe
        return np.where(step > 0, stepped, values)

    def usual_row(self) -> Floats:
        """Return the middle of each grid, and the most common value of each block."""
        usual = self.grid[:, self.grid.shape[1] // 2].copy()
        for block, values in self.candidates.items():
            usual[self.block == block] = values[0]
        return usual

    def block_distances(self, X: Floats, Y: Floats) -> Floats:
        """Largest change |y − x|/s within each block, shape (n, blocks)."""
        order = np.argsort(self.block, kind="stable")  # reduceat takes columns that stand together
        starts = np.flatnonzero(np.diff(self.block[order], prepend=-1))
        return np.maximum.reduceat((np.abs(Y - X) / self.scales)[:, order], starts, axis=1)


def find_choices(
    reference_rows: Floats,
    *,
    owner: Integers,
    scales: Floats,
    low: Floats,
    high: Floats,
    steps: Floats,
    origin: Floats,
    listed: Mask,
) -> Choices:
    """Return what ordinary rows allow: numbers spread over those that occur, common values of a block.

    Parameters are those of `Choices`; `owner` names the block of each column by any numbers.
    """
    if owner.shape != scales.shape:
        raise InvalidInput(f"owner names a block for {len(owner)} columns; the rows have {len(scales)}.")
    block = np.unique(owner, return_inverse=True)[1].reshape(-1)
    grid = [np.quantile(np.unique(values), np.linspace(0.0, 1.0, GRID)) for values in reference_rows.T]
    bare = Choices(block, np.array(grid), {}, scales, low, high, steps, origin, listed)
    others = np.unique(block[~bare.is_number])
    candidates = {int(b): _find_most_common(reference_rows[:, block == b]) for b in others}
    return replace(bare, grid=bare.allowed(bare.grid.T, slice(None)).T, candidates=candidates)


def _find_most_common(values: Floats) -> Floats:
    """Return the 16 values that occur most often; of equally common ones that do not all fit, spread ones."""
    distinct, counts = np.unique(values, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    if len(order) > MOST_CANDIDATES:
        rarest = counts[order[MOST_CANDIDATES - 1]]
        sure = order[counts[order] > rarest]
        tied = order[counts[order] == rarest]
        order = np.concatenate([sure, tied[spread_evenly(len(tied), MOST_CANDIDATES - len(sure))]])
    return np.asarray(distinct[order])


def find_one_hot_blocks(X: Floats) -> Integers:
    """Return the block of each column, told by its first column.

    Neighbouring columns of 0 and 1 with a single 1 in every row are one block; all others stand alone.

    Examples
    --------
    >>> find_one_hot_blocks(np.array([[0.5, 1, 0, 0, 1], [2.0, 0, 0, 1, 1], [0.1, 0, 1, 0, 0]]))
    array([0, 1, 1, 1, 4])
    """
    n, d = X.shape
    # A column that holds anything else counts for more ones than any block may have.
    ones = np.where(((X == 0) | (X == 1)).all(axis=0), X.sum(axis=0), n + 1)
    block = np.arange(d)
    start = 0
    total = 0.0  # ones in the columns from `start` to `last`: n of them, one in each row, make a block
    for last in range(d):
        total += ones[last]
        while start <= last and (total > n or ones[start] == 0):
            total -= ones[start]
            start += 1
        if total == n and (X[:, start : last + 1].sum(axis=1) == 1).all():
            block[start : last + 1] = start
            start = last + 1
            total = 0.0
    return block


def read_mask(given: ArrayLike | None, d: int, name: str) -> Mask:
    """Return a mask with one entry per column, or say what is wrong with it."""
    mask = np.zeros(d, dtype=bool) if given is None else np.asarray(given)
    if mask.shape != (d,) or mask.dtype != bool:
        raise InvalidInput(f"{name} must hold one True or False per column ({d}). Got {given!r}.")
    return mask


def read_column_numbers(given: ArrayLike | None, default: Floats, name: str) -> Floats:
    """Return one finite number per column, or say what is wrong with it."""
    if given is None:
        return default
    numbers = np.asarray(given, dtype=np.float64)
    if numbers.shape != default.shape or not np.isfinite(numbers).all():
        raise InvalidInput(
            f"{name} must hold one finite number per column ({len(default)}). Got shape {numbers.shape}."
        )
    return numbers
