"""The quality pass over a file: what is wrong with it as data, with the lines to look at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tellwhy.core.errors import InvalidInput
from tellwhy.core.progress import stage
from tellwhy.data import Table
from tellwhy.data.columns.roles import read_columns
from tellwhy.data.places import file_of, line_of
from tellwhy.data.quality import Finding, Quality, check_table
from tellwhy.data.table import TableLike
from tellwhy.workflow.tables.selection import as_source


@dataclass(frozen=True, eq=False)
class FileQuality:
    """A table and what is wrong with it."""

    table: Table
    quality: Quality
    notices: list[str]

    def lines(self, finding: Finding, most: int | None = None) -> list[int]:
        """Lines of the file (from 1) of a finding's rows; empty where the file has no lines."""
        found = [line_of(self.table.frame, row) for row in finding.rows[:most]]
        return [line for line in found if line is not None]

    def files(self, finding: Finding, most: int | None = None) -> list[str]:
        """File of each of these lines, where there are several files."""
        frame = self.table.frame
        known = [row for row in finding.rows[:most] if line_of(frame, row) is not None]
        return [file for row in known if (file := file_of(frame, row)) is not None]


def check_file(
    data: str | Path | TableLike, *, reference: str | Path | TableLike | None = None
) -> FileQuality:
    """Read a table and check it as data: placeholders, repeats, broken relations, levels, dates.

    Parameters
    ----------
    data
        A file, or a table in memory.
    reference
        An earlier file of the same columns: levels, ranges and relations are learned from it.
    """
    table = as_source(data)
    other = None if reference is None else as_source(reference)
    stage("reading columns")
    read = read_columns(table.frame)
    same = None if other is None else read_columns(other.frame[_shared(other, table)], roles=read.roles).frame
    stage("checking the data")
    quality = check_table(read.frame, read.roles, reference=same, raw=table.frame)
    return FileQuality(table, quality, [*table.notices, *read.notices])


def _shared(reference: Table, table: Table) -> list[str]:
    """Columns of the checked table, all of which the reference must have."""
    gone = [name for name in table.frame.columns if name not in reference.frame.columns]
    if gone:
        raise InvalidInput(
            f"The reference {reference.source} lacks the columns {', '.join(map(repr, gone[:5]))} of "
            f"{table.source}; expected the same columns. Rename or add them, or check without a reference."
        )
    return list(table.frame.columns)
