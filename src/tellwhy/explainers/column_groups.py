"""Columns that belong together, as the user names them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import Rule
from tellwhy.core.score_function import Integers

Groups = Sequence[Any] | Integers
"""Lists of columns, each by number or name, or one number per column: that of its group."""

groups_rule = Rule(
    "None, a list of lists of columns, or one group number per column",
    lambda value: value is None or (isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str)),
)


def group_numbers(groups: Groups, n_columns: int, names: Sequence[str] | None) -> Integers:
    """Return the number of each column's group.

    Columns that are in no group become groups of their own, after the given ones.

    Examples
    --------
    >>> group_numbers([["a", "c"]], 4, ["a", "b", "c", "d"])
    array([0, 1, 0, 2])
    >>> group_numbers([7, 7, 5], 3, None)
    array([1, 1, 0])
    """
    # one number per column; in a list of as many lists each item has an axis of its own
    if len(groups) == n_columns and all(np.ndim(item) == 0 for item in groups):
        return np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    found = np.full(n_columns, -1, dtype=np.int64)
    for number, columns in enumerate(groups):
        if np.ndim(columns) != 1 or len(columns) == 0:
            raise InvalidParameter(
                f"groups[{number}] is {columns!r}; expected a list of columns (or, for all of groups, one "
                f"group number for each of the {n_columns} columns)."
            )
        for column in columns:
            position = _position(column, n_columns, names, number)
            if found[position] >= 0:
                raise InvalidParameter(
                    f"Column {column!r} is in groups[{found[position]}] and in groups[{number}]."
                )
            found[position] = number
    alone = np.flatnonzero(found < 0)
    found[alone] = len(groups) + np.arange(len(alone))
    return found


def _position(column: Any, n_columns: int, names: Sequence[str] | None, number: int) -> int:
    if isinstance(column, str):
        if names is None or column not in names:
            known = (
                "the rows have no column names" if names is None else f"the columns are {list(names)[:10]}"
            )
            raise InvalidParameter(f"groups[{number}] names the column {column!r}, but {known}.")
        return list(names).index(column)
    if not isinstance(column, (int, np.integer)) or not 0 <= column < n_columns:
        raise InvalidParameter(
            f"groups[{number}] holds {column!r}; expected a name or a number below {n_columns}."
        )
    return int(column)
