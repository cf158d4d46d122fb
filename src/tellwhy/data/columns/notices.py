"""Sentences on what an encoder left out or filled in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from tellwhy.data.columns.codes import is_missing
from tellwhy.data.columns.reading import Values

_EACH = 10  # up to so many columns with the same reason get a sentence each


def tell_left_out(left_out: Mapping[str, str]) -> list[str]:
    """Return a sentence per column left out, or one for all with the same reason when they are many.

    Examples
    --------
    >>> tell_left_out({"id": "every row has its own value (an identifier)"})
    ["Left out 'id': every row has its own value (an identifier)."]
    """
    by_reason: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        by_reason.setdefault(reason, []).append(name)
    single = [f"Left out {n!r}: {r}." for n, r in left_out.items() if len(by_reason[r]) <= _EACH]
    joined = [
        f"Left out {len(names)} columns, of which {reason}: {_list_some(names)}."
        for reason, names in by_reason.items()
        if len(names) > _EACH
    ]
    return single + joined


def tell_novel(names: Collection[str]) -> list[str]:
    """Return a sentence on columns that vary in the scored rows, but not in the reference rows."""
    if not names:
        return []
    return [f"Never varied in the reference rows, but does in the scored ones: {_list_some(list(names))}."]


def tell_missing(
    values: Mapping[str, Values],
    kinds: Mapping[str, str],
    missing: str,
    emptied: Mapping[str, int] | None = None,
) -> list[str]:
    """Return sentences with the number of missing cells of each column and what was done about them.

    Cells that were `emptied` because something is wrong with them are told elsewhere.
    """
    known = emptied or {}
    counts = {name: int(is_missing(column).sum()) - known.get(name, 0) for name, column in values.items()}
    counts = {name: n for name, n in counts.items() if n > 0}
    if not counts:
        return []
    if missing == "drop":
        # Rows are left out, cells are counted: a row with two gaps is one row.
        n_rows = int(np.any([is_missing(column) for column in values.values()], axis=0).sum())
        return [f"Left out {n_rows} rows with missing cells: {_count_in_words(counts)}."]
    fills = {
        "number": "Filled in missing numbers by the median",
        "boolean": "Filled in missing booleans by the more common value",
        "date": "Filled in missing dates by the median date",
        "category": "Missing categories count as a label of their own",
    }
    grouped = {kind: {name: n for name, n in counts.items() if kinds[name] == kind} for kind in fills}
    return [f"{fills[kind]}: {_count_in_words(group)}." for kind, group in grouped.items() if group]


def _count_in_words(counts: Mapping[str, int]) -> str:
    shown = [f"{name!r} ({n})" for name, n in list(counts.items())[:20]]
    rest = list(counts.values())[20:]
    return ", ".join(shown) + (f" and {len(rest)} more columns ({sum(rest)} cells)" if rest else "")


def _list_some(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:5]) + (", …" if len(names) > 5 else "")
