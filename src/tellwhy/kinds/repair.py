"""A table with its sure mistakes repaired, and a list of what was changed.

A delimited file is written once more with other cells in a few places; everything else stays as it was.
"""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from tellwhy.core.errors import InvalidParameter, UnreadableFile
from tellwhy.core.progress import stage
from tellwhy.data import Table
from tellwhy.data.places import find_file, find_line
from tellwhy.data.reading.bytes import ByteSource, locate
from tellwhy.data.reading.dialect import detect_dialect
from tellwhy.data.reading.survey import allow_long_cells, survey_text
from tellwhy.data.sources import format_of_file
from tellwhy.data.table import TableLike
from tellwhy.kinds.checked_file import FileQuality, check_file
from tellwhy.results.notice import Notice, say_all
from tellwhy.storage.csv_cells import quote, write_cells, write_copy
from tellwhy.storage.folders import check_new_file, new_file
from tellwhy.storage.overwriting import CHANGES_SIGN, NEVER
from tellwhy.verdicts.repair import SURE, Change, find_sure_changes, group_by_rows

COLUMNS = ("row", "line", "column", "old", "new", "why", "probability")
PARQUET = (".parquet", ".pq")


@dataclass(frozen=True, eq=False)
class Repaired:
    """What `repair_table` made of a table.

    Attributes
    ----------
    table
        As it was read: nothing in it is changed.
    frame
        The same rows with the repaired cells.
    changes
        What was changed, in the order of rows.
    taken_back
        Repairs that the check of the repaired table did not agree with; they are not in `frame`.
    n_unsure
        Cells that a finding is about and that stay as they are.
    said
        How the table was read; `notices` are its sentences.
    """

    table: Table
    frame: pd.DataFrame
    changes: tuple[Change, ...]
    taken_back: tuple[Change, ...] = ()
    n_unsure: int = 0
    said: tuple[Notice, ...] = ()

    @property
    def notices(self) -> list[str]:
        """How the table was read, one sentence each."""
        return say_all(self.said)

    def save(self, out: str | Path) -> Path:
        """Write the repaired table, and beside it the list of changes, whose path is returned.

        A delimited file is copied but for the cells that change. Anything else is written as CSV, or as
        Parquet where the name says so.
        """
        target = Path(out)
        check_targets(target)
        listed = name_changes_file(target)
        with new_file(listed, sign=CHANGES_SIGN) as work_list, new_file(target, sign=NEVER) as work:
            self._write(work)
            with_files = any(change.file is not None for change in self.changes)
            write_cells(
                work_list, (*COLUMNS, *(["file"] if with_files else [])), self._list_lines(with_files)
            )
        return listed

    def _write(self, work: Path) -> None:
        path = Path(self.table.source)
        if work.suffix.lower() in PARQUET:
            self.frame.to_parquet(work, index=False)
        elif path.is_file() and format_of_file(path) == "text":
            rewrite_delimited(path, work, group_by_rows(self.changes), len(self.frame))
        else:
            write_copy(work, self.frame)

    def _list_lines(self, with_files: bool) -> list[list[Any]]:
        """The list of changes, a line each."""
        lines = []
        for c in self.changes:
            line = [c.row, c.line, c.column, c.old, c.new, c.why, round(c.probability, 4)]
            lines.append([*line, c.file] if with_files else line)
        return lines


def repair_table(data: str | Path | TableLike, *, threshold: float = SURE, **settings: Any) -> Repaired:
    """Repair the cells of a table that are surely wrong and whose right value is known.

    The repaired table is checked again: a repair that is found wrong there is taken back. Nothing that is
    passed in is modified.

    Parameters
    ----------
    data
        A file, or a table in memory.
    threshold
        Least probability that a cell is wrong, for it to be repaired.
    settings
        reference, exclude, category, number, date, text: as `tellwhy check` takes them.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"age": rng.integers(18, 95, size=300), "pay": rng.normal(40, 8, size=300)})
    >>> repaired = repair_table(table)
    >>> len(repaired.changes), repaired.frame.equals(table)
    (0, True)
    """
    if not 0 < threshold <= 1:
        raise InvalidParameter(f"threshold must be a probability above 0 and up to 1. Got {threshold!r}.")
    checked = check_file(data, **settings)
    table = checked.table
    changes = find_sure_changes(checked.quality.findings, table.frame, threshold)
    kept, gone = _split_repairs(table, changes, threshold, settings)
    return Repaired(
        table,
        apply_changes(table.frame, kept),
        tuple(_place_change(change, table.frame) for change in kept),
        tuple(gone),
        _count_others(checked, kept),
        tuple(checked.said),
    )


def _split_repairs(
    table: Table, changes: list[Change], threshold: float, settings: dict[str, Any]
) -> tuple[list[Change], list[Change]]:
    """Split repairs into those that the repaired table agrees with, and those it would change again."""
    if not changes:
        return [], []
    stage("checking the repaired table")
    again = check_file(replace(table, frame=apply_changes(table.frame, changes)), **settings)
    found = find_sure_changes(again.quality.findings, again.table.frame, threshold)
    cells = {(change.row, change.column) for change in found}
    kept = [change for change in changes if (change.row, change.column) not in cells]
    return kept, [change for change in changes if (change.row, change.column) in cells]


def _place_change(change: Change, frame: pd.DataFrame) -> Change:
    return replace(change, line=find_line(frame, change.row), file=find_file(frame, change.row))


def _count_others(checked: FileQuality, changes: Sequence[Change]) -> int:
    """Cells that findings blame and that stay as they are."""
    blamed = {(row, f.columns[0]) for f in checked.quality.findings if f.columns for row in f.rows}
    return len(blamed - {(change.row, change.column) for change in changes})


def apply_changes(frame: pd.DataFrame, changes: Sequence[Change]) -> pd.DataFrame:
    """Return the table with the repaired cells; columns without any are shared."""
    changed = frame.copy(deep=False)
    for name in dict.fromkeys(change.column for change in changes):
        column = frame[name].astype(object)
        for change in changes:
            if change.column == name:
                old = frame[name].iloc[change.row]
                column.iloc[change.row] = write_like(old, change.new) if isinstance(old, str) else change.new
        changed[name] = pd.to_numeric(column) if is_numeric_dtype(frame[name]) else _leave_empty(column)
    return changed


def _leave_empty(column: pd.Series) -> pd.Series:
    return column.replace("", None).infer_objects()


def name_changes_file(target: Path) -> Path:
    """Where the list of changes stands: beside the repaired table.

    Examples
    --------
    >>> name_changes_file(Path("data/clean.csv")).name
    'clean.changes.csv'
    """
    return target.with_name(f"{target.name.partition('.')[0]}.changes.csv")


def check_targets(target: Path) -> None:
    """Raise now what writing would raise: before the work, not after it."""
    check_new_file(target, sign=NEVER)
    check_new_file(name_changes_file(target), sign=CHANGES_SIGN)


_NUMBER = re.compile(r"([^\d]*?)([-−+]?\d[\d.,'\u00a0\u202f ]*)([^\d]*)")
_EXACT = 1e-9  # two numbers this near are one, but for the last digits of floating point

Cells = Mapping[int, Mapping[str, Any]]  # row (from 0) -> column -> value


def rewrite_delimited(path: Path, target: Path, cells: Cells, n_rows: int) -> None:
    """Write a delimited file again, with other values in some cells.

    Lines in which nothing changes are copied as they are: their quotes, blanks, signs and line ends stay, and
    so does the encoding. A packed file is written unpacked.

    Parameters
    ----------
    path
        The file as it was read.
    target
        Where to write.
    cells
        Of each row to change, counted from 0, the new value of each column; None empties a cell.
    n_rows
        How many rows were read, so that a file that has changed since is noticed.
    """
    source = locate(path)
    encoding = _choose_encoding(source)
    dialect = detect_dialect(source, survey_text(source).encoding)
    place = {name: i for i, name in enumerate(dialect.names)}
    row = -1 if dialect.n_header_lines else 0
    with (
        source.open() as stream,
        allow_long_cells(),
        io.TextIOWrapper(stream, encoding=encoding, errors=_choose_error_rule(encoding), newline="") as text,
        target.open("w", encoding=encoding, errors=_choose_error_rule(encoding), newline="") as file,
    ):
        for record, written in _read_records(text, dialect.delimiter):
            if record and row in cells:
                new = {
                    place[n]: write_like(record[place[n]], v, dialect.decimal) for n, v in cells[row].items()
                }
                file.write(_write_with_cells(written, record, new, dialect.delimiter))
            else:
                file.write(written)
            row += bool(record)
    if row != n_rows:
        raise UnreadableFile(
            f"{path} has {row:,} rows now, and had {n_rows:,} when it was checked: it was changed meanwhile. "
            "Repair it again."
        )


def _choose_encoding(source: ByteSource) -> str:
    """The codec that gives back the bytes it read: UTF-8 with a mark only where there is one."""
    found = survey_text(source).encoding
    return "utf-8" if found == "utf-8-sig" and not source.head(3).startswith(codecs.BOM_UTF8) else found


def _choose_error_rule(encoding: str) -> str:
    # Bytes that the codec lacks come back as they were; UTF-16 has no such way, and no such bytes.
    return "strict" if encoding.startswith(("utf-16", "utf-32")) else "surrogateescape"


def _read_records(text: TextIO, delimiter: str) -> Iterator[tuple[list[str], str]]:
    """Each row as its cells, and as it was written; a blank line has no cells."""
    lines: list[str] = []

    def kept() -> Iterator[str]:
        for line in text:
            lines.append(line)
            yield line

    for record in csv.reader(kept(), delimiter=delimiter):
        yield record, "".join(lines)
        lines.clear()


def _write_with_cells(written: str, record: list[str], new: Mapping[int, str], delimiter: str) -> str:
    """A row as text with other cells in some places; the others and the line end as they were."""
    body = written.rstrip("\r\n")
    fields = _split_fields(body, delimiter)
    if len(fields) != len(
        record
    ):  # stray quotation marks: only the cells are kept, not how they were written
        fields = [quote(cell, delimiter) for cell in record]
    for place, cell in new.items():
        fields[place] = quote(cell, delimiter)
    return (delimiter.join(fields) or '""') + written[len(body) :]


def _split_fields(body: str, delimiter: str) -> list[str]:
    """The cells of a row with their quotation marks: a delimiter between two marks separates nothing."""
    fields = [""]
    is_quoted = False
    for sign in body:
        is_quoted ^= sign == '"'
        if sign == delimiter and not is_quoted:
            fields.append("")
        else:
            fields[-1] += sign
    return fields


def write_like(old: str, value: Any, decimal: str = ".") -> str:
    """Write a value as the cell that it replaces was written: its currency or unit, sign and decimals stay.

    Examples
    --------
    >>> write_like("$1299.00", 12.99), write_like("1250 g", 125), write_like("12,5", 1.25, ",")
    ('$12.99', '125 g', '1,25')
    """
    if value is None:
        return ""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)):
        return str(value)
    if isinstance(value, (float, np.floating)) and not math.isfinite(value):
        return ""
    found = _NUMBER.fullmatch(old)
    if found is None:
        return _write_digits(float(value), 0).replace(".", decimal)
    number = found[2]
    decimals = len(number.strip().rpartition(decimal)[2]) if decimal in number else 0
    blank = number[len(number.rstrip()) :]
    return f"{found[1]}{_write_digits(float(value), decimals).replace('.', decimal)}{blank}{found[3]}"


def _write_digits(value: float, decimals: int) -> str:
    if abs(round(value, decimals) - value) <= _EXACT * abs(value):
        return f"{value:.{decimals}f}"
    return np.format_float_positional(float(f"{value:.12g}"), trim="-")
