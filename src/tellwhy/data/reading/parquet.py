"""Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tellwhy.core.errors import UnreadableFile
from tellwhy.data.reading import byte_source
from tellwhy.data.reading.arrow_frames import frame_from_arrow, has_unknown_zone
from tellwhy.data.reading.byte_source import ByteSource, too_large
from tellwhy.data.table import check_unique

# Bytes of a value in memory, by how it is stored; texts are counted by their own length beside it.
_WIDTHS = {"BOOLEAN": 1, "FLOAT": 4}
_WIDTH = 8
_PROBE_BUFFER = 2**16


def read_parquet(source: ByteSource) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of a Parquet file; what it says of its pages (checksums) is checked."""
    with source.open() as stream, damages(source.path):
        # Parquet is read from its end: what is packed must be unpacked in memory first.
        is_plain = source.packing == "none"
        content = pa.OSFile(os.fsencode(source.path)) if is_plain else pa.BufferReader(stream.read())
        with content, pq.ParquetFile(content, page_checksum_verification=True) as file:
            names = [str(name) for name in file.schema_arrow.names]
            check_unique(names, where=str(source.path))
            check_decoded_size(file, content, source.path)
            table = file.read()
        _check_values(table, source.path)
        if table.num_rows == 0 or table.num_columns == 0:
            raise UnreadableFile(
                f"{source.path} has {table.num_columns} columns and {table.num_rows} data rows; expected at "
                "least one of each."
            )
        return frame_from_arrow(table), _notices(table.schema)


def _notices(schema: pa.Schema) -> list[str]:
    unknown = [field for field in schema if has_unknown_zone(field.type)]
    return [f"Column {f.name!r}: the time zone {f.type.tz!r} is not known; read as UTC." for f in unknown]


@contextmanager
def damages(path: Path) -> Iterator[None]:
    """Turn what Arrow raises for a damaged file into `UnreadableFile`."""
    try:
        yield
    except UnreadableFile:
        raise
    except (pa.ArrowException, OSError, UnicodeError, OverflowError) as error:
        raise UnreadableFile(
            f"{path} cannot be read as Parquet: it is damaged or was not written to the end "
            f"({_first(error)}). Write or fetch it again."
        ) from error


def check_decoded_size(file: pq.ParquetFile, content: pa.NativeFile, path: Path) -> None:
    """Raise, before any value is decoded, for a file whose values take more memory than is accepted.

    A value that repeats takes hardly any room in the file, however long it is: the sizes that the file states
    say little about the memory that its values need.
    """
    metadata = file.metadata
    limit = byte_source.LARGEST_UNPACKED
    fixed = 0
    texts: list[tuple[int, int, int]] = []  # largest size possible, row group, column
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group)
        for place in range(rows.num_columns):
            chunk = rows.column(place)
            fixed += chunk.num_values * _WIDTHS.get(chunk.physical_type, _WIDTH)
            if chunk.physical_type.endswith("BYTE_ARRAY"):
                repeats = chunk.num_values if chunk.has_dictionary_page else 1
                texts.append((chunk.total_uncompressed_size * max(repeats, 1), group, place))
    most = sum(size for size, _, _ in texts)
    # The longest entry of a dictionary bounds a text column far better than the size of its pages.
    for size, group, place in sorted(texts, reverse=True):
        if fixed + most <= limit:
            break
        chunk = metadata.row_group(group).column(place)
        longest = _longest_entry(content, metadata, group, chunk.path_in_schema)
        most += min(size, chunk.total_uncompressed_size + chunk.num_values * longest) - size
    if fixed + most > limit:
        raise too_large(path)


def _longest_entry(content: pa.NativeFile, metadata: pq.FileMetaData, group: int, name: str) -> int:
    """Length of the longest text that a column of a row group can repeat; only its dictionary is decoded."""
    # Without a buffer of its own Arrow would fetch the whole column for the first row.
    file = pq.ParquetFile(
        content, metadata=metadata, read_dictionary=[name], pre_buffer=False, buffer_size=_PROBE_BUFFER
    )
    batches = file.iter_batches(batch_size=1, row_groups=[group], columns=[name], use_threads=False)
    batch = next(iter(batches), None)  # none where the row group is empty
    return 0 if batch is None else max(map(_longest, batch.columns), default=0)


def _longest(column: pa.Array) -> int:
    if pa.types.is_dictionary(column.type):
        return int(pc.max(pc.binary_length(column.dictionary)).as_py() or 0)
    if pa.types.is_struct(column.type):
        return max(map(_longest, column.flatten()), default=0)
    return _longest(column.flatten()) if pa.types.is_nested(column.type) else int(column.nbytes)


def _check_values(table: pa.Table, path: Path) -> None:
    """Raise for texts that are none, which pandas would only find when somebody looks at them."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not pa.types.is_primitive(column.type):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                raise UnreadableFile(
                    f"{path}, column {name!r}: {_first(error)}. The file is damaged; write or fetch it again."
                ) from error


def _first(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
