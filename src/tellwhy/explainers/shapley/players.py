"""Who shares the score: columns, the raw columns that encoded ones were made from, or groups of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import Rule
from tellwhy.core.score_function import Floats, Integers
from tellwhy.explainers.base import Rows

groups_rule = Rule(
    "None, a list of lists of columns, or one group number per column",
    lambda value: value is None or (isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str)),
)


@dataclass(frozen=True)
class Players:
    """Groups of the user's columns; those of which the score sees no column take no part.

    `of_column[t]` is the player that score column t belongs to; `group[c]` is the group of the user's column c, and
    `playing` lists the groups that play, in the order of the players.
    """

    of_column: Integers
    group: Integers
    playing: Integers

    @property
    def n(self) -> int:
        """How many take part."""
        return len(self.playing)

    def group_values(self, values: Floats) -> Floats:
        """Values per group from values per player: 0 for a group that takes no part."""
        found = np.zeros((len(values), int(self.group.max()) + 1))
        found[:, self.playing] = values
        return found

    def per_column(self, values: Floats) -> Floats:
        """Values per user's column: a group's value in equal parts."""
        sizes = np.bincount(self.group)
        return np.asarray((self.group_values(values) / sizes)[:, self.group])


def players_of(rows: Rows, groups: Any, names: Sequence[str] | None) -> Players:
    """Return the players among some rows: one per user's column, or one per group of them."""
    group = np.arange(rows.n_owners) if groups is None else group_numbers(groups, rows.n_owners, names)
    playing, of_column = np.unique(group[rows.owner], return_inverse=True)
    return Players(of_column.reshape(-1), group, playing)


def group_numbers(groups: Any, n_columns: int, names: Sequence[str] | None) -> Integers:
    """Return the group of each column; columns that are in none become groups of their own, after the given ones.

    Examples
    --------
    >>> group_numbers([["a", "c"]], 4, ["a", "b", "c", "d"])
    array([0, 1, 0, 2])
    >>> group_numbers([7, 7, 5], 3, None)
    array([1, 1, 0])
    """
    if len(groups) == n_columns and all(np.ndim(item) == 0 for item in groups):
        return np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    found = np.full(n_columns, -1, dtype=np.int64)
    for number, columns in enumerate(groups):
        if np.ndim(columns) != 1 or len(columns) == 0:
            raise InvalidParameter(
                f"groups[{number}] is {columns!r}; expected a list of columns (or, for all of groups, one group number "
                f"for each of the {n_columns} columns)."
            )
        for column in columns:
            position = _position(column, n_columns, names, number)
            if found[position] >= 0:
                raise InvalidParameter(f"Column {column!r} is in groups[{found[position]}] and in groups[{number}].")
            found[position] = number
    alone = np.flatnonzero(found < 0)
    found[alone] = len(groups) + np.arange(len(alone))
    return found


def _position(column: Any, n_columns: int, names: Sequence[str] | None, number: int) -> int:
    if isinstance(column, str):
        if names is None or column not in names:
            known = "the rows have no column names" if names is None else f"the columns are {list(names)[:10]}"
            raise InvalidParameter(f"groups[{number}] names the column {column!r}, but {known}.")
        return list(names).index(column)
    if not isinstance(column, (int, np.integer)) or not 0 <= column < n_columns:
        raise InvalidParameter(f"groups[{number}] holds {column!r}; expected a name or a number below {n_columns}.")
    return int(column)
