"""Two tables compared segment by segment: what changed within a country, whatever countries there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.score import Integers
from tellwhy.words.numbers import write_value

LEAST_ROWS = 30  # of a segment, in both tables
MOST_SEGMENTS = 100  # the largest


class Segment(NamedTuple):
    """Rows of both tables with the same labels."""

    words: str
    old: Integers
    new: Integers


def find_shared_segments(old: pd.DataFrame, new: pd.DataFrame, by: Sequence[str]) -> list[Segment]:
    """Segments with at least 30 rows in each of two tables, the largest first.

    Examples
    --------
    >>> table = pd.DataFrame({"land": ["DE"] * 40 + ["FR"] * 50})
    >>> [segment.words for segment in find_shared_segments(table, table.iloc[:45], ["land"])]
    ['land = DE']
    """
    missing = [name for name in by if name not in old.columns or name not in new.columns]
    if missing:
        raise InvalidParameter(
            f"by names {', '.join(map(repr, missing))}, which both tables must have. Their columns are "
            f"{', '.join(map(repr, [name for name in old.columns if name in new.columns][:8]))}."
        )
    rows = [_group_rows_by_labels(frame[list(by)]) for frame in (old, new)]
    found = [
        Segment(" and ".join(f"{n} = {label}" for n, label in zip(by, labels, strict=True)), *places)
        for labels in rows[0].keys() & rows[1].keys()
        if min(map(len, places := (rows[0][labels], rows[1][labels]))) >= LEAST_ROWS
    ]
    if not found:
        raise InvalidParameter(
            f"No segment by {', '.join(by)} has {LEAST_ROWS} rows in both tables; name a column with fewer "
            "values."
        )
    return sorted(found, key=lambda each: (-len(each.old) - len(each.new), each.words))[:MOST_SEGMENTS]


def _group_rows_by_labels(columns: pd.DataFrame) -> dict[tuple[str, ...], Integers]:
    """Rows of each combination of labels; those with a missing one are in no segment."""
    filled = columns.notna().all(axis=1).to_numpy()
    grouped = columns[filled].reset_index(drop=True).groupby(list(columns.columns), observed=True).indices
    places = np.flatnonzero(filled)
    labels = {key if isinstance(key, tuple) else (key,): rows for key, rows in grouped.items()}
    return {tuple(_write_label(part) for part in key): places[rows] for key, rows in labels.items()}


def _write_label(label: object) -> str:
    """A label as people write it: 7.0 of a column with gaps is 7."""
    return write_value(float(label)) if isinstance(label, (int, float, np.number)) else str(label)
