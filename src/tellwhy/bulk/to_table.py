"""What a run block by block found, as rows of a table: a line for each row that was judged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tellwhy.bulk.parts import PARTS, ROWS, name_part, read_record
from tellwhy.core.errors import InvalidParameter
from tellwhy.data.databases import write_table

REASONS = ("reason_1", "reason_2", "reason_3")
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("score", pa.float64()),
        ("is_alarm", pa.bool_()),
        ("p_value", pa.float64()),
        *((name, pa.string()) for name in REASONS),
    ]
)


def write_run(out: Path, n_blocks: int, id_column: str | None, db: str, name: str) -> int:
    """Write scores, alarms and reasons of a finished run into a new table of a database; return its rows.

    Parameters
    ----------
    out, n_blocks
        The folder of the run, whose rows came from a query, and its blocks.
    id_column
        Column of the query that names rows: the only thing that a row of a database is known by.
    db, name
        The database, and the table, which must not be there.
    """
    if id_column is None:
        raise InvalidParameter("--to-table needs --id, the column by which the rows of the table are known.")
    with pq.ParquetFile(out / ROWS) as rows:
        if id_column not in rows.schema_arrow.names:
            raise InvalidParameter(f"The query gives no column {id_column!r}, which --id names.")
        names = (batch.column(0).cast(pa.string()) for batch in rows.iter_batches(columns=[id_column]))
        return write_table(db, name, SCHEMA, _lines(out, n_blocks, names))


def _lines(out: Path, n_blocks: int, names: Iterator[pa.Array]) -> Iterator[pa.RecordBatch]:
    """The lines of each block in turn; blocks are in the order of the rows of the query."""
    left = pa.array([], pa.string())
    for number in range(n_blocks):
        record = read_record(out, number)
        if record is None or not record.parts:
            raise InvalidParameter(
                f"Block {number} of the run in {out} was not explained; nothing was written."
            )
        scores = pq.read_table(
            out / PARTS / name_part(number, "scores"), columns=["row", "score", "is_alarm"]
        )
        while len(left) < len(scores):
            left = pa.concat_arrays([left, next(names)])
        yield _batch(out, number, scores, left[: len(scores)])
        left = left[len(scores) :]


def _batch(out: Path, number: int, scores: pa.Table, names: pa.Array) -> pa.RecordBatch:
    alarms = pq.read_table(out / PARTS / name_part(number, "alarms"), columns=["row", "p_value", *REASONS])
    place = pc.index_in(scores["row"].combine_chunks(), value_set=alarms["row"].combine_chunks())
    told = [alarms[name].combine_chunks().take(place) for name in ("p_value", *REASONS)]
    score = scores["score"].combine_chunks()
    is_alarm = scores["is_alarm"].combine_chunks()
    return pa.RecordBatch.from_arrays([names, score, is_alarm, *told], schema=SCHEMA)
