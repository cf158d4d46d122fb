"""Parquet, whole and in batches.

Parquet files.

Rows of a Parquet file, some at a time, for models that learn from batches.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tellwhy.core.errors import InvalidInput, UnreadableFile
from tellwhy.core.progress import track
from tellwhy.core.score import Floats
from tellwhy.data.reading import bytes as byte_source
from tellwhy.data.reading.arrow_frames import frame_from_arrow, has_unknown_zone
from tellwhy.data.reading.bytes import ByteSource, check_is_file, refuse_too_large
from tellwhy.data.table import check_unique
from tellwhy.results.notice import Notice

# Bytes of a value in memory, by how it is stored; texts are counted by their own length beside it.
_WIDTHS = {"BOOLEAN": 1, "FLOAT": 4}
_WIDTH = 8
_PROBE_BUFFER = 2**16
_ROWS = 2**11  # that are read at a time where columns hold lists


def read_parquet(source: ByteSource) -> tuple[pd.DataFrame, list[Notice]]:
    """Return the rows of a Parquet file; what it says of its pages (checksums) is checked."""
    with source.open() as stream, name_damages(source.path):
        # Parquet is read from its end: what is packed must be unpacked in memory first.
        is_plain = source.packing == "none"
        content = pa.OSFile(os.fsencode(source.path)) if is_plain else pa.BufferReader(stream.read())
        with content, pq.ParquetFile(content, page_checksum_verification=True) as file:
            names = [str(name) for name in file.schema_arrow.names]
            check_unique(names, where=str(source.path))
            check_decoded_size(file, content, source.path)
            table = _read(file, source.path)
        _check_values(table, source.path)
        if table.num_rows == 0 or table.num_columns == 0:
            raise UnreadableFile(
                f"{source.path} has {table.num_columns} columns and {table.num_rows} data rows; expected at "
                "least one of each."
            )
        return frame_from_arrow(table), _collect_notices(table.schema)


def _collect_notices(schema: pa.Schema) -> list[Notice]:
    unknown = [field for field in schema if has_unknown_zone(field.type)]
    return [Notice("unknown_zone", {"column": field.name, "zone": field.type.tz}) for field in unknown]


def _read(file: pq.ParquetFile, path: Path) -> pa.Table:
    """Read all columns; where there are lists, whose lengths nobody states, some rows at a time."""
    if not any(file.schema.column(i).max_repetition_level for i in range(len(file.schema))):
        return file.read()
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in file.iter_batches(batch_size=_ROWS):
        size += batch.nbytes
        if size > byte_source.LARGEST_UNPACKED:
            raise refuse_too_large(path)
        batches.append(batch)
    return pa.Table.from_batches(batches, schema=file.schema_arrow)


@contextmanager
def name_damages(path: Path) -> Iterator[None]:
    """Turn what Arrow raises for a damaged file into `UnreadableFile`."""
    try:
        yield
    except UnreadableFile:
        raise
    except (pa.ArrowException, OSError, UnicodeError, OverflowError) as error:
        raise UnreadableFile(
            f"{path} cannot be read as Parquet: it is damaged or was not written to the end "
            f"({_take_first_line(error)}). Write or fetch it again."
        ) from error


def check_decoded_size(file: pq.ParquetFile, content: pa.NativeFile, path: Path) -> None:
    """Raise, before values are decoded, for a file whose values take more memory than is accepted.

    A value that repeats takes hardly any room in the file, however long it is: the sizes that the file states
    say little about the memory that its values need.
    """
    # What a file says of single columns is not asked for: Arrow ends the process where that is damaged.
    leaves = [file.schema.column(i) for i in range(len(file.schema))]
    width = sum(_WIDTHS.get(leaf.physical_type, _WIDTH) for leaf in leaves)
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    stated = sum(group.total_byte_size + group.num_rows * width for group in groups)
    repeated = {
        (i, leaf.path): group.num_rows * group.total_byte_size
        for i, group in enumerate(groups)
        for leaf in leaves
        if leaf.physical_type.endswith("BYTE_ARRAY") and leaf.max_repetition_level == 0
    }
    total = stated + sum(repeated.values())
    for measure in (_bound_by_longest_entry, _measure_by_every_entry):
        for place in sorted(repeated, key=repeated.__getitem__, reverse=True):
            if total <= byte_source.LARGEST_UNPACKED:
                return
            total -= repeated[place]
            repeated[place] = measure(content, file.metadata, *place)
            total += repeated[place]
    if total > byte_source.LARGEST_UNPACKED:
        raise refuse_too_large(path)


def _bound_by_longest_entry(content: pa.NativeFile, metadata: pq.FileMetaData, group: int, name: str) -> int:
    """Size of a column of text if every row held its longest one; only its dictionary is decoded."""
    file = _read_with_dictionary(content, metadata, name)
    batches = file.iter_batches(batch_size=1, row_groups=[group], columns=[name], use_threads=False)
    batch = next(iter(batches), None)  # none where the row group is empty
    longest = 0 if batch is None else max(_measure_lengths(batch.column(0))[0], default=0)
    return int(metadata.row_group(group).num_rows * longest)


def _measure_by_every_entry(content: pa.NativeFile, metadata: pq.FileMetaData, group: int, name: str) -> int:
    """Size of a column of text, from its dictionary and how often each entry is used."""
    table = _read_with_dictionary(content, metadata, name).read_row_group(group, columns=[name])
    sizes = 0
    for chunk in table.column(0).chunks:
        lengths, used = _measure_lengths(chunk)
        sizes += int(np.asarray(lengths)[np.asarray(used.drop_null(), dtype=np.int64)].sum())
    return sizes


def _read_with_dictionary(content: pa.NativeFile, metadata: pq.FileMetaData, name: str) -> pq.ParquetFile:
    # Without a buffer of its own Arrow would fetch the whole column for its first row.
    settings = {"pre_buffer": False, "buffer_size": _PROBE_BUFFER, "page_checksum_verification": True}
    return pq.ParquetFile(content, metadata=metadata, read_dictionary=[name], **settings)


def _measure_lengths(column: pa.Array) -> tuple[list[int], pa.Array]:
    """Lengths of the entries of a column's dictionary, and which entry each row has."""
    while pa.types.is_struct(column.type):  # a column inside others
        column = column.field(0)
    if not pa.types.is_dictionary(column.type):  # texts that are no text (decimals) repeat nothing long
        return [0], pa.array([], pa.int64())
    return pc.fill_null(pc.binary_length(column.dictionary), 0).to_pylist(), column.indices


def _check_values(table: pa.Table, path: Path) -> None:
    """Raise for texts that are none, which pandas would only find when somebody looks at them."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not pa.types.is_primitive(column.type):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                raise UnreadableFile(
                    f"{path}, column {name!r}: {_take_first_line(error)}. The file is damaged; "
                    "write or fetch it again."
                ) from error


def _take_first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__


def parquet_batches(
    path: str | Path, target: str | None = None, *, n_rows: int = 65_536
) -> Iterator[tuple[Floats, NDArray[Any] | None]]:
    """Yield (X, y) of at most `n_rows` rows of a Parquet file at a time; y is None without a target column.

    Every column but the target must hold numbers. Row groups are read one after the other, so that memory
    stays that of a row group.

    Examples
    --------
    >>> import tempfile
    >>> table = pa.table({"a": [1.0, 2.0, 3.0], "b": [0, 1, 0], "label": ["x", "y", "x"]})
    >>> with tempfile.TemporaryDirectory() as place:
    ...     pq.write_table(table, place + "/rows.parquet")
    ...     for X, y in parquet_batches(place + "/rows.parquet", "label", n_rows=2):
    ...         print(X.tolist(), y.tolist())
    [[1.0, 0.0], [2.0, 1.0]] ['x', 'y']
    [[3.0, 0.0]] ['x']
    """
    check_is_file(Path(path))  # opening a pipe would wait for somebody to write into it
    with name_damages(Path(path)), pq.ParquetFile(path, page_checksum_verification=True) as file:
        columns = _choose_number_columns(file.schema_arrow, target, path)
        total = -(-file.metadata.num_rows // n_rows)
        for batch in track(file.iter_batches(batch_size=n_rows), total, f"reading {Path(path).name}"):
            X = np.column_stack([_read_numbers(batch.column(name)) for name in columns])
            yield X, None if target is None else batch.column(target).to_numpy(zero_copy_only=False)


def _choose_number_columns(schema: pa.Schema, target: str | None, path: str | Path) -> list[str]:
    if target is not None and target not in schema.names:
        raise InvalidInput(f"{path} has no column {target!r}. It has: {', '.join(schema.names)}.")
    columns = [name for name in schema.names if name != target]
    for name in columns:
        kind = schema.field(name).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise InvalidInput(
                f"Column {name!r} of {path} holds {kind}; expected numbers. Encode it, or leave it out of "
                "the file."
            )
    return columns


def _read_numbers(column: pa.Array) -> Floats:
    """Return a column as floats; what is missing becomes NaN."""
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
