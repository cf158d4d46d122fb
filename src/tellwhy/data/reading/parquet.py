"""Parquet files."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tellwhy.core.errors import UnreadableFile
from tellwhy.data.reading.arrow_frames import frame_from_arrow
from tellwhy.data.reading.byte_source import LARGEST_UNPACKED, ByteSource, too_large
from tellwhy.data.table import check_unique


def read_parquet(source: ByteSource) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of a Parquet file."""
    try:
        with source.open() as stream:
            # Parquet is read from its end: what is packed must be unpacked in memory first.
            is_plain = source.packing == "none"
            content = pa.OSFile(str(source.path)) if is_plain else pa.BufferReader(stream.read())
            with content, pq.ParquetFile(content) as file:
                names = [str(name) for name in file.schema_arrow.names]
                check_unique(names, where=str(source.path))
                if _unpacked_size(file.metadata) > LARGEST_UNPACKED:
                    raise too_large(source.path)
                table = file.read()
    except (pa.ArrowException, OSError) as error:
        raise UnreadableFile(
            f"{source.path} cannot be read as Parquet: it is damaged or was not written to the end "
            f"({_first(error)}). Write or fetch it again."
        ) from error
    if table.num_rows == 0 or table.num_columns == 0:
        raise UnreadableFile(
            f"{source.path} has {table.num_columns} columns and {table.num_rows} data rows; expected at "
            "least one of each."
        )
    return frame_from_arrow(table), []


def _unpacked_size(metadata: pq.FileMetaData) -> int:
    return sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))


def _first(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
