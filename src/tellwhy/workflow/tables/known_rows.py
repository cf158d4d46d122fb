"""Rows of a table that were encoded once, handed on without encoding them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tellwhy.core.score_function import Floats, Integers
from tellwhy.scoring import EncodedScore


@dataclass(frozen=True, eq=False)
class KnownRows:
    """Encoded rows, and tables whose cells say where in them to look.

    Explainers and tests of explanations take tables: they pick rows, and they put rows together from the
    cells of several. They get tables of the user's columns in which every cell is a row number: r in row i
    and column c means that row i has there what row r has. To encode such a table is to look its cells up.

    Attributes
    ----------
    encoded
        The rows, encoded.
    owner
        The user's column that each encoded column was made from.
    columns
        Names of the user's columns.

    Examples
    --------
    >>> known = KnownRows(np.array([[0.0, 1, 0], [5.0, 0, 1]]), np.array([0, 1, 1]), ["size", "kind"])
    >>> table = known.table(np.array([1, 0]))
    >>> table["size"] = [0, 0]
    >>> known.encode(table)
    array([[0., 0., 1.],
           [0., 1., 0.]])
    """

    encoded: Floats
    owner: Integers
    columns: Sequence[str]

    def table(self, rows: Integers) -> pd.DataFrame:
        """Return some of the rows, told by their numbers."""
        numbers = np.repeat(np.asarray(rows)[:, None], len(self.columns), axis=1)
        return pd.DataFrame(numbers, columns=self.columns)

    def encode(self, table: pd.DataFrame) -> Floats:
        """Look the cells of a table of row numbers up."""
        numbers = np.asarray(table)
        if (numbers == numbers[:, :1]).all():  # whole rows: one look for all columns
            return self.encoded[numbers[:, 0]]
        return np.take_along_axis(self.encoded, numbers[:, self.owner], axis=0)

    def score(self, score: EncodedScore) -> EncodedScore:
        """Return a score of the user's rows as one of tables of row numbers."""
        return replace(score, encode=self.encode, decode=None)
