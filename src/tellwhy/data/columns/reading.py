"""Cells to values.

The values of one column, read as numbers, booleans, dates or labels, or an error that names the cell.

One column read in one way: its typed values, its role, and what to tell of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tellwhy.core.arrays import spread_evenly
from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import Fit, are_texts
from tellwhy.core.score import Floats, Integers
from tellwhy.data.columns.dates import (
    ENOUGH_DATES as ENOUGH_of_dates,
    Dates,
    WrittenDates,
    find_dates,
    parse_dates,
)
from tellwhy.data.columns.labels import EXACT, WrittenBooleans
from tellwhy.data.columns.numbers import WrittenNumbers, find_numbers
from tellwhy.data.columns.times import Compact, Epoch, WrittenTimes, find_epoch
from tellwhy.data.places import refuse_cell, show_cell
from tellwhy.data.reading.cells import MISSING_WORDS, make_text
from tellwhy.results.notice import Notice

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
        return dict(sorted(found, key=_order_by_count))


def _order_by_count(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


Values = Floats | Dates | Labels


def find_stored_kind(series: pd.Series) -> str:
    """Return 'number', 'boolean', 'date', 'category' or 'text': what the column's type says it is.

    Examples
    --------
    >>> [find_stored_kind(pd.Series(cells)) for cells in ([1, 2], [True, None], ["a"])]
    ['number', 'boolean', 'text']
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
    return _find_kind_of_objects(series) if types.is_object_dtype(dtype) else "text"


def _find_kind_of_objects(series: pd.Series) -> str:
    inferred = pd.api.types.infer_dtype(series, skipna=True)
    kinds = {
        "boolean": ("boolean",),
        "number": ("integer", "floating", "mixed-integer-float", "decimal"),
        "date": ("datetime", "datetime64", "date"),
    }
    return next((kind for kind, names in kinds.items() if inferred in names), "text")


def read_numbers(frame: pd.DataFrame, column: str) -> Floats:
    """Return a column as float64, NaN where it is missing; text and infinities raise with their cell."""
    series = frame[column]
    values = _convert_to_numbers(series)
    if find_stored_kind(series) not in ("number", "boolean"):
        is_bad = np.isnan(values) & series.notna().to_numpy()
        if is_bad.any():
            expected = _refuse_no_number(is_bad, series)
            raise refuse_cell(
                frame, column, int(np.argmax(is_bad)), expected=expected, advice=_advise_on_numbers(column)
            )
    # A finite sum proves every cell finite, at a fraction of the cost of looking at each one.
    with np.errstate(over="ignore", invalid="ignore"):
        looks_finite = np.isfinite(values.sum())
    if not looks_finite and (is_infinite := np.isinf(values)).any():
        first = int(np.argmax(is_infinite))
        raise refuse_cell(frame, column, first, expected="a finite number", advice=_advise_on_numbers(column))
    return values


def read_numbers_or_missing(series: pd.Series) -> Floats:
    """Return a column as float64, NaN where it is missing or no number."""
    return _convert_to_numbers(series)


def _refuse_no_number(is_bad: NDArray[np.bool_], series: pd.Series) -> str:
    share = 1 - is_bad.sum() / max(int(series.notna().sum()), 1)
    return f"a number, as in the other {share:.1%} of its cells" if share > 0 else "a number"


def _advise_on_numbers(column: str) -> str:
    return f"Fix or empty such cells, or leave the column out (exclude {column!r})."


def _convert_to_numbers(series: pd.Series) -> Floats:
    dtype = series.dtype
    if pd.api.types.is_timedelta64_dtype(dtype):
        return np.asarray(series.dt.total_seconds(), dtype=np.float64)
    if isinstance(dtype, np.dtype) and dtype.kind in "fiub":
        return series.to_numpy().astype(np.float64, copy=False)
    if pd.api.types.is_numeric_dtype(dtype) and not isinstance(dtype, pd.CategoricalDtype):
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    if pd.api.types.is_datetime64_any_dtype(dtype):  # pandas would give nanoseconds since 1970
        return np.full(len(series), np.nan)
    return read_numeric_text(series)


def read_numeric_text(series: pd.Series) -> Floats:
    """Return text as numbers, NaN for cells that are none."""
    cells = series.astype(object)
    return np.asarray(pd.to_numeric(cells, errors="coerce"), dtype=np.float64)


def read_booleans(frame: pd.DataFrame, column: str) -> Floats:
    """Return a column of booleans (or of numbers) as float64: 0, 1, NaN where it is missing."""
    series = frame[column]
    if find_stored_kind(series) == "boolean":
        return np.asarray(
            series.astype("boolean").to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64
        )
    return read_numbers(frame, column)


def read_dates(frame: pd.DataFrame, column: str, layout: str) -> Dates:
    """Return a column as date-times; text that is no date is missing, unless it is more than 5 %."""
    series = frame[column]
    if isinstance(series.dtype, pd.PeriodDtype):
        series = series.dt.to_timestamp()
    kind = find_stored_kind(series)
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
    if is_bad.sum() > (1 - ENOUGH_of_dates) * series.notna().sum():
        first = int(np.argmax(is_bad))
        raise refuse_cell(
            frame, column, first, expected=f"a date ({layout})", advice=_advise_on_numbers(column)
        )
    return dates


def read_labels(frame: pd.DataFrame, column: str) -> Labels:
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


ROLE_KINDS = ("number", "boolean", "date", "category", "text", "identifier", "constant", "empty")
ENOUGH = 0.9  # share of the filled cells that must be written in one way
_SAMPLE = 2000  # cells that a decision is made on; all are checked afterwards


class Reading(Protocol):
    """A way of writing that a column was found to follow."""

    @property
    def words(self) -> str:
        """The way for people."""
        ...

    def read(self, cells: Any) -> NDArray[Any]:
        """Return the values, NaN or NaT for cells that are not written so."""
        ...


COMPUTED = "how odd each text is"  # words of a column whose numbers nobody wrote


@dataclass(frozen=True)
class Role:
    """What a column is.

    Attributes
    ----------
    kind
        'number', 'boolean', 'date', 'category', 'text', 'identifier', 'constant' or 'empty'.
    words
        How it was read, for people: 'money in $', 'dates, day first', 'whole numbers'.
    reading
        The way of writing it was found to follow, so that another table can be read alike.
    orders
        What its values tell of the order of rows, where they tell no more; then it is no feature by itself.
    """

    kind: str
    words: str
    reading: Reading | None = field(default=None, repr=False, compare=False)
    orders: str = ""

    def _require(self) -> Iterator[Fit]:
        yield "kind", self.kind in ROLE_KINDS, True
        yield "words", are_texts(self.words, self.orders), True
        known = (WrittenNumbers, WrittenTimes, WrittenBooleans, WrittenDates, Epoch, Compact)
        yield "reading", self.reading is None or isinstance(self.reading, known), True


@dataclass(frozen=True, eq=False)
class Outcome:
    """A column's role, its values where they are not as they stand, and what is to be said of it."""

    role: Role
    values: Any = None
    notice: Notice | None = None


def trim_text(series: pd.Series) -> pa.Array:
    """Return a column as trimmed text, null where it is missing or says so in words."""
    if pd.api.types.is_string_dtype(series.dtype) and not pd.api.types.is_object_dtype(series.dtype):
        cells = pa.array(series.array, from_pandas=True)
    else:
        gaps = series.isna()
        cells = make_text([None if gap else str(cell) for cell, gap in zip(series, gaps, strict=True)])
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    return _blank_missing_words(cells.cast(pa.large_string()))


def _blank_missing_words(cells: pa.Array) -> pa.Array:
    trimmed = pc.utf8_trim_whitespace(cells)
    words = pa.array(MISSING_WORDS, pa.large_string())
    is_short = pc.less_equal(pc.utf8_length(trimmed), max(map(len, MISSING_WORDS)))
    if not pc.any(is_short).as_py():  # no cell can be a missing word
        return trimmed
    return pc.if_else(pc.is_in(pc.utf8_lower(trimmed), value_set=words), None, trimmed)


def sample_of(cells: pa.Array) -> list[str]:
    """Return up to 2,000 filled cells, evenly spread."""
    filled = pc.drop_null(cells)
    return list(filled.take(pa.array(spread_evenly(len(filled), _SAMPLE))).to_pylist()) if len(filled) else []


def read_text(cells: pa.Array, reading: Reading) -> NDArray[Any]:
    """Read cells, each distinct one once where many are equal."""
    probe = sample_of(cells)
    if 2 * len(set(probe)) > len(probe):  # mostly distinct: finding the equal ones would cost more
        return reading.read(cells)
    coded = cells.dictionary_encode()
    values = reading.read(coded.dictionary)
    is_missing = np.asarray(coded.indices.is_null())
    codes = np.asarray(pc.fill_null(coded.indices, 0))
    empty = np.datetime64("NaT", "us") if values.dtype.kind == "M" else np.nan
    return np.where(is_missing, empty, values[codes]) if len(values) else np.full(len(cells), empty)


def is_none(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which values are NaN or NaT."""
    return np.asarray(np.isnat(values) if values.dtype.kind == "M" else np.isnan(values))


KINDS = {
    WrittenNumbers: "number",
    WrittenTimes: "number",
    WrittenBooleans: "boolean",
    WrittenDates: "date",
    Epoch: "date",
    Compact: "date",
}


@dataclass(frozen=True, eq=False)
class Typed:
    """A column's values read in one way, which filled cells are not written so, and which were converted."""

    values: NDArray[Any]
    is_bad: NDArray[np.bool_]
    is_converted: NDArray[np.bool_] | None = None


def read_typed(series: pd.Series, reading: Reading, cells: pa.Array | None = None) -> Typed:
    """Read a column in one way; `cells` are its cells as text, where they are known already."""
    if isinstance(reading, (Epoch, Compact)):
        values: NDArray[Any] = reading.read(read_numbers_or_missing(series))
        return Typed(values, is_none(values) & series.notna().to_numpy())
    cells = trim_text(series) if cells is None else cells
    values = read_text(cells, reading)
    is_bad = is_none(values) & np.asarray(cells.is_valid())
    if not isinstance(reading, WrittenNumbers) or not reading.factors:
        return Typed(values, is_bad)
    return Typed(values, is_bad, reading.is_converted(cells) & ~is_bad)


def make_outcome(series: pd.Series, reading: Reading, read: Typed) -> Outcome:
    """Return the outcome of a reading that was found to fit."""
    kind = KINDS[type(reading)]
    filled = read.values[~is_none(read.values)]
    is_constant = len(filled) > 0 and bool((filled == filled[0]).all())
    role = Role("constant" if is_constant else kind, reading.words, reading)
    column = _read_written_booleans(read.values) if kind == "boolean" else read.values
    return Outcome(role, pd.Series(column, index=series.index), tell_reading(series, kind, reading, read))


def _read_written_booleans(values: NDArray[Any]) -> Any:
    is_missing = np.isnan(values)
    flags = np.where(is_missing, 0, values).astype(bool)
    return pd.arrays.BooleanArray(flags, is_missing) if is_missing.any() else flags


def tell_reading(series: pd.Series, kind: str, reading: Reading, read: Typed) -> Notice | None:
    """Return how a column was read; None for what stands there as everyone writes it."""
    facts: dict[str, Any] = {"as": reading.words, "kind": kind}
    if read.is_converted is not None and read.is_converted.any():
        facts["converted"] = _count_such(series, read.is_converted)
    if read.is_bad.any():
        facts["unread"] = _count_such(series, read.is_bad)
    is_plain = reading.words in ("numbers", "dates, year first", "true or false")
    return None if is_plain and len(facts) == 2 else Notice("read_so", facts)


def _count_such(series: pd.Series, is_such: NDArray[np.bool_]) -> list[Any]:
    """How many cells there are, and the first of them."""
    return [int(is_such.sum()), show_cell(series.iloc[int(np.argmax(is_such))], 30)]


def reread(series: pd.Series, known: Role) -> Outcome:
    """Read a column as one of the same name was read before."""
    reading = known.reading
    if reading is None:
        return _make_labels(series, known) if known.kind == "category" else Outcome(known)
    if _is_typed(series, KINDS[type(reading)]):
        return Outcome(known)
    return make_outcome(series, reading, read_typed(series, reading))


def _is_typed(series: pd.Series, kind: str) -> bool:
    """Tell whether a column is stored as what its reading would make of it (money that has no sign here)."""
    stored = find_stored_kind(series)
    return stored == kind and not (kind == "date" and stored == "number")


def _make_labels(series: pd.Series, role: Role) -> Outcome:
    """Make numbers that name things a pandas category, which says so wherever the column goes."""
    return (
        Outcome(role, make_category(series))
        if find_stored_kind(series) in ("number", "boolean")
        else Outcome(role)
    )


def make_category(series: pd.Series) -> pd.Series:
    """Return numbers as a pandas category; whole ones stay whole where cells are missing (404, not 404.0)."""
    values = read_numbers_or_missing(series)
    filled = values[~np.isnan(values)]
    is_exact = (filled == np.round(filled)) & (np.abs(filled) <= EXACT)
    is_whole = pd.api.types.is_float_dtype(series.dtype) and bool(is_exact.all())
    cells = pd.array(values, dtype="Int64") if is_whole else series
    return pd.Series(pd.Categorical(cells), index=series.index)


def read_as(series: pd.Series, kind: str, layout: str) -> Outcome:
    """Read a column as its owner says it is."""
    if kind == "text":
        return Outcome(Role("text", "text, as requested"))
    if kind == "category":
        return _make_labels(series, Role("category", "categories, as requested"))
    if _is_typed(series, kind) and not layout:
        return Outcome(Role(kind, f"{kind}s, as requested"))
    reading = _learn_told_number(series) if kind == "number" else _learn_told_date(series, layout)
    read = read_typed(series, reading)
    if is_none(read.values).all() and not series.isna().all():
        raise _refuse_unread(series, kind, layout)
    found = make_outcome(series, reading, read)
    return Outcome(Role(kind, reading.words, reading), found.values, found.notice)


def _learn_told_number(series: pd.Series) -> Reading:
    probe = sample_of(trim_text(series))
    readable = [cell for cell in probe if find_numbers([cell]) is not None]
    return find_numbers(readable) or WrittenNumbers("numbers", ".")


def _learn_told_date(series: pd.Series, layout: str) -> Reading:
    if layout:
        return WrittenDates(layout)
    if find_stored_kind(series) == "number":
        return find_epoch(read_numbers_or_missing(series)) or Epoch("seconds")
    probe = sample_of(trim_text(series))
    dated = [cell for cell in probe if find_dates([cell], name_is_date=True) is not None]
    return find_dates(dated, name_is_date=True) or WrittenDates("year first")


def _refuse_unread(series: pd.Series, kind: str, layout: str) -> InvalidInput:
    example = show_cell(series.dropna().iloc[0], 40)
    how = f" written {layout}" if layout else ""
    advice = "Give its format, such as '%d.%m.%Y'." if kind == "date" else "Leave it out, or read it as text."
    return InvalidInput(
        f"No cell of column {series.name!r} is a {kind}{how}, as it was told to be; its first is {example}. "
        f"{advice}"
    )
