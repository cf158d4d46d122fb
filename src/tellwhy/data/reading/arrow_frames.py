"""Arrow tables as pandas frames with few, plain column types."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tellwhy.data.columns.labels import numbers_would_be_equal, would_be_equal


def frame_from_arrow(table: pa.Table) -> pd.DataFrame:
    """Return numbers, booleans, dates, text and categories; nested ones become text or columns."""
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    columns = [_make_plain_array(column) for column in table.columns]
    names = list(table.column_names)
    # Pandas makes objects of booleans with gaps; its own type 'boolean' knows missing cells.
    with_gaps = [i for i, c in enumerate(columns) if pa.types.is_boolean(c.type) and c.null_count]
    positions = [str(i) for i in range(len(names))]  # names may repeat; positions do not
    plain = pa.table(columns, names=positions)
    del table, columns  # so that Arrow can let go of each column once pandas has it
    frame = plain.to_pandas(split_blocks=True, self_destruct=True, date_as_object=False, ignore_metadata=True)
    for position in with_gaps:
        frame.isetitem(position, frame.iloc[:, position].astype("boolean"))
    frame.columns = pd.Index(names, dtype=object)
    return frame


def make_plain_column(series: pd.Series) -> pd.Series:
    """Return an Arrow-backed pandas column as one of the plain types."""
    frame = frame_from_arrow(pa.table({"column": pa.chunked_array(pa.array(series))}))
    return frame.iloc[:, 0].set_axis(series.index)


def _make_plain_array(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _make_plain_array(pc.cast(column, kind.storage_type))
    if pa.types.is_dictionary(kind):
        return column if _is_text(kind.value_type) else _make_plain_array(column.cast(kind.value_type))
    if pa.types.is_nested(kind):
        return _convert_to_text(column, lambda cell: json.dumps(cell, default=str, ensure_ascii=False))
    if _is_bytes(kind):
        return _convert_to_text(column, lambda cell: cell.decode("utf-8", errors="replace"))
    return _make_plain_values(column)


def _make_plain_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_decimal(kind):
        return _convert_decimals(column)
    if pa.types.is_null(kind) or pa.types.is_float16(kind):
        return column.cast(pa.float64())
    if has_unknown_zone(kind):
        return column.cast(pa.timestamp(kind.unit))  # the hour in UTC, which is what is stored
    if pa.types.is_interval(kind):  # months, days and nanoseconds, which only databases have
        column = _convert_to_text(column, str)
    # Pandas makes floats of whole numbers with gaps: long identifiers would run into one another.
    is_long = pa.types.is_integer(kind) and column.null_count > 0 and numbers_would_be_equal(column)
    is_worded = pa.types.is_time(kind) or str(kind) == "string_view"
    return column.cast(pa.string()) if is_long or is_worded else column


def _convert_decimals(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decimals without places after the point are whole numbers, and may be identifiers of many digits."""
    if column.type.scale <= 0:
        with suppress(pa.ArrowInvalid):
            return _make_plain_values(column.cast(pa.int64()))
        text = column.cast(pa.string())
        if would_be_equal(text):
            return text
    return column.cast(pa.float64())


def has_unknown_zone(kind: pa.DataType) -> bool:
    """Tell whether a type of times has a zone that this machine does not know."""
    if not pa.types.is_timestamp(kind) or kind.tz is None:
        return False
    try:
        pa.array([None], kind).to_pandas()
    except (pa.ArrowException, ValueError, LookupError):
        return True
    return False


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)


def _convert_to_text(column: pa.ChunkedArray, words: Callable[[Any], str]) -> pa.ChunkedArray:
    cells = (None if cell is None else words(cell) for cell in column.to_pylist())
    return pa.chunked_array([pa.array(cells, type=pa.string())])
