"""Excel workbooks, through the optional openpyxl."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import pandas as pd

from tellwhy.core.errors import InvalidParameter, UnreadableFile
from tellwhy.core.optional import require
from tellwhy.data.places import mark_lines
from tellwhy.data.reading.byte_source import ByteSource
from tellwhy.data.reading.records import frame_from_records
from tellwhy.data.table import check_unique

_ERROR_CELLS = ("#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!")


def read_excel(source: ByteSource, *, sheet: str | int | None) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of one sheet (the first by default); its first row with content is the header."""
    openpyxl = require("openpyxl", "Reading Excel files")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # openpyxl warns of formatting it does not keep
            # A stream, because openpyxl refuses names that do not end in .xlsx.
            with source.path.open("rb") as stream:
                book = openpyxl.load_workbook(stream, read_only=True, data_only=True)
                name = _chosen(source, book.sheetnames, sheet)
                frame = _read_sheet(source, name, book[name].iter_rows(values_only=True))
    except (zipfile.BadZipFile, KeyError, OSError, ValueError, SyntaxError) as error:
        if isinstance(error, (UnreadableFile, InvalidParameter)):
            raise
        raise UnreadableFile(
            f"{source.path} cannot be read as an Excel workbook ({error}). Open it in a spreadsheet program "
            "and save it again, or as CSV."
        ) from error
    others = [other for other in book.sheetnames if other != name]
    if not others or sheet is not None:  # whoever names a sheet knows that there are others
        return frame, []
    return frame, [f"Read sheet {name!r}; not read: {', '.join(map(repr, others))}."]


def _chosen(source: ByteSource, names: list[str], sheet: str | int | None) -> str:
    if sheet is None:
        return names[0]
    if isinstance(sheet, int) and 0 <= sheet < len(names):
        return names[sheet]
    if sheet in names:
        return str(sheet)
    if isinstance(sheet, str) and sheet.isdecimal() and 1 <= int(sheet) <= len(names):
        return names[int(sheet) - 1]  # as people count
    raise InvalidParameter(f"{source.path} has no sheet {sheet!r}. There are: {', '.join(map(repr, names))}.")


def _read_sheet(source: ByteSource, name: str, rows: Iterable[tuple[Any, ...]]) -> pd.DataFrame:
    # Empty rows above the header and below the data are left over from editing.
    numbers: list[int] = []  # of the rows that are not empty, as the spreadsheet counts them
    filled = _filled(rows, numbers)
    header = next(filled, None)
    first = next(filled, None)
    if header is None or first is None:
        what = "is empty" if header is None else "has a header but no data rows"
        raise UnreadableFile(f"{source.path}: sheet {name!r} {what}; expected a header and at least one row.")
    width = max(i for i, cell in enumerate(header, start=1) if cell is not None)
    names = [
        f"column_{i}" if cell is None else str(cell).strip() for i, cell in enumerate(header[:width], start=1)
    ]
    check_unique(names, where=f"{source.path}, sheet {name!r},")
    frame = frame_from_records(_records(source, names, chain([first], filled)))
    if numbers[-1] - numbers[1] == len(frame) - 1:
        mark_lines(frame, numbers[1])
    return frame


def _filled(rows: Iterable[tuple[Any, ...]], numbers: list[int]) -> Iterator[tuple[Any, ...]]:
    """Yield rows that are not empty, noting the number of each."""
    for number, row in enumerate(rows, start=1):
        if any(cell is not None for cell in row):
            numbers.append(number)
            yield row


def _records(
    source: ByteSource, names: list[str], rows: Iterator[tuple[Any, ...]]
) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(rows):
        if any(cell is not None for cell in row[len(names) :]):
            raise UnreadableFile(
                f"{source.path}, data row {number}: found more than {len(names)} cells, expected "
                f"{len(names)} as in the header. Name the extra column or clear its cells."
            )
        cells = (None if cell in _ERROR_CELLS else cell for cell in row)
        yield dict(zip(names, cells, strict=False))
