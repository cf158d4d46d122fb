"""What is new in a table beside the one that a model was fitted to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tellwhy.checks.check import check_table
from tellwhy.data import Table
from tellwhy.data.columns.roles import ReadColumns
from tellwhy.data.table import TableLike
from tellwhy.kinds.drift import Difference, diff_from_read
from tellwhy.kinds.table_rows import read_new_rows, read_source
from tellwhy.kinds.text_columns import score_known_texts
from tellwhy.results.notice import Notice
from tellwhy.verdicts.seen_values import MOST_LABELS, SeenValues, measure
from tellwhy.words.numbers import write_number, write_percent

if TYPE_CHECKING:
    from tellwhy.kinds.table_model import TableModel

MOST_COLUMNS = 5  # that a sentence names


@dataclass(frozen=True)
class Beyond:
    """Cells of a column that the rows of the fitting had none like.

    Attributes
    ----------
    n, share
        Such cells, and their share of those that are filled.
    text
        What they are beside what was seen: '12 of 500 (2.4 %) beyond 0.5–94'.
    """

    column: str
    n: int
    share: float
    text: str


@dataclass(frozen=True, eq=False)
class NewData:
    """A table beside the one that a model was fitted to.

    Attributes
    ----------
    difference
        Columns, how they are read, and what is in them: as between two tables.
    beyond
        Columns with values beyond the range, or labels beyond those, of the fitting; the largest share first.
    """

    difference: Difference
    beyond: list[Beyond]


def compare_with_model(model: TableModel, data: str | Path | TableLike, *, level: float = 0.01) -> NewData:
    """Tell what is new in a table beside the one that a model was fitted to.

    Columns that are new or gone, that are read otherwise, whose values, labels or gaps drifted by more than
    chance, and the share of cells beyond the range (or the labels) that the fitting saw.

    Examples
    --------
    >>> from tellwhy.workflow import fit_model
    >>> rng = np.random.default_rng(0)
    >>> before = pd.DataFrame({"price": rng.normal(20, 2, 500), "size": rng.normal(size=500)})
    >>> model = fit_model(before)
    >>> found = compare_with_model(model, before.assign(price=before.price * 2))
    >>> found.difference.drifted[0].column, found.beyond[0].column
    ('price', 'price')
    """
    table, _ = score_known_texts(read_source(data), model.texts)
    new = read_new_rows(model, table)
    raw = table.frame.reindex(columns=list(model.roles))
    checked = check_table(new.frame, model.roles, reference=model.reference, raw=raw)
    return compare_read(model, table, checked.frame, level=level)


def compare_read(model: TableModel, table: Table, cleaned: pd.DataFrame, *, level: float = 0.01) -> NewData:
    """The same for rows that were read and checked already."""
    old = Table(pd.DataFrame(columns=list(model.table_columns)), model.source)
    known = ReadColumns(model.reference, dict(model.roles), [])
    found = diff_from_read(old, known, table, cleaned=cleaned, level=level)
    found = replace(found, n_rows=(model.n_rows, len(table.frame)))
    return NewData(found, find_beyond(model, cleaned))


@dataclass(frozen=True)
class BeyondCount:
    """How many cells of a column the rows of the fitting had none like, in some rows.

    Attributes
    ----------
    n, n_filled
        Such cells, and all that are filled.
    labels
        Labels not seen, and how often; at most 1,000 of them.
    """

    n: int
    n_filled: int
    labels: Mapping[str, int] = field(default_factory=dict)

    def joined(self, other: BeyondCount) -> BeyondCount:
        """Of the rows of two blocks together."""
        labels = Counter(self.labels)
        labels.update(other.labels)
        most = dict(labels.most_common(MOST_LABELS))
        return BeyondCount(self.n + other.n, self.n_filled + other.n_filled, most)


def find_beyond(model: TableModel, frame: pd.DataFrame) -> list[Beyond]:
    """Columns with cells that the rows of the fitting had none like."""
    return tell_beyond(model, count_beyond(model, frame))


def count_beyond(model: TableModel, frame: pd.DataFrame) -> dict[str, BeyondCount]:
    """Count such cells of every column in which one can be told."""
    found = {name: _count_in_column(frame[name], seen) for name, seen in model.seen.items() if name in frame}
    return {name: count for name, count in found.items() if count is not None}


def _count_in_column(series: pd.Series, seen: SeenValues) -> BeyondCount | None:
    if seen.labels is not None:
        return _count_new_labels(series, seen)
    if not seen.has_range:
        return None
    values = measure(series, seen.kind)
    n = int(((values < seen.low) | (values > seen.high)).sum())
    return BeyondCount(n, int(np.isfinite(values).sum()))


def _count_new_labels(series: pd.Series, seen: SeenValues) -> BeyondCount | None:
    from tellwhy.data.columns.reading import read_labels

    if seen.n_more:  # not all labels were kept: one that is not among them may have been there
        return None
    counts = read_labels(series.to_frame("x"), "x").counts()
    new = {str(name): int(n) for name, n in counts.items() if name not in (seen.labels or {})}
    kept = dict(list(new.items())[:MOST_LABELS])
    return BeyondCount(sum(new.values()), int(sum(counts.values())), kept)


def join_counts(blocks: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[str, BeyondCount]:
    """Counts of several blocks, each as JSON has them, together."""
    counts: dict[str, BeyondCount] = {}
    for block in blocks:
        for name, found in block.items():
            count = BeyondCount(**found)
            counts[name] = counts[name].joined(count) if name in counts else count
    return counts


def tell_beyond(model: TableModel, counts: Mapping[str, BeyondCount]) -> list[Beyond]:
    """The columns that have such cells, in words; the largest share first."""
    found = [
        Beyond(name, count.n, count.n / count.n_filled, _write_beyond(model.seen[name], count))
        for name, count in counts.items()
        if count.n and name in model.seen
    ]
    return sorted(found, key=lambda each: -each.share)


def tell_since_fitted(model: TableModel, counts: Mapping[str, BeyondCount]) -> list[Notice]:
    """What is new in the rows of a run: a notice for all columns and one for each column of dates."""
    found = tell_beyond(model, counts)
    if not found:
        return []
    first = [[each.column, each.text] for each in found[:MOST_COLUMNS]]
    dates = [each.column for each in found if model.encoder.kinds_.get(each.column) == "date"]
    later = [Notice("later_dates", {"column": name}) for name in dates]
    return [Notice("new_since_fitted", {"columns": first, "n": len(found)}), *later]


def _write_beyond(seen: SeenValues, count: BeyondCount) -> str:
    if seen.labels is None:
        ends = [_end(seen, seen.low), _end(seen, seen.high)]
        share = write_percent(count.n / count.n_filled)
        return f"{count.n:,} of {count.n_filled:,} ({share}) beyond {ends[0]} to {ends[1]}"
    named = ", ".join(f"{name} ({k:,})" for name, k in list(count.labels.items())[:4])
    more = f" and {len(count.labels) - 4} more" if len(count.labels) > 4 else ""
    return f"{count.n:,} of {count.n_filled:,} have labels not seen: {named}{more}"


def _end(seen: SeenValues, value: float) -> str:
    if seen.kind == "date":
        return str(np.datetime64("1970-01-01", "D") + int(value))
    return write_number(value)
