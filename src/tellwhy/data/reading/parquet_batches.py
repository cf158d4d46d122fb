"""Rows of a Parquet file, some at a time, for models that learn from batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tellwhy.core.errors import InvalidInput
from tellwhy.core.progress import track
from tellwhy.core.score_function import Floats
from tellwhy.data.reading.byte_source import check_is_file
from tellwhy.data.reading.parquet import damages


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
    with damages(Path(path)), pq.ParquetFile(path, page_checksum_verification=True) as file:
        columns = _number_columns(file.schema_arrow, target, path)
        total = -(-file.metadata.num_rows // n_rows)
        for batch in track(file.iter_batches(batch_size=n_rows), total, f"reading {Path(path).name}"):
            X = np.column_stack([_numbers(batch.column(name)) for name in columns])
            yield X, None if target is None else batch.column(target).to_numpy(zero_copy_only=False)


def _number_columns(schema: pa.Schema, target: str | None, path: str | Path) -> list[str]:
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


def _numbers(column: pa.Array) -> Floats:
    """Return a column as floats; what is missing becomes NaN."""
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
