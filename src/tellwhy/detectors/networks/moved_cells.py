"""Rows held out with one cell moved, and how much of what a detector finds odd falls on that cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tellwhy.core.score_function import Floats, Integers

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
        """Return 1/rank of each moved cell in its row; `terms` has shape (n, d).

        Equal terms share the mean of their ranks.

        Examples
        --------
        >>> cells = MovedCells(np.array([0]), np.array([1]), np.array([1.5]))
        >>> cells.reciprocal_ranks(np.array([[4.0, 3.0, 1.0]]))
        array([0.5])
        """
        own = terms[np.arange(len(terms)), self.columns][:, None]
        above = (terms > own).sum(axis=1)
        tied = (terms == own).sum(axis=1)
        return np.asarray(1.0 / (above + 0.5 * (tied + 1)))

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
