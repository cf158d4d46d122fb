"""What a block leaves on the disk: parts of Parquet, and a record that is written last.

A block is done when its record is there and the parts that it names have the size and the checksum that it
says. Everything is written under another name first, settled on the disk, and takes its place in one step: a
process may be killed at any moment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tellwhy.core.errors import CannotWrite
from tellwhy.storage.documents import make_plain
from tellwhy.storage.folders import put_in_place
from tellwhy.storage.manifest import measure_file

PARTS = "parts"
RECORDS = "blocks"
WORK = "unfinished"
ROWS = "query.parquet"  # of a query, which are kept beside the parts


@dataclass(frozen=True)
class Record:
    """What became of one block.

    Attributes
    ----------
    number
        Of the block.
    n_read, n_rows, n_alarms, n_explained, n_held_back
        Rows that were read, those that were judged (not rows with gaps, where these are dropped), alarms
        among them, rows that were explained, and alarms that marks held back.
    highest
        Highest score; None without rows.
    parts
        Size and checksum of each file, by name.
    failed
        Pieces that could not be read, and why.
    findings
        What is wrong with the rows as data: its fields, and those rows that may be told.
    beyond
        Cells that the rows of the fitting had none like, by column (see `BeyondCount`).
    """

    number: int
    n_read: int = 0
    n_rows: int = 0
    n_alarms: int = 0
    n_explained: int = 0
    n_held_back: int = 0
    highest: float | None = None
    parts: Mapping[str, Sequence[int]] = field(default_factory=dict)
    failed: Sequence[Sequence[str]] = ()
    findings: Sequence[Mapping[str, Any]] = ()
    beyond: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def name_part(number: int, what: str) -> str:
    """'00012-scores.parquet'."""
    return f"{number:05d}-{what}.parquet"


def make_folders(out: Path) -> None:
    """Make the folders of a run, if they are not there."""
    try:
        for name in (PARTS, RECORDS, WORK):
            (out / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(f"Cannot write to {out}: {error.strerror or error}.") from error


def write_part(out: Path, name: str, table: pa.Table) -> list[int]:
    """Write one part, whole or not at all; return its size and checksum."""
    target = out / PARTS / name
    work = out / WORK / f"{os.getpid()}-{name}"
    try:
        pq.write_table(table, work, compression="snappy", write_page_checksum=True, use_dictionary=True)
        found = list(measure_file(work))
        put_in_place(work, target)
    except (OSError, pa.ArrowException) as error:
        raise _refuse(target, error) from error
    return found


def write_record(out: Path, record: Record) -> None:
    """Write the record of a block: from then on it is done."""
    target = out / RECORDS / f"{record.number:05d}.json"
    work = out / WORK / f"{os.getpid()}-{target.name}"
    try:
        work.write_text(json.dumps(make_plain(asdict(record)), ensure_ascii=False) + "\n", encoding="utf-8")
        put_in_place(work, target)
    except OSError as error:
        raise _refuse(target, error) from error


def _refuse(target: Path, error: Exception) -> CannotWrite:
    why = getattr(error, "strerror", None) or error
    return CannotWrite(
        f"Cannot write {target}: {why}. What was finished stays: make room, and run the same command again."
    )


def read_record(out: Path, number: int) -> Record | None:
    """The record of a block that is done and whose parts are as they were written; else None."""
    try:
        text = (out / RECORDS / f"{number:05d}.json").read_text(encoding="utf-8")
        record = Record(**json.loads(text))
        parts = {name: list(map(int, found)) for name, found in record.parts.items()}
        is_whole = all(list(measure_file(out / PARTS / name)) == found for name, found in parts.items())
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    return record if is_whole and record.number == number else None


def clear_unfinished(out: Path) -> None:
    """Remove what processes left that were killed; nobody else may be writing."""
    for path in (out / WORK).glob("*"):
        path.unlink(missing_ok=True)
