"""Rows that repeat a row of another block, which no block can see by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tellwhy.bulk.parts import PARTS, Record, name_part
from tellwhy.checks.chance import LEVEL, many
from tellwhy.checks.mistakes import REPEATED_ELSEWHERE
from tellwhy.core.score import Integers
from tellwhy.results.result import Finding

if TYPE_CHECKING:
    from tellwhy.bulk.plan import Plan
    from tellwhy.kinds.table_model import TableModel

Hashes = NDArray[np.uint64]
HASH = "hash"
_NOT_COMPARED = ("identifier", "constant", "empty")
_MOST_COLUMNS = 200
_ODD = np.uint64(0x9E3779B97F4A7C15)


def choose_compared(model: TableModel) -> list[str]:
    """Columns in which copies of a row agree: names of rows may differ."""
    names = [name for name, role in model.roles.items() if role.kind not in _NOT_COMPARED]
    return names[:_MOST_COLUMNS]


def hash_rows(frame: pd.DataFrame, columns: Sequence[str]) -> Hashes:
    """A number for each row, equal for rows that are equal in all of these columns."""
    whole = np.zeros(len(frame), dtype=np.uint64)
    for name in columns:
        series = frame[name] if name in frame else pd.Series(np.zeros(len(frame)))
        try:
            found = pd.util.hash_pandas_object(series, index=False)
        except TypeError:  # lists, dicts
            found = pd.util.hash_pandas_object(series.map(str), index=False)
        # Times an odd number that depends on the column: two columns that are swapped make another row.
        whole = whole * _ODD + found.to_numpy(dtype=np.uint64)
    return whole


MOST_COMPARED = 20_000_000  # rows; of more, 8 bytes each, they are not looked for
_COMMON = 0.05  # more repeats than this are how the table is


@dataclass(frozen=True, eq=False)
class Copies:
    """Equal rows of all blocks.

    Attributes
    ----------
    rows, firsts
        Rows that repeat one of an earlier block, in order, and the first row that each is equal to.
    within, across
        Pairs of equal rows in one block, and in different blocks.
    """

    rows: Integers
    firsts: Integers
    within: float
    across: float


def find_copies(hashes: Hashes, blocks: Integers) -> Copies:
    """Compare the rows of all blocks.

    Examples
    --------
    >>> found = find_copies(np.array([5, 6, 5, 7, 6], dtype=np.uint64), np.array([0, 0, 0, 1, 1]))
    >>> found.rows, found.firsts, found.within, found.across
    (array([4]), array([1]), 1.0, 1.0)
    """
    some = _find_repeated(hashes)  # of many rows a few, or none: what is to be put in order is then little
    if not len(some):
        return Copies(some, some, 0.0, 0.0)
    order = np.argsort(hashes[some], kind="stable")
    rising = hashes[some][order]
    is_first = np.r_[True, np.diff(rising) != 0]
    first = order[np.flatnonzero(is_first)][np.cumsum(is_first) - 1]
    own = blocks[some]
    is_elsewhere = own[order] != own[first]
    rows = order[is_elsewhere]
    sorted_rows = np.argsort(rows)
    within = _count_pairs(np.lexsort((own, hashes[some])), hashes[some], own)
    return Copies(
        some[rows[sorted_rows]],
        some[first[is_elsewhere][sorted_rows]],
        within,
        _count_all_pairs(rising) - within,
    )


def _find_repeated(hashes: Hashes) -> Integers:
    """Rows whose number comes more than once, in order."""
    rising = np.sort(hashes)
    repeated = np.unique(rising[1:][rising[1:] == rising[:-1]])
    return np.flatnonzero(np.isin(hashes, repeated)) if len(repeated) else np.zeros(0, dtype=np.int64)


def _count_all_pairs(rising: Hashes) -> float:
    edges = np.flatnonzero(np.r_[True, np.diff(rising) != 0, True])
    counts = np.diff(edges).astype(np.float64)
    return float((counts * (counts - 1) / 2).sum())


def _count_pairs(order: Integers, hashes: Hashes, blocks: Integers) -> float:
    """Pairs of equal rows in the same block."""
    is_new = (np.diff(hashes[order]) != 0) | (np.diff(blocks[order]) != 0)
    counts = np.diff(np.flatnonzero(np.r_[True, is_new, True])).astype(np.float64)
    return float((counts * (counts - 1) / 2).sum())


def find_repeats_elsewhere(plan: Plan, records: Sequence[Record], model: TableModel) -> list[Finding]:
    """The finding of rows that repeat a row of another block; none where that may be chance.

    Rows that are equal by chance are equal in one block as often as in two. So pairs in different blocks
    are told where they are many more than those within blocks let expect.
    """
    judged = [record for record in records if record.n_rows]
    n = sum(record.n_read for record in judged)
    if len(judged) < 2 or n > MOST_COMPARED:
        return []
    hashes = np.concatenate([_read_hashes(plan, record) for record in judged])
    sizes = np.array([record.n_read for record in judged])
    found = find_copies(hashes, np.repeat(np.arange(len(judged)), sizes))
    inside = float((sizes * (sizes - 1.0) / 2).sum())
    expected = (found.within + 1.0) * (n * (n - 1.0) / 2 - inside) / max(inside, 1.0)
    n_found = len(found.rows)
    if not n_found or n_found > _COMMON * n or many(int(found.across), expected) <= LEVEL:
        return []
    return [_make_finding(plan, records, model, found)]


def _read_hashes(plan: Plan, record: Record) -> Hashes:
    path = Path(plan.job.out) / PARTS / name_part(record.number, "scores")
    return np.asarray(pq.read_table(path, columns=[HASH]).column(0).to_numpy(), dtype=np.uint64)


def _make_finding(plan: Plan, records: Sequence[Record], model: TableModel, found: Copies) -> Finding:
    columns = choose_compared(model)
    n = len(found.rows)
    facts = {
        "n_columns": len(columns),
        "row": _place(plan, records, int(found.rows[0])),
        "first": _place(plan, records, int(found.firsts[0])),
    }
    return Finding(REPEATED_ELSEWHERE.kind, columns, [], facts, n=n)


def _place(plan: Plan, records: Sequence[Record], row: int) -> dict[str, Any]:
    """Row and file of a row that is counted over the blocks that were judged."""
    for record in (each for each in records if each.n_rows):
        if row < record.n_read:
            path = Path(plan.job.out) / PARTS / name_part(record.number, "scores")
            line = pq.read_table(path, columns=["file", "row"]).slice(row, 1).to_pylist()[0]
            return {"row": int(line["row"]), "file": Path(line["file"]).name}
        row -= record.n_read
    raise AssertionError("a row of one of the blocks")
