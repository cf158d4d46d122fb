"""What a column held when a model was fitted: its range, its labels, its gaps; counted over all rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tellwhy.core.params import Fit, are_finite, are_texts
from tellwhy.data.columns.reading import ROLE_KINDS, Role, read_labels, read_numbers_or_missing

MOST_LABELS = 1_000  # kept of a column; a label beyond them cannot be told from a new one
_DAY = 86_400e6  # microseconds


@dataclass(frozen=True)
class SeenValues:
    """What the rows held that a model was fitted to.

    Attributes
    ----------
    kind
        Kind of the column's role.
    n, n_missing
        Cells, and those that were missing.
    low, high
        Of numbers, and of dates in days since 1970; 0 where there were none.
    labels
        How often each label occurred, at most 1,000 of them.
    n_more
        Labels that were not kept, for want of room.
    """

    kind: str
    n: int = 0
    n_missing: int = 0
    low: float = 0.0
    high: float = 0.0
    has_range: bool = False
    labels: Mapping[str, int] | None = None
    n_more: int = 0

    @classmethod
    def of(cls, series: pd.Series, kind: str) -> SeenValues:
        """Look at the cells of one block of rows."""
        n_missing = int(series.isna().sum())
        if kind in ("category", "boolean"):
            counts = read_labels(series.to_frame("x"), "x").counts()
            kept = dict(list(counts.items())[:MOST_LABELS])
            return cls(kind, len(series), n_missing, labels=kept, n_more=len(counts) - len(kept))
        values = measure(series, kind)
        filled = values[np.isfinite(values)]
        if not len(filled):
            return cls(kind, len(series), n_missing)
        return cls(kind, len(series), n_missing, float(filled.min()), float(filled.max()), has_range=True)

    def joined(self, other: SeenValues) -> SeenValues:
        """What two blocks of rows hold together."""
        labels = dict(self.labels or {})
        n_more = self.n_more
        for name, count in (other.labels or {}).items():
            if name in labels or len(labels) < MOST_LABELS:
                labels[name] = labels.get(name, 0) + count
            else:
                n_more += 1
        ranges = [part for part in (self, other) if part.has_range]
        return SeenValues(
            self.kind,
            self.n + other.n,
            self.n_missing + other.n_missing,
            min((part.low for part in ranges), default=0.0),
            max((part.high for part in ranges), default=0.0),
            has_range=bool(ranges),
            labels=labels if self.labels is not None else None,
            n_more=n_more + other.n_more,
        )

    def _require(self) -> Iterator[Fit]:
        yield "kind", self.kind in ROLE_KINDS, True
        yield "n", are_finite(self.n, self.n_missing, self.n_more) and 0 <= self.n_missing <= self.n, True
        yield "low", are_finite(self.low, self.high) and self.low <= self.high, True
        labels = self.labels or {}
        yield "labels", are_texts(*labels) and are_finite(*labels.values()), True


def measure(series: pd.Series, kind: str) -> np.ndarray:
    """Numbers of a column, of dates as days since 1970; NaN elsewhere, also for other kinds."""
    if kind == "number":
        return read_numbers_or_missing(series)
    if kind == "date" and pd.api.types.is_datetime64_any_dtype(series.dtype):
        stamps = series.dt.tz_localize(None).to_numpy(dtype="datetime64[us]")
        return np.where(np.isnat(stamps), np.nan, stamps.astype(np.int64) / _DAY)
    return np.full(len(series), np.nan)


def look_at_columns(frame: pd.DataFrame, roles: Mapping[str, Role]) -> dict[str, SeenValues]:
    """What each column of a block of rows holds."""
    return {name: SeenValues.of(frame[name], role.kind) for name, role in roles.items() if name in frame}


def join_seen(one: Mapping[str, SeenValues], other: Mapping[str, SeenValues]) -> dict[str, SeenValues]:
    """What two blocks of rows hold together, column by column."""
    return {name: found.joined(other[name]) for name, found in one.items()}
