"""From the columns that a request names to the segments of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.data import Table
from tellwhy.kinds.rare_labels import find_rare_labels
from tellwhy.kinds.request import Request, check_column
from tellwhy.kinds.segments import Segments, context_of, nested_segments
from tellwhy.kinds.table_rows import Selection, read_as_told
from tellwhy.results.result import Finding

FEW = 5  # rows of a segment, below which it is told that the whole table stands in


def in_segments(selection: Selection, table: Table, request: Request) -> tuple[Selection, list[Finding]]:
    """Return the selection with the segments of the columns that `by` names, and labels rare in them.

    Parameters
    ----------
    selection
        All rows of the table, before any is dropped.
    table
        What the columns are read from.
    request
        What was asked.
    """
    by = list(dict.fromkeys(request.by))
    if not by:
        return selection, []
    for name in by:
        check_column(table, name)
    known = read_as_told(table.frame[by], None, request.told_kinds(table, by))
    is_all = selection.own is None or len(selection.own) == len(selection.frame)
    others = known.frame if is_all else known.frame.iloc[selection.own]
    levels = nested_segments(known.frame, others, known.roles, table.source)
    if not (levels[-1].reference >= 0).any():
        raise InvalidInput(
            f"Column {by[-1]!r} of {table.source} is empty; expected values that tell which segment a row is "
            "in. Choose another column for by."
        )
    placed = replace(
        selection,
        context=context_of(selection, levels, by),
        notices=(*selection.notices, *_notices(by, levels)),
        words=f"{selection.words}, each with those of the same {' and '.join(by)}",
    )
    return placed, find_rare_labels(selection, levels[-1], by)


def _notices(by: Sequence[str], levels: Sequence[Segments]) -> list[str]:
    names = " and ".join(by)
    narrow = levels[-1]
    sizes = np.bincount(narrow.reference[narrow.reference >= 0], minlength=len(narrow.words))
    n_small = int((sizes < FEW).sum())
    n_none = int((levels[0].scored < 0).sum())
    told = [f"Rows are compared within {len(sizes):,} segments by {names}."]
    if n_small:
        told.append(
            f"{n_small:,} of these segments have fewer than {FEW} rows: other rows help to tell what is "
            "usual there."
        )
    if n_none:
        told.append(f"{n_none:,} rows have no {by[0]}, or a new one: they are compared with the whole table.")
    return told
