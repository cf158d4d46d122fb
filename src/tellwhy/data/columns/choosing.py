"""Which columns of a table are used: those asked for, less those excluded, and at least one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

import pandas as pd

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.data.columns.kinds import IDENTIFIER
from tellwhy.data.columns.notices import listed


def chosen_columns(frame: pd.DataFrame, columns: Sequence[str] | None, exclude: Sequence[str]) -> list[str]:
    """Return the names in the order asked for, each once; a name that is not there raises.

    Examples
    --------
    >>> chosen_columns(pd.DataFrame({"a": [1], "b": [2], "c": [3]}), ["c", "a"], ["a"])
    ['c']
    """
    present = list(frame.columns)
    asked = present if columns is None else [str(name) for name in columns]
    excluded = {str(name) for name in exclude}
    for name in [*asked, *sorted(excluded)]:
        if name not in frame.columns:
            raise unknown_column(name, present)
    return [name for name in dict.fromkeys(asked) if name not in excluded]


def unknown_column(name: str, present: Sequence[str]) -> InvalidParameter:
    """Return the error for a name that no column has, with the nearest ones."""
    close = " or ".join(map(repr, difflib.get_close_matches(name, present, n=3)))
    hint = f"Did you mean {close}?" if close else f"There are: {listed(present)}."
    return InvalidParameter(f"There is no column {name!r}. {hint}")


def no_column_left(n_rows: int, left_out: Mapping[str, str], *, were_named: bool) -> InvalidInput:
    """Return the error for a table of which no column can be used, with the reasons of the first five."""
    if n_rows == 1:
        return InvalidInput(
            "The table has one row, which says nothing about what is usual; expected at least two."
        )
    why = "; ".join(f"{name!r}: {reason}" for name, reason in list(left_out.items())[:5])
    more = f"; and {len(left_out) - 5} more" if len(left_out) > 5 else ""
    # Naming a column overrules the guess that it counts the rows; no other reason can be overruled.
    helps = IDENTIFIER in left_out.values() and not were_named
    advice = " Name whole-number columns in `columns` to use them all the same." if helps else ""
    return InvalidInput(f"No column of the table can be used ({why or 'all are excluded'}{more}).{advice}")
