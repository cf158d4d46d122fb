"""The spreadsheet that every program reads: comma-separated text."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import pandas as pd

# A cell that begins like this is run as a formula by spreadsheets, whoever wrote it; wide signs by some.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
# Where a semicolon, a tab or a line end separates cells, what stands behind one inside a cell begins another.
_INSIDE = re.compile(r"""([;\t\r\n|]["'\s]*)([=+\-@＝＋－＠])""")


def write_cells(path: Path, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a header and its rows; cells that a spreadsheet would run as a formula are made text."""
    # The mark at its beginning tells spreadsheets that the file is UTF-8: else they read "ä" as "Ã¤".
    with path.open("w", newline="", encoding="utf-8-sig", errors="backslashreplace") as file:
        write_rows(file, names, rows)


def write_rows(file: TextIO, names: Sequence[str] | None, rows: Iterable[Sequence[Any]]) -> None:
    """The same, into what is open already; without names below what stands there."""
    writer = csv.writer(file)
    if names is not None:
        writer.writerow([neutralise(name) for name in names])
    writer.writerows([_write_cell(value) for value in row] for row in rows)


def write_copy(path: Path, frame: pd.DataFrame) -> None:
    """Write a user's own table once more: its cells stay as they are, formulas too."""
    path.write_text(copy_text(frame), encoding="utf-8", errors="surrogatepass", newline="")


def copy_text(frame: pd.DataFrame) -> str:
    """A user's own table once more, as comma-separated text."""
    return str(frame.to_csv(index=False))


def quote(cell: str, delimiter: str) -> str:
    """A cell as it stands between two delimiters, with quotation marks where it needs them.

    Examples
    --------
    >>> quote("a;b", ";"), quote("plain", ";"), quote("", ";")
    ('"a;b"', 'plain', '')
    """
    held = io.StringIO()
    # A second, empty cell: an empty one that stands alone in its row would be written with marks.
    csv.writer(held, delimiter=delimiter, lineterminator="\n").writerow([cell, ""])
    return held.getvalue().removesuffix(f"{delimiter}\n")


def _write_cell(value: Any) -> Any:
    if isinstance(value, float):
        # Whole numbers of a column with gaps are floats: 7.0 was written 7.
        return int(value) if value.is_integer() and abs(value) < 2**53 else repr(value)
    return neutralise(value) if isinstance(value, str) else value


def neutralise(text: str) -> str:
    """Text that no spreadsheet takes for a formula, in countries that separate cells by semicolons either.

    Examples
    --------
    >>> neutralise("=cmd|' /C calc'!A0"), neutralise("plain"), neutralise("a;=1+1")
    ("'=cmd|' /C calc'!A0", 'plain', "a;'=1+1")
    """
    inside = _INSIDE.sub(r"\1'\2", text)
    return f"'{inside}" if inside.lstrip(" \"'").startswith(FORMULA_STARTS) else inside
