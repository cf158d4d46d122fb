"""One column read in one way: its typed values, its role, and what to tell of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tellwhy.core.errors import InvalidInput
from tellwhy.core.tables import evenly_spread
from tellwhy.data.columns.values import numbers_or_missing, stored_kind
from tellwhy.data.columns.written.booleans import WrittenBooleans
from tellwhy.data.columns.written.dates import WrittenDates, find_dates
from tellwhy.data.columns.written.identifiers import EXACT
from tellwhy.data.columns.written.numbers import WrittenNumbers, find_numbers
from tellwhy.data.columns.written.times import Compact, Epoch, WrittenTimes, find_epoch
from tellwhy.data.places import shown
from tellwhy.data.reading.records import text_array
from tellwhy.data.reading.text_cells import MISSING_WORDS

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


@dataclass(frozen=True, eq=False)
class Outcome:
    """A column's role, its values where they are not as they stand, and a sentence where there is one."""

    role: Role
    values: Any = None
    notice: str = ""


def text_of(series: pd.Series) -> pa.Array:
    """Return a column as trimmed text, null where it is missing or says so in words."""
    if pd.api.types.is_string_dtype(series.dtype) and not pd.api.types.is_object_dtype(series.dtype):
        cells = pa.array(series.array, from_pandas=True)
    else:
        gaps = series.isna()
        cells = text_array([None if gap else str(cell) for cell, gap in zip(series, gaps, strict=True)])
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    return _blanked(cells.cast(pa.large_string()))


def _blanked(cells: pa.Array) -> pa.Array:
    trimmed = pc.utf8_trim_whitespace(cells)
    words = pa.array(MISSING_WORDS, pa.large_string())
    is_short = pc.less_equal(pc.utf8_length(trimmed), max(map(len, MISSING_WORDS)))
    if not pc.any(is_short).as_py():  # no cell can be a missing word
        return trimmed
    return pc.if_else(pc.is_in(pc.utf8_lower(trimmed), value_set=words), None, trimmed)


def sample_of(cells: pa.Array) -> list[str]:
    """Return up to 2,000 filled cells, evenly spread."""
    filled = pc.drop_null(cells)
    return list(filled.take(pa.array(evenly_spread(len(filled), _SAMPLE))).to_pylist()) if len(filled) else []


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


def typed(series: pd.Series, reading: Reading, cells: pa.Array | None = None) -> Typed:
    """Read a column in one way; `cells` are its cells as text, where they are known already."""
    if isinstance(reading, (Epoch, Compact)):
        values: NDArray[Any] = reading.read(numbers_or_missing(series))
        return Typed(values, is_none(values) & series.notna().to_numpy())
    cells = text_of(series) if cells is None else cells
    values = read_text(cells, reading)
    is_bad = is_none(values) & np.asarray(cells.is_valid())
    if not isinstance(reading, WrittenNumbers) or not reading.factors:
        return Typed(values, is_bad)
    return Typed(values, is_bad, reading.is_converted(cells) & ~is_bad)


def outcome_of(series: pd.Series, reading: Reading, read: Typed) -> Outcome:
    """Return the outcome of a reading that was found to fit."""
    kind = KINDS[type(reading)]
    filled = read.values[~is_none(read.values)]
    is_constant = len(filled) > 0 and bool((filled == filled[0]).all())
    role = Role("constant" if is_constant else kind, reading.words, reading)
    column = _booleans(read.values) if kind == "boolean" else read.values
    return Outcome(role, pd.Series(column, index=series.index), said(series, kind, reading, read))


def _booleans(values: NDArray[Any]) -> Any:
    is_missing = np.isnan(values)
    flags = np.where(is_missing, 0, values).astype(bool)
    return pd.arrays.BooleanArray(flags, is_missing) if is_missing.any() else flags


def said(series: pd.Series, kind: str, reading: Reading, read: Typed) -> str:
    """Return the sentence on how a column was read; none for what stands there as everyone writes it."""
    told = reading.words if kind == "date" else f"{reading.words}, read as {kind}s"
    parts = [told.removeprefix("numbers, ")]
    if read.is_converted is not None and read.is_converted.any():
        parts.append(f"{_such(series, read.is_converted)} converted")
    if read.is_bad.any():
        parts.append(f"{_such(series, read.is_bad)} not written so and taken as missing")
    is_plain = reading.words in ("numbers", "dates, year first", "true or false")
    return "" if is_plain and len(parts) == 1 else "; ".join(parts) + "."


def _such(series: pd.Series, is_such: NDArray[np.bool_]) -> str:
    """'3 cells such as '1,2 kg' are', for a sentence that goes on with what they are."""
    n = int(is_such.sum())
    example = shown(series.iloc[int(np.argmax(is_such))], 30)
    return f"one cell, {example}, is" if n == 1 else f"{n:,} cells such as {example} are"


def reread(series: pd.Series, known: Role) -> Outcome:
    """Read a column as one of the same name was read before."""
    reading = known.reading
    if reading is None:
        return _as_labels(series, known) if known.kind == "category" else Outcome(known)
    if _is_typed(series, KINDS[type(reading)]):
        return Outcome(known)
    return outcome_of(series, reading, typed(series, reading))


def _is_typed(series: pd.Series, kind: str) -> bool:
    """Tell whether a column is stored as what its reading would make of it (money that has no sign here)."""
    stored = stored_kind(series)
    return stored == kind and not (kind == "date" and stored == "number")


def _as_labels(series: pd.Series, role: Role) -> Outcome:
    """Make numbers that name things a pandas category, which says so wherever the column goes."""
    return Outcome(role, labelled(series)) if stored_kind(series) in ("number", "boolean") else Outcome(role)


def labelled(series: pd.Series) -> pd.Series:
    """Return numbers as a pandas category; whole ones stay whole where cells are missing (404, not 404.0)."""
    values = numbers_or_missing(series)
    filled = values[~np.isnan(values)]
    is_exact = (filled == np.round(filled)) & (np.abs(filled) <= EXACT)
    is_whole = pd.api.types.is_float_dtype(series.dtype) and bool(is_exact.all())
    cells = pd.array(values, dtype="Int64") if is_whole else series
    return pd.Series(pd.Categorical(cells), index=series.index)


def read_as(series: pd.Series, kind: str, layout: str) -> Outcome:
    """Read a column as its owner says it is."""
    if kind == "text":
        return Outcome(Role("text", "text, as told"))
    if kind == "category":
        return _as_labels(series, Role("category", "categories, as told"))
    if _is_typed(series, kind) and not layout:
        return Outcome(Role(kind, f"{kind}s, as told"))
    reading = _told_number(series) if kind == "number" else _told_date(series, layout)
    read = typed(series, reading)
    if is_none(read.values).all() and not series.isna().all():
        raise _not_read(series, kind, layout)
    found = outcome_of(series, reading, read)
    return Outcome(Role(kind, reading.words, reading), found.values, found.notice)


def _told_number(series: pd.Series) -> Reading:
    probe = sample_of(text_of(series))
    readable = [cell for cell in probe if find_numbers([cell]) is not None]
    return find_numbers(readable) or WrittenNumbers("numbers", ".")


def _told_date(series: pd.Series, layout: str) -> Reading:
    if layout:
        return WrittenDates(layout)
    if stored_kind(series) == "number":
        return find_epoch(numbers_or_missing(series)) or Epoch("seconds")
    probe = sample_of(text_of(series))
    dated = [cell for cell in probe if find_dates([cell], name_is_date=True) is not None]
    return find_dates(dated, name_is_date=True) or WrittenDates("year first")


def _not_read(series: pd.Series, kind: str, layout: str) -> InvalidInput:
    example = shown(series.dropna().iloc[0], 40)
    how = f" written {layout}" if layout else ""
    advice = "Give its format, such as '%d.%m.%Y'." if kind == "date" else "Leave it out, or read it as text."
    return InvalidInput(
        f"No cell of column {series.name!r} is a {kind}{how}, as it was told to be; its first is {example}. "
        f"{advice}"
    )
