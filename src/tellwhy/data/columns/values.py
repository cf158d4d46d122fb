"""The values of one column, read as numbers, booleans, dates or labels, or an error that names the cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats, Integers
from tellwhy.data.columns.dates import ENOUGH, Dates, parse_dates
from tellwhy.data.places import bad_cell

MISSING_LABEL = "(missing)"
OTHER_LABEL = "(other)"


@dataclass(frozen=True, eq=False)
class Labels:
    """A column of categories: `names[codes[i]]` is the label of row i, −1 where it is missing."""

    codes: Integers
    names: tuple[str, ...]

    def __getitem__(self, rows: Integers | slice) -> Labels:
        return Labels(self.codes[rows], self.names)

    def __len__(self) -> int:
        return len(self.codes)

    def counts(self) -> dict[str, int]:
        """How often each label occurs, the most common first, equal ones in alphabetical order."""
        n = np.bincount(self.codes[self.codes >= 0], minlength=len(self.names))
        found = [(name, int(k)) for name, k in zip(self.names, n, strict=True) if k]
        return dict(sorted(found, key=_by_count))


def _by_count(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


Values = Floats | Dates | Labels


def stored_kind(series: pd.Series) -> str:
    """Return 'number', 'boolean', 'date', 'category' or 'text': what the column's type says it is.

    Examples
    --------
    >>> stored_kind(pd.Series([1, 2])), stored_kind(pd.Series([True, None])), stored_kind(pd.Series(["a"]))
    ('number', 'boolean', 'text')
    """
    types = pd.api.types
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return "category"
    if types.is_bool_dtype(dtype):
        return "boolean"
    if types.is_complex_dtype(dtype):
        raise InvalidInput(
            f"Complex data not supported: column {series.name!r} has dtype {dtype}; expected real numbers."
        )
    if types.is_numeric_dtype(dtype) or types.is_timedelta64_dtype(dtype):
        return "number"
    if types.is_datetime64_any_dtype(dtype) or isinstance(dtype, pd.PeriodDtype):
        return "date"
    return _kind_of_objects(series) if types.is_object_dtype(dtype) else "text"


def _kind_of_objects(series: pd.Series) -> str:
    inferred = pd.api.types.infer_dtype(series, skipna=True)
    kinds = {
        "boolean": ("boolean",),
        "number": ("integer", "floating", "mixed-integer-float", "decimal"),
        "date": ("datetime", "datetime64", "date"),
    }
    return next((kind for kind, names in kinds.items() if inferred in names), "text")


def numbers_of(frame: pd.DataFrame, column: str) -> Floats:
    """Return a column as float64, NaN where it is missing; text and infinities raise with their cell."""
    series = frame[column]
    values = _as_numbers(series)
    if stored_kind(series) not in ("number", "boolean"):
        is_bad = np.isnan(values) & series.notna().to_numpy()
        if is_bad.any():
            expected = _expected_number(is_bad, series)
            raise bad_cell(frame, column, int(np.argmax(is_bad)), expected=expected, advice=_advice(column))
    # A finite sum proves every cell finite, at a fraction of the cost of looking at each one.
    with np.errstate(over="ignore", invalid="ignore"):
        looks_finite = np.isfinite(values.sum())
    if not looks_finite and (is_infinite := np.isinf(values)).any():
        first = int(np.argmax(is_infinite))
        raise bad_cell(frame, column, first, expected="a finite number", advice=_advice(column))
    return values


def numbers_or_missing(series: pd.Series) -> Floats:
    """Return a column as float64, NaN where it is missing or no number."""
    return _as_numbers(series)


def _expected_number(is_bad: NDArray[np.bool_], series: pd.Series) -> str:
    share = 1 - is_bad.sum() / max(int(series.notna().sum()), 1)
    return f"a number, as in the other {share:.1%} of its cells" if share > 0 else "a number"


def _advice(column: str) -> str:
    return f"Fix or empty such cells, or leave the column out (exclude {column!r})."


def _as_numbers(series: pd.Series) -> Floats:
    dtype = series.dtype
    if pd.api.types.is_timedelta64_dtype(dtype):
        return np.asarray(series.dt.total_seconds(), dtype=np.float64)
    if isinstance(dtype, np.dtype) and dtype.kind in "fiub":
        return series.to_numpy().astype(np.float64, copy=False)
    if pd.api.types.is_numeric_dtype(dtype) and not isinstance(dtype, pd.CategoricalDtype):
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    if pd.api.types.is_datetime64_any_dtype(dtype):  # pandas would give nanoseconds since 1970
        return np.full(len(series), np.nan)
    return numeric_text(series)


def numeric_text(series: pd.Series) -> Floats:
    """Return text as numbers, NaN for cells that are none."""
    cells = series.astype(object)
    return np.asarray(pd.to_numeric(cells, errors="coerce"), dtype=np.float64)


def booleans_of(frame: pd.DataFrame, column: str) -> Floats:
    """Return a column of booleans (or of numbers) as float64: 0, 1, NaN where it is missing."""
    series = frame[column]
    if stored_kind(series) == "boolean":
        return np.asarray(
            series.astype("boolean").to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64
        )
    return numbers_of(frame, column)


def dates_of(frame: pd.DataFrame, column: str, layout: str) -> Dates:
    """Return a column as date-times; text that is no date is missing, unless it is more than 5 %."""
    series = frame[column]
    if isinstance(series.dtype, pd.PeriodDtype):
        series = series.dt.to_timestamp()
    kind = stored_kind(series)
    if kind == "date":
        is_stored = pd.api.types.is_datetime64_any_dtype(series.dtype)
        stamps = series if is_stored else pd.to_datetime(series, errors="coerce")
        # The hour on the owner's clock, not in UTC: an unusual hour is unusual where the row was written.
        return stamps.dt.tz_localize(None).to_numpy(dtype="datetime64[us]")
    if series.isna().all():
        return np.full(len(series), np.datetime64("NaT"), dtype="datetime64[us]")
    text = series.astype(object).map(lambda cell: cell if isinstance(cell, str) else None).astype("string")
    dates = parse_dates(text, layout)
    is_bad = np.isnat(dates) & series.notna().to_numpy()
    if is_bad.sum() > (1 - ENOUGH) * series.notna().sum():
        first = int(np.argmax(is_bad))
        raise bad_cell(frame, column, first, expected=f"a date ({layout})", advice=_advice(column))
    return dates


def labels_of(frame: pd.DataFrame, column: str) -> Labels:
    """Return a column as labels."""
    series = frame[column]
    if isinstance(series.dtype, pd.CategoricalDtype):
        codes = series.cat.codes.to_numpy()
        uniques = list(series.cat.categories)
    else:
        try:
            codes, found = pd.factorize(series)
        except TypeError:  # cells that cannot be hashed: lists, dicts
            codes, found = pd.factorize(series.map(str, na_action="ignore"))
        uniques = list(found)
    # Different cells may have one label: 1, 1.0 and "1".
    merged, names = pd.factorize(np.array([_label(value) for value in uniques], dtype=object))
    lookup = np.append(merged, -1)  # code −1 picks the last entry
    return Labels(lookup[codes].astype(np.int64), tuple(names))


def _label(value: object) -> str:
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)
