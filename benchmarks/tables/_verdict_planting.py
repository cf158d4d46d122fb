"""What an error is: rows it sits in, and the columns that are the right cause of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.tables._verdict_draws import Schema


@dataclass(frozen=True, eq=False)
class Planted:
    """A table with errors.

    Attributes
    ----------
    frame
        The table, rows numbered from 0.
    rows
        Positions of the erroneous rows.
    columns
        Of each such row: the columns any of which is a right cause; none where only `kinds` tell it.
    also
        Of each such row: another row that may be told in its place (the original of a copy), or −1.
    kinds
        Kinds of finding that name the cause without a column (a duplicate has none).
    reference
        Ordinary rows to compare with, where the error is one only against them.
    """

    frame: pd.DataFrame
    rows: tuple[int, ...]
    columns: tuple[frozenset[str], ...]
    also: tuple[int, ...]
    kinds: frozenset[str] = frozenset()
    reference: pd.DataFrame | None = None


@dataclass(frozen=True, eq=False)
class Site:
    """Where an error is planted: a table, what holds in it, and the stream of random numbers."""

    frame: pd.DataFrame
    schema: Schema
    rng: np.random.Generator

    def one_of(self, role: str):
        """One of the columns (or groups of columns) that the schema has in a role."""
        choices = getattr(self.schema, role)
        return choices[self.rng.integers(len(choices))]

    def few(self) -> int:
        return int(self.rng.integers(2, 6))

    def many(self) -> int:
        """About one row in a hundred."""
        return int(self.rng.integers(12, max(14, len(self.frame) // 80)))

    def rows(self, columns: Sequence[str], k: int, where: np.ndarray | None = None) -> np.ndarray:
        """So many rows in which the columns are filled (and the condition holds)."""
        fit = self.frame[list(columns)].notna().all(axis=1).to_numpy()
        if where is not None:
            fit = fit & where
        candidates = np.flatnonzero(fit)
        if not len(candidates):
            raise ValueError(f"no row has all of {list(columns)} as the error needs them")
        return np.sort(self.rng.choice(candidates, min(k, len(candidates)), replace=False))

    def number(self, column: str) -> np.ndarray:
        return self.frame[column].to_numpy(float)

    def changed(
        self, column: str, rows: np.ndarray, values, *, right: Collection[str] = (), **more
    ) -> Planted:
        """The table with other values in these cells of one column."""
        return self.changed_all({column: (rows, values)}, right=right or (column,), **more)

    def changed_all(
        self, cells: dict[str, tuple[np.ndarray, object]], *, right: Collection[str], **more
    ) -> Planted:
        """The table with other values in cells of several columns; every row has the same right causes."""
        frame = self.frame.copy()
        for column, (rows, values) in cells.items():
            frame[column] = replaced(frame[column], rows, values)
        touched = np.unique(np.concatenate([rows for rows, _ in cells.values()]))
        return planted(frame, touched, [frozenset(right)] * len(touched), **more)


def planted(frame, rows, columns, *, also=None, kinds=(), reference=None) -> Planted:
    rows = tuple(int(r) for r in rows)
    also = tuple(int(r) for r in also) if also is not None else (-1,) * len(rows)
    return Planted(frame.reset_index(drop=True), rows, tuple(columns), also, frozenset(kinds), reference)


def replaced(column: pd.Series, rows: np.ndarray, values) -> pd.Series:
    """Cells replaced; the column takes a wider type where the values ask for it."""
    cells = column.to_numpy(object, copy=True)
    cells[rows] = values
    cells = pd.Series(cells, index=column.index)
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return pd.to_datetime(cells)
    if pd.api.types.is_numeric_dtype(column.dtype) and not any(isinstance(v, str) for v in cells.iloc[rows]):
        return pd.to_numeric(cells)
    return cells


@dataclass(frozen=True)
class Error:
    """A kind of error: the role that a table's columns must have for it, and how it is planted."""

    role: str
    plant: Callable[[Site], Planted]
    kinds: tuple[str, ...]  # of tables it applies to
