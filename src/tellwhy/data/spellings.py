"""Cells of a column as they are written, where numbers would make two of them one: the labels 01 and 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tellwhy.data.reading.bytes import locate
from tellwhy.data.reading.delimited import read_as_text
from tellwhy.data.table import Table

DELIMITED = (".csv", ".tsv", ".tab", ".txt")


def keep_spellings(table: Table, column: str) -> Any:
    r"""Return the cells of a column; as texts where whole numbers that differ by zeros alone became one.

    Measurements are rightly read as numbers, and 07 and 7 are one month. Labels are names.

    Examples
    --------
    >>> import tempfile
    >>> from tellwhy.data import read_table
    >>> path = Path(tempfile.mkdtemp()) / "codes.csv"
    >>> _ = path.write_text("\n".join(["code,n", "01,5", "1,6", "NA,7", "2,8"]))
    >>> keep_spellings(read_table(path), "code").tolist()
    ['01', '1', None, '2']
    """
    cells = table.frame[column]
    path = Path(table.source)
    is_text = path.name.lower().removesuffix(".gz").endswith(DELIMITED)
    if cells.dtype.kind not in "iuf" or not is_text or not path.is_file():
        return cells
    written = read_as_text(locate(path), column)
    if len(written) != len(cells):
        return cells
    whole = written.str.fullmatch(r"[0-9]+").fillna(False).to_numpy(dtype=bool)
    if written[whole].nunique() == cells[whole].nunique():
        return cells
    return written.set_axis(cells.index)
