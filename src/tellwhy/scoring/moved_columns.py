"""Ordinary rows with one column or cell moved, and the rank that an explanation gives the mover.

The truth about such rows is known, and they are made from nothing but rows that a model may learn from. So
they decide where two ways of explaining, two bandwidths or two networks would otherwise be a matter of taste.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.arrays import ColumnSpread, sort_columns
from tellwhy.core.score import Floats, Integers

Mask = NDArray[np.bool_]
LEAST_MOVED = 20  # fewer rows decide nothing
# Of two values, the rarer one has at least this share where rows take the other value. A value that hardly a
# row has is far away in standard deviations, and those rows vouch for it: no explanation could name it.
RARER_SHARE = 0.01


def measure_column_scales(X: Floats) -> Floats:
    """Return the standard deviation of each column; NaN cells do not count.

    It is exactly 0 for constant columns, whatever their offset, and for empty ones.
    """
    if len(X) and not np.isnan(X).any():
        return ColumnSpread.of(X).deviation
    known = [column[~np.isnan(column)] for column in X.T]
    return np.array([ColumnSpread.of(cells[:, None]).deviation[0] if len(cells) else 0.0 for cells in known])


def find_column_units(X: Floats) -> Floats:
    """Return what differences in a column are divided by: its standard deviation, or 1 if it is constant."""
    scales = measure_column_scales(X)
    return np.where(scales > 0, scales, 1.0)


def find_binary_columns(X: Floats) -> Mask:
    """Tell which columns hold nothing but 0 and 1 (or NaN), and both of them."""
    only = ((X == 0) | (X == 1) | np.isnan(X)).all(axis=0)
    return np.asarray(only & (X == 0).any(axis=0) & (X == 1).any(axis=0))


def draw_steps(rng: np.random.Generator, shape: Any, low: float = 1.0, high: float = 2.0) -> Floats:
    """Draw how far cells are moved, up or down, in standard deviations."""
    return rng.uniform(low, high, shape) * rng.choice([-1.0, 1.0], shape)


def reciprocal_ranks(values: Floats, columns: Integers) -> Floats:
    """Return 1/rank of one column in each row, highest first; equal values share their mean rank.

    Examples
    --------
    >>> reciprocal_ranks(np.array([[1.0, 2.0, 5.0], [1.0, 2.0, 1.0]]), np.array([2, 0])).round(2)
    array([1. , 0.4])
    """
    own = np.take_along_axis(values, columns[:, None], axis=1)
    above = (values > own).sum(axis=1)
    tied = (values == own).sum(axis=1)
    return np.asarray(1.0 / (above + 0.5 * (tied + 1)))


@dataclass(frozen=True, eq=False)
class MovedColumns:
    """Rows that were made from ordinary ones.

    Attributes
    ----------
    X
        The rows, each with one column moved.
    origin
        The row that each was made from.
    columns
        The column that was moved, as the user counts them.
    """

    X: Floats
    origin: Integers
    columns: Integers

    @classmethod
    def drawn(
        cls, X: Floats, owner: Integers, n: int, rng: np.random.Generator, *, known: Floats
    ) -> MovedColumns:
        """Make up to n rows, as many from each row of X as possible.

        `owner` tells which of the user's columns each column of X was made from; `known` are all rows there
        are, which tell how much a column changes: a few may share a value that others do not have. A column
        of numbers moves by one to two standard deviations, up or down. One of two values, neither of them
        rare, takes the other one. A column that an encoding made several of takes what another row has there.
        Columns that never change are left alone.
        """
        origin = np.arange(n) % len(X)
        candidates = _find_changing(known, owner)
        if not len(candidates):
            return cls(X[:0], origin[:0], origin[:0])
        columns = candidates[rng.integers(len(candidates), size=n)]
        steps = draw_steps(rng, n)
        donors = rng.integers(len(known), size=n)
        is_own = owner[None, :] == columns[:, None]  # (n, columns of X)
        is_block = np.bincount(owner)[columns] > 1
        before = X[origin]
        alone = _moved(known, before, steps)
        after = np.where(is_own, np.where(is_block[:, None], known[donors], alone), before)
        changed = (after != before).any(axis=1)  # another row may have the same there
        return cls(after[changed], origin[changed], columns[changed])

    def reciprocal_ranks(self, values: Floats) -> Floats:
        """Return 1/rank of the column that was moved in each row."""
        return reciprocal_ranks(values, self.columns)


@dataclass(frozen=True)
class Naming:
    """How well plain and relative relevance name the moved column: mean reciprocal ranks.

    `error` is the standard error of their difference, `n` the number of rows.
    """

    plain: float
    relative: float
    error: float
    n: int

    @classmethod
    def of(cls, moved: MovedColumns, values: Floats, usual: Floats) -> Naming:
        """Compare the relevance of moved rows, in the user's columns, with itself beside what is usual."""
        plain = moved.reciprocal_ranks(values)
        relative = moved.reciprocal_ranks(values / usual)
        n = len(plain)
        error = float((relative - plain).std() / np.sqrt(n)) if n else 0.0
        return cls(float(plain.mean()) if n else 0.0, float(relative.mean()) if n else 0.0, error, n)

    @property
    def prefers_relative(self) -> bool:
        """Whether relative relevance names it better, by more than two standard errors.

        Plain relevance adds up to the score, and so is kept where nothing is gained.
        """
        return self.n >= LEAST_MOVED and self.relative - self.plain > 2.0 * self.error


def _find_changing(X: Floats, owner: Integers) -> Integers:
    """The user's columns that change, in an order that does not depend on their place in the table."""
    changes = (X[:1] != X).any(axis=0)
    order = sort_columns(X)
    owners = owner[order][changes[order]]
    first = np.sort(np.unique(owners, return_index=True)[1])
    return np.asarray(owners[first])


def _moved(X: Floats, before: Floats, steps: Floats) -> Floats:
    """Every cell moved by its row's step in standard deviations, or to the other one of two values."""
    low = X.min(axis=0)
    high = X.max(axis=0)
    share = (high == X).mean(axis=0)
    is_common = (share >= RARER_SHARE) & (share <= 1 - RARER_SHARE)
    is_pair = is_common & ((low == X) | (high == X)).all(axis=0)
    other = np.where(before == low, high, low)
    return np.where(is_pair, other, before + steps[:, None] * ColumnSpread.of(X).deviation)


MOVED = 400  # cells that are moved at least: of fewer rows, several each
MOST_MOVED = 4_000  # and at most
TINY = 1e-12  # a cell without any share would have an infinite surprise


@dataclass(frozen=True)
class MovedCells:
    """One cell in each of some rows: its row and column, and how far it is moved, in standard deviations."""

    rows: Integers
    columns: Integers
    shifts: Floats

    @classmethod
    def drawn(cls, n_rows: int, n_columns: int, rng: np.random.Generator) -> MovedCells:
        """Draw 400 to 4,000 cells, as many from each row as possible; shifts are 1 to 2 either way."""
        rows = np.arange(min(max(MOVED, n_rows), MOST_MOVED)) % n_rows
        shifts = rng.choice([-1.0, 1.0], len(rows)) * rng.uniform(1.0, 2.0, len(rows))
        return cls(rows, rng.integers(n_columns, size=len(rows)), shifts)

    def applied(self, Z: Floats) -> Floats:
        """Return the rows of a standardised table with their cells moved."""
        moved = Z[self.rows]
        moved[np.arange(len(moved)), self.columns] += self.shifts
        return moved

    def surprise(self, terms: Floats) -> float:
        """Return the mean −log share of the moved cells in the sums of rows; `terms` has shape (n, d).

        Examples
        --------
        >>> cells = MovedCells(np.array([0]), np.array([1]), np.array([1.5]))
        >>> round(float(np.exp(-cells.surprise(np.array([[1.0, 3.0]])))), 6)
        0.75
        """
        terms = terms + TINY
        own = terms[np.arange(len(terms)), self.columns]
        return float((np.log(terms.sum(axis=1)) - np.log(own)).mean())

    def reciprocal_ranks(self, terms: Floats) -> Floats:
        """Return 1/rank of each moved cell in its row; `terms` has shape (n, d)."""
        return reciprocal_ranks(terms, self.columns)

    def standard_error(self, gains: Floats) -> float:
        """Return the standard error of the mean of one number per cell; cells of a row count as one draw.

        Examples
        --------
        >>> cells = MovedCells(np.array([0, 1, 0, 1]), np.zeros(4, dtype=int), np.ones(4))
        >>> round(cells.standard_error(np.array([1.0, 3.0, 1.0, 3.0])), 3)
        0.707
        """
        of_rows = np.bincount(self.rows, gains) / np.bincount(self.rows)
        return float(of_rows.std() / np.sqrt(len(of_rows)))
