"""What is usual in a column, in the user's own units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from tellwhy.core.errors import InvalidParameter
from tellwhy.data.columns.dates import days_since_1970, find_layout, make_dates, write_iso
from tellwhy.data.columns.reading import (
    MISSING_LABEL,
    find_stored_kind,
    read_dates,
    read_labels,
    read_numbers,
)

LEVELS = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_MOST_LABELS = 10


@dataclass(frozen=True)
class ColumnSummary:
    """What is usual in a column.

    Numbers and dates have `quantiles` (minimum, 5 %, 25 %, 50 %, 75 %, 95 %, maximum of the filled cells),
    dates as days since 1970-01-01 and, in `labels`, as ISO text. Categories and booleans have `shares`: up to
    ten most common values and the share of rows that hold each, most common first; missing cells count as
    '(missing)'.
    """

    kind: str
    quantiles: Sequence[float] = ()
    labels: Sequence[str] = ()
    shares: Mapping[str, float] = field(default_factory=dict)


def describe_column(series: pd.Series, kind: str) -> ColumnSummary:
    """Summarise a column of the given kind: 'number', 'date', 'category' or 'boolean'.

    Examples
    --------
    >>> describe_column(pd.Series([1.0, 2.0, 3.0]), "number").quantiles
    (1.0, 1.1, 1.5, 2.0, 2.5, 2.9, 3.0)
    >>> describe_column(pd.Series(["a", "b", "a", "a"]), "category").shares
    {'a': 0.75, 'b': 0.25}
    """
    name = str(series.name)
    frame = series.to_frame(name)
    if kind == "number":
        return ColumnSummary(kind, _compute_quantiles(read_numbers(frame, name)))
    if kind == "date":
        return _describe_dates(frame, name)
    if kind in ("category", "boolean"):
        return ColumnSummary(kind, shares=_compute_shares(read_labels(frame, name).counts(), len(frame)))
    raise InvalidParameter(
        f"A column's kind must be 'number', 'date', 'category' or 'boolean'. Got {kind!r} instead."
    )


def _compute_quantiles(values: np.ndarray) -> tuple[float, ...]:
    filled = values[~np.isnan(values)]
    return tuple(np.quantile(filled, LEVELS).tolist()) if len(filled) else ()


def _describe_dates(frame: pd.DataFrame, name: str) -> ColumnSummary:
    is_text = find_stored_kind(frame[name]) == "text"
    layout = find_layout(frame[name].astype("string")) if is_text else None
    dates = read_dates(frame, name, layout or "iso")
    quantiles = _compute_quantiles(days_since_1970(dates))
    if not quantiles:
        return ColumnSummary("date")
    found = make_dates(np.array(quantiles))
    filled = dates[~np.isnat(dates)]
    # Quantiles may lie between two days although no date has a time of day: then they are told as days.
    has_time = bool((filled != filled.astype("datetime64[D]")).any())
    labels = write_iso(found if has_time else found.astype("datetime64[D]"))
    return ColumnSummary("date", quantiles, tuple(labels))


def _compute_shares(counts: Mapping[str, int], n_rows: int) -> dict[str, float]:
    counts = dict(counts)
    n_missing = n_rows - sum(counts.values())
    if n_missing:  # a cell may also say '(missing)': both are one label
        counts[MISSING_LABEL] = counts.get(MISSING_LABEL, 0) + n_missing
    ranked = sorted(counts.items(), key=lambda item: -item[1])[:_MOST_LABELS]
    return {name: n / n_rows for name, n in ranked}
