"""Tables out of requests: JSON, Arrow and CSV; what cannot be used is refused by its cell."""

from __future__ import annotations

import asyncio
import json
import struct
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.types import is_float_dtype
from starlette.exceptions import HTTPException
from starlette.requests import Request

from tellwhy.core.errors import InvalidInput
from tellwhy.data.reading.arrow_frames import frame_from_arrow
from tellwhy.data.reading.bytes import locate
from tellwhy.data.reading.cells import make_frame
from tellwhy.data.reading.delimited import read_delimited
from tellwhy.data.table import check_unique
from tellwhy.views.server.service.limits import Limits

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
CSV = "text/csv"
NOT_JSON = 400
TOO_SLOW = 408
TOO_LARGE = 413
UNKNOWN_FORM = 415
UNUSABLE = 422


@dataclass(frozen=True)
class Body:
    """The table of a request, and what else it says."""

    frame: pd.DataFrame
    asked: Mapping[str, Any] = field(default_factory=dict)


async def read_bytes(request: Request, limits: Limits) -> bytes:
    """Read the body of a request, as long as it keeps coming."""
    try:
        async with asyncio.timeout(limits.body_seconds):
            return await request.body()
    except TimeoutError:
        raise HTTPException(
            TOO_SLOW, f"The body did not come in within {limits.body_seconds:g} s.", {"connection": "close"}
        ) from None


def read_body(content: bytes, form: str, limits: Limits) -> Body:
    """Return the table that a body holds, by its media type."""
    kind = form.partition(";")[0].strip().lower() or JSON
    if kind == JSON:
        return _body_of_json(read_json(content), limits)
    if kind not in _TABLES:
        raise HTTPException(UNKNOWN_FORM, f"Send {JSON}, {ARROW} or {CSV}. Got {kind[:80]!r}.")
    return Body(_TABLES[kind](content, limits))


def read_json(content: bytes) -> dict[str, Any]:
    """Return the object that a body is."""
    try:
        found = json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise HTTPException(NOT_JSON, f"The body is no JSON: {str(error)[:200]}.") from None
    if not isinstance(found, dict):
        raise HTTPException(UNUSABLE, "The body must be a JSON object.")
    return found


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number; a missing cell is null")


def _body_of_json(told: Mapping[str, Any], limits: Limits) -> Body:
    rest = {name: value for name, value in told.items() if name not in ("rows", "columns")}
    if "rows" in told:
        return Body(frame_of_rows(told["rows"], told.get("columns"), limits), rest)
    raise HTTPException(UNUSABLE, "The body has no 'rows': a list of objects, or of lists beside 'columns'.")


def frame_of_rows(rows: Any, columns: Any, limits: Limits) -> pd.DataFrame:
    """Return a table from a list of objects, or of lists in the order of `columns`."""
    if not isinstance(rows, list) or not rows:
        raise HTTPException(UNUSABLE, "'rows' must be a list with at least one row.")
    check_size(len(rows), 1, limits)
    if columns is not None:
        rows = _named_rows(rows, columns)
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise HTTPException(UNUSABLE, f"Row {number} must be an object of column: cell.")
        _check_cells(row, number)
    check_size(len(rows), len(set().union(*rows[:100])), limits)
    try:
        frame = make_frame(rows, "The request")
    except (InvalidInput, OverflowError, pa.ArrowException) as error:
        raise HTTPException(UNUSABLE, f"The rows are no table: {error}") from None
    return checked(frame, limits)


def _named_rows(rows: list[Any], columns: Any) -> list[dict[str, Any]]:
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise HTTPException(UNUSABLE, "'columns' must be a list of names.")
    if len(set(columns)) < len(columns):
        raise HTTPException(UNUSABLE, "'columns' names a column twice.")
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != len(columns):
            n = f"{len(row)} cells" if isinstance(row, list) else type(row).__name__
            raise HTTPException(
                UNUSABLE, f"Row {number} must be a list of {len(columns)} cells, as 'columns' has. Got {n}."
            )
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _check_cells(row: Mapping[str, Any], number: int) -> None:
    for name, cell in row.items():
        if isinstance(cell, float) and not np.isfinite(cell):
            raise unusable_cell(number, name, "is no finite number")
        if isinstance(cell, (dict, list)):
            raise unusable_cell(number, name, "is a list or an object; expected a single value")
        if isinstance(cell, int) and abs(cell) >= 2**63:
            raise unusable_cell(number, name, "is a whole number of more than 64 bits; send it as text")
        if isinstance(cell, str):
            _check_text(cell, number, name)


def _check_text(cell: str, number: int, name: str) -> None:
    try:
        cell.encode("utf-8")
    except UnicodeEncodeError:
        raise unusable_cell(number, name, "holds half a character (a lone surrogate)") from None


def unusable_cell(row: int, column: str, why: str) -> HTTPException:
    """The refusal of one cell."""
    told = column.encode("utf-8", errors="replace").decode("utf-8")[:80]
    return HTTPException(UNUSABLE, f"Row {row}, column {told!r}: the cell {why}.")


def check_size(n_rows: int, n_columns: int, limits: Limits) -> None:
    """Refuse tables that are too large."""
    if n_rows > limits.most_rows:
        raise HTTPException(
            TOO_LARGE, f"The request holds {n_rows:,} rows; at most {limits.most_rows:,} are taken at a time."
        )
    if n_columns > limits.most_columns:
        raise HTTPException(
            TOO_LARGE, f"The request holds {n_columns:,} columns; at most {limits.most_columns:,} are taken."
        )


def checked(frame: pd.DataFrame, limits: Limits) -> pd.DataFrame:
    """Return a table whose numbers are finite; missing cells may be among them."""
    check_size(len(frame), frame.shape[1], limits)
    if not frame.shape[1]:
        raise HTTPException(UNUSABLE, "The request holds no columns.")
    for name in frame.columns:
        if is_float_dtype(frame[name].dtype):
            is_wrong = np.isinf(frame[name].to_numpy(dtype=np.float64, na_value=np.nan))
            if is_wrong.any():
                raise unusable_cell(int(np.argmax(is_wrong)), str(name), "is no finite number")
    return frame


def _table_of_csv(content: bytes, limits: Limits) -> pd.DataFrame:
    """Read delimited text as a file is read."""
    check_size(content.count(b"\n") - 1, 1, limits)
    with tempfile.TemporaryDirectory(prefix="tellwhy-") as folder:
        path = Path(folder) / "request.csv"
        path.write_bytes(content)
        try:
            source = locate(path)
            if source.packing != "none":
                raise HTTPException(UNKNOWN_FORM, "The text is packed; send it as it is.")
            frame, _ = read_delimited(source, delimiter=None, decimal=None, encoding=None)
        except InvalidInput as error:
            raise HTTPException(UNUSABLE, str(error).replace(str(path), "the request")) from None
    return checked(frame, limits)


def _table_of_arrow(content: bytes, limits: Limits) -> pd.DataFrame:
    """Read an Arrow stream, batch by batch; packed buffers are refused, which may hold any amount."""
    try:
        if _is_packed(content):
            raise HTTPException(UNKNOWN_FORM, "The Arrow stream is compressed; send it without compression.")
        batches = []
        n_rows = 0
        with pa.ipc.open_stream(content) as stream:
            check_size(0, len(stream.schema), limits)
            for batch in stream:
                n_rows += batch.num_rows
                check_size(n_rows, batch.num_columns, limits)
                batch.validate(full=True)
                batches.append(batch)
            table = pa.Table.from_batches(batches, stream.schema)
        _check_floats(table)
        check_unique(table.column_names, where="The request")
        return checked(frame_from_arrow(table), limits)
    except InvalidInput as error:
        raise HTTPException(UNUSABLE, str(error)) from None
    except (pa.ArrowException, ValueError, OSError, struct.error) as error:
        raise HTTPException(NOT_JSON, f"The body is no Arrow stream: {str(error)[:200]}.") from None


def _check_floats(table: pa.Table) -> None:
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_floating(column.type):
            numbers = column.to_numpy()
            is_wrong = ~np.isfinite(numbers.astype(np.float64)) & ~column.is_null().to_numpy()
            if is_wrong.any():
                raise unusable_cell(int(np.argmax(is_wrong)), name, "is no finite number; send null")


def _is_packed(content: bytes) -> bool:
    """Whether any batch of a stream has compressed buffers, as the description of the batch says."""
    messages = pa.ipc.MessageReader.open_stream(pa.BufferReader(content))
    return any(_has_compression(bytes(message.metadata)) for message in messages)


_DICTIONARY, _BATCH = 2, 3  # kinds of messages that hold buffers


def _has_compression(told: bytes) -> bool:
    """Whether the flatbuffer of a message names a compression: field 3 of its batch of records."""
    root = struct.unpack_from("<I", told, 0)[0]
    kind_at = _field(told, root, 1)
    kind = told[kind_at] if kind_at else 0
    if kind not in (_DICTIONARY, _BATCH):
        return False
    batch = _below(told, _field(told, root, 2))
    if kind == _DICTIONARY:
        batch = _below(told, _field(told, batch, 1))
    return bool(_field(told, batch, 3))


def _field(told: bytes, table: int, number: int) -> int:
    """Place of a field of a flatbuffer's table; 0 where it is not there."""
    layout = table - struct.unpack_from("<i", told, table)[0]
    size = struct.unpack_from("<H", told, layout)[0]
    if 4 + 2 * number >= size:
        return 0
    offset = struct.unpack_from("<H", told, layout + 4 + 2 * number)[0]
    return table + offset if offset else 0


def _below(told: bytes, place: int) -> int:
    return place + struct.unpack_from("<I", told, place)[0]


_TABLES: Mapping[str, Callable[[bytes, Limits], pd.DataFrame]] = {
    ARROW: _table_of_arrow,
    CSV: _table_of_csv,
}


def check_columns(frame: pd.DataFrame, needed: Sequence[str]) -> None:
    """Refuse rows that lack a column of the model."""
    absent = [name for name in needed if name not in frame.columns]
    if absent:
        listed = ", ".join(map(repr, absent[:5]))
        raise HTTPException(UNUSABLE, f"The rows lack {len(absent)} column(s) of the model: {listed}.")
