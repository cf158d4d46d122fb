"""Rows of a table as arrays of numbers and lists of names, the form in which a model keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import Fit, are_texts

LARGEST_STEP = 2**62  # microseconds; beyond it sums of dates overflow


@dataclass(frozen=True, eq=False)
class StoredColumn:
    """One column.

    Attributes
    ----------
    kind
        'number', 'whole', 'boolean', 'date', 'label' or 'category'.
    values
        Numbers; microseconds since 1970 of dates; for labels their places in `names`, −1 where one is
        missing.
    is_missing
        Which cells of whole numbers, booleans and dates are missing; empty where none is.
    names
        The labels.
    """

    kind: str
    values: NDArray[Any]
    is_missing: NDArray[np.bool_]
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, series: pd.Series) -> StoredColumn:
        """Take a column apart."""
        dtype = series.dtype
        gaps = series.isna().to_numpy()
        gaps = gaps if gaps.any() else np.zeros(0, dtype=bool)
        if pd.api.types.is_bool_dtype(dtype):
            return cls("boolean", series.fillna(False).to_numpy(dtype=np.uint8), gaps)
        if pd.api.types.is_datetime64_any_dtype(dtype):
            stamps = series.dt.tz_localize(None).to_numpy(dtype="datetime64[us]")
            return cls("date", np.where(np.isnat(stamps), 0, stamps.astype(np.int64)), gaps)
        if pd.api.types.is_integer_dtype(dtype) and not len(gaps):
            return cls("whole", series.to_numpy(dtype=np.int64), gaps)
        if pd.api.types.is_numeric_dtype(dtype):
            values = series.to_numpy(dtype=np.float64, na_value=np.nan)
            return cls("number", np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0), ~np.isfinite(values))
        return cls._take_labels_apart(series)

    @classmethod
    def _take_labels_apart(cls, series: pd.Series) -> StoredColumn:
        is_category = isinstance(series.dtype, pd.CategoricalDtype)
        codes, found = pd.factorize(series.astype(object).map(str, na_action="ignore"))
        names = tuple(str(name) for name in found)
        kind = "category" if is_category else "label"
        return cls(kind, codes.astype(np.int32), np.zeros(0, dtype=bool), names)

    def series(self) -> pd.Series:
        """Put the column together again."""
        if self.kind in ("label", "category"):
            names = np.array([*self.names, None], dtype=object)
            cells = pd.Series(names[self.values])
            return cells.astype("category") if self.kind == "category" else cells
        gaps = self.is_missing if len(self.is_missing) else np.zeros(len(self.values), dtype=bool)
        if self.kind == "boolean":
            flags = self.values.astype(bool)
            return pd.Series(pd.arrays.BooleanArray(flags, gaps) if gaps.any() else flags)
        if self.kind == "date":
            stamps = self.values.astype("datetime64[us]")
            return pd.Series(np.where(gaps, np.datetime64("NaT", "us"), stamps))
        if self.kind == "whole":
            return pd.Series(self.values)
        return pd.Series(np.where(gaps, np.nan, self.values))

    def _require(self) -> Iterator[Fit]:
        forms = {"number": "f", "whole": "i", "boolean": "u", "date": "i", "label": "i", "category": "i"}
        values = self.values
        yield "kind", self.kind in forms, True
        yield "values", (values.ndim, values.dtype.kind), (1, forms[self.kind])
        gaps = self.is_missing
        yield "is_missing", (gaps.ndim, gaps.dtype.kind), (1, "b")
        yield "is_missing", len(gaps) in (0, len(values)), True
        yield "names", are_texts(*self.names), True
        if self.kind in ("label", "category") and len(values):
            yield "values", bool(values.min() >= -1 and values.max() < len(self.names)), True
            yield "names", len(set(self.names)), len(self.names)
        if self.kind == "date" and len(values):
            yield "values", bool(np.abs(values).max() < LARGEST_STEP), True


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Some rows of a table."""

    columns: Mapping[str, StoredColumn]

    @classmethod
    def of(cls, frame: pd.DataFrame) -> StoredRows:
        """Take a table apart."""
        if not frame.shape[1]:
            raise InvalidInput("There is no column whose rows a model could keep.")
        return cls({str(name): StoredColumn.of(frame[name]) for name in frame.columns})

    def frame(self) -> pd.DataFrame:
        """Put the table together again."""
        return pd.DataFrame({name: column.series() for name, column in self.columns.items()})

    def _require(self) -> Iterator[Fit]:
        columns = list(self.columns.values())
        yield "columns", len(columns) > 0 and all(isinstance(c, StoredColumn) for c in columns), True
        yield "columns", len({len(column.values) for column in columns}), 1
