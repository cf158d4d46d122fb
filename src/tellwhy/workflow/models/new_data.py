"""`compare_with_model`: how far new rows are like those that a model was fitted to, before it is trusted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from tellwhy.data import Table
from tellwhy.data.columns.roles import ReadColumns
from tellwhy.data.quality import check_table
from tellwhy.data.table import TableLike
from tellwhy.workflow.drift.column_drift import percent
from tellwhy.workflow.models.new_rows import read_new_rows
from tellwhy.workflow.models.seen_values import SeenValues, measured
from tellwhy.workflow.models.table_model import TableModel
from tellwhy.workflow.tables.difference import Difference, diff_from_read
from tellwhy.workflow.tables.selection import as_source
from tellwhy.workflow.verdicts.words import number_text


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
    table = as_source(data)
    new = read_new_rows(model, table)
    raw = table.frame.reindex(columns=list(model.roles))
    checked = check_table(new.frame, model.roles, reference=model.reference, raw=raw)
    return new_data_of(model, table, checked.frame, level=level)


def new_data_of(model: TableModel, table: Table, cleaned: pd.DataFrame, *, level: float = 0.01) -> NewData:
    """The same for rows that were read and checked already."""
    old = Table(pd.DataFrame(columns=list(model.table_columns)), model.source)
    known = ReadColumns(model.reference, dict(model.roles), [])
    found = diff_from_read(old, known, table, cleaned=cleaned, level=level)
    found = replace(found, n_rows=(model.n_rows, len(table.frame)))
    return NewData(found, beyond_training(model, cleaned))


def beyond_training(model: TableModel, frame: pd.DataFrame) -> list[Beyond]:
    """Columns with cells that the rows of the fitting had none like."""
    found = [_beyond(frame[name], seen) for name, seen in model.seen.items() if name in frame]
    return sorted((each for each in found if each is not None), key=lambda each: -each.share)


def _beyond(series: pd.Series, seen: SeenValues) -> Beyond | None:
    if seen.labels is not None:
        return _new_labels(series, seen)
    if not seen.has_range:
        return None
    values = measured(series, seen.kind)
    n_filled = int(np.isfinite(values).sum())
    n = int(((values < seen.low) | (values > seen.high)).sum())
    if not n:
        return None
    ends = [_end(seen, seen.low), _end(seen, seen.high)]
    text = f"{n:,} of {n_filled:,} ({percent(n / n_filled)}) beyond {ends[0]} to {ends[1]}"
    return Beyond(str(series.name), n, n / n_filled, text)


def _end(seen: SeenValues, value: float) -> str:
    if seen.kind == "date":
        return str(np.datetime64("1970-01-01", "D") + int(value))
    return number_text(value)


def _new_labels(series: pd.Series, seen: SeenValues) -> Beyond | None:
    from tellwhy.data.columns.values import labels_of

    if seen.n_more:  # not all labels were kept: one that is not among them may have been there
        return None
    counts = labels_of(series.to_frame("x"), "x").counts()
    new = {name: n for name, n in counts.items() if name not in (seen.labels or {})}
    if not new:
        return None
    n = sum(new.values())
    named = ", ".join(f"{name} ({k:,})" for name, k in list(new.items())[:4])
    more = f" and {len(new) - 4} more" if len(new) > 4 else ""
    total = sum(counts.values())
    return Beyond(str(series.name), n, n / total, f"{n:,} of {total:,} have labels not seen: {named}{more}")
