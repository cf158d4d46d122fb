"""Claims that fill a level of another column: a legitimate difference of that level, not so many mistakes.

If nearly all cells that are claimed in a column stand in the rows of one station, and nearly all rows of that
station are claimed, the station writes otherwise; nobody slipped so often.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tellwhy.checks.contest import Claim, Support
from tellwhy.core.score import Integers

if TYPE_CHECKING:
    from tellwhy.checks.facts import Facts

_LIKELY = -2.5  # log-odds from which a claim counts
_FEWEST = 5
_SUPPORT = 3.0
_MOST_COLUMNS = 40


def support_clusters(seen: Facts, claims: Sequence[Claim]) -> Iterator[Support]:
    """Support for cells whose claims fill a level of another column."""
    claimed: dict[str, list[Integers]] = defaultdict(list)
    for claim in claims:
        if not claim.is_of_group:
            claimed[claim.columns[0]].append(np.asarray(claim.rows)[np.asarray(claim.log_odds) > _LIKELY])
    for name, parts in claimed.items():
        rows = np.unique(np.concatenate(parts))
        if len(rows) >= _FEWEST:
            filled = _in_filled_levels(seen, name, rows)
            if filled.any():
                yield Support(name, rows[filled], np.full(int(filled.sum()), _SUPPORT))


def _in_filled_levels(seen: Facts, name: str, rows: Integers) -> np.ndarray:
    """Which rows stand in a level of another column whose rows are claimed, and hardly any others."""
    filled = np.zeros(len(rows), dtype=np.bool_)
    # Copies of a row would fill a level by themselves.
    counted = rows if seen.voices is None else rows[seen.voices[rows]]
    for other in seen.frame.columns[:_MOST_COLUMNS]:
        column = seen.writing(other)
        if other == name or not 2 <= column.k <= 0.3 * column.n:
            continue
        codes = column.codes[counted]
        total = column.counts
        hit = np.bincount(codes[codes >= 0], minlength=column.k)
        rest = (len(counted) - hit) / np.maximum(column.n - total, 1)
        most = (hit >= 0.6 * total) & (rest < 0.2)
        is_filled = (hit >= _FEWEST) & (most | (hit >= 0.45 * total) & (rest < 0.05))
        is_filled &= ~column.is_mark
        codes = column.codes[rows]
        filled |= (codes >= 0) & is_filled[codes]
    return filled
