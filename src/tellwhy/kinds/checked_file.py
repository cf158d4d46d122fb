"""A table read and checked as data, without a detector: what `tellwhy check` and `repair` begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tellwhy.checks.check import Quality, check_table
from tellwhy.core.errors import InvalidInput
from tellwhy.core.progress import stage
from tellwhy.data import Table
from tellwhy.data.columns.kinds import choose_columns
from tellwhy.data.places import find_file, find_line
from tellwhy.data.table import TableLike
from tellwhy.kinds.table_rows import read_as_told, read_source
from tellwhy.results.notice import Notice, say_all
from tellwhy.results.result import Finding


@dataclass(frozen=True, eq=False)
class FileQuality:
    """A table and what is wrong with it."""

    table: Table
    quality: Quality
    said: list[Notice]

    @property
    def notices(self) -> list[str]:
        """How the table was read, one sentence each."""
        return say_all(self.said)

    def lines(self, finding: Finding, most: int | None = None) -> list[int]:
        """Lines of the file (from 1) of a finding's rows; empty where the file has no lines."""
        found = [find_line(self.table.frame, row) for row in finding.rows[:most]]
        return [line for line in found if line is not None]

    def files(self, finding: Finding, most: int | None = None) -> list[str]:
        """File of each of these lines, where there are several files."""
        frame = self.table.frame
        known = [row for row in finding.rows[:most] if find_line(frame, row) is not None]
        return [file for row in known if (file := find_file(frame, row)) is not None]


def check_file(
    data: str | Path | TableLike,
    *,
    reference: str | Path | TableLike | None = None,
    exclude: Sequence[str] = (),
    category: Sequence[str] = (),
    number: Sequence[str] = (),
    date: Sequence[str] = (),
    text: Sequence[str] = (),
) -> FileQuality:
    """Read a table and check it as data: placeholders, repeats, broken relations, levels, dates.

    Parameters
    ----------
    data
        A file, or a table in memory.
    reference
        An earlier file of the same columns: levels, ranges and relations are learned from it.
    exclude
        Columns to leave out.
    category, number, date, text
        Columns that are to be read so, whatever they look like; a date may be 'COLUMN=FORMAT'.
    """
    table = read_source(data)
    other = None if reference is None else read_source(reference)
    stage("reading columns")
    names = choose_columns(table.frame, None, exclude)
    if not names:
        raise InvalidInput(f"All columns of {table.source} are left out; expected at least one to check.")
    told = {"category": category, "number": number, "date": date, "text": text}
    read = read_as_told(table.frame[names], None, told)
    same = (
        None
        if other is None
        else read_as_told(other.frame[_find_shared(other, names, table)], read.roles, told)
    )
    stage("checking the data")
    known = None if same is None else same.frame
    quality = check_table(read.frame, read.roles, reference=known, raw=table.frame[names])
    return FileQuality(table, quality, [*table.said, *read.said])


def _find_shared(reference: Table, names: list[str], table: Table) -> list[str]:
    """Columns of the checked table, all of which the reference must have."""
    gone = [name for name in names if name not in reference.frame.columns]
    if gone:
        raise InvalidInput(
            f"The reference {reference.source} lacks the columns {', '.join(map(repr, gone[:5]))} of "
            f"{table.source}; expected the same columns. Rename or add them, or check without a reference."
        )
    return names
