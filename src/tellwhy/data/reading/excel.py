"""Excel workbooks, through the optional openpyxl."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, BinaryIO

import pandas as pd

from tellwhy.core.errors import InvalidParameter, TellwhyError, UnreadableFile
from tellwhy.core.optional import require
from tellwhy.data.places import mark_lines
from tellwhy.data.reading.bytes import ByteSource
from tellwhy.data.reading.cells import make_frame
from tellwhy.data.table import check_unique
from tellwhy.results.notice import Notice

MOST_ROWS = 1_048_576  # of a sheet
_NEEDED = ("styles.xml", "sharedStrings.xml", "workbook.xml")
_ERROR_CELLS = ("#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!")


def read_excel(source: ByteSource, *, sheet: str | int | None) -> tuple[pd.DataFrame, list[Notice]]:
    """Return the rows of one sheet (the first by default); its first row with content is the header."""
    require("openpyxl", "Reading Excel files")
    place = str(source.path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # openpyxl warns of formatting it does not keep
            # A stream, because openpyxl refuses names that do not end in .xlsx.
            with source.path.open("rb") as stream:
                book = _open_sheets(stream)
                if not book.sheetnames:
                    raise UnreadableFile(f"{source.path} has no sheet of cells; expected a table in one.")
                name = _choose_sheet(source, book.sheetnames, sheet)
                place = f"{source.path}, sheet {name!r},"
                frame = _read_sheet(source, name, _read_rows(book[name], place))
    except (TellwhyError, MemoryError):
        raise
    except Exception as error:  # damaged XML makes openpyxl fail in every way there is
        why = str(error).partition("\n")[0] or type(error).__name__
        raise UnreadableFile(
            f"{place} cannot be read as an Excel workbook ({why}). Open it in a spreadsheet program and save "
            "it again, or as CSV."
        ) from error
    others = [other for other in book.sheetnames if other != name]
    if not others or sheet is not None:  # whoever names a sheet knows that there are others
        return frame, []
    return frame, [Notice("one_sheet", {"sheet": name, "others": others})]


def _open_sheets(stream: BinaryIO) -> Any:
    """Open the sheets that hold cells; charts, themes and properties are not looked at."""
    excel = require("openpyxl.reader.excel", "Reading Excel files")

    class Cells(excel.ExcelReader):  # type: ignore[name-defined]
        def read_chartsheet(self, *_: Any) -> None:
            """A chart on a sheet of its own has no cells."""

    reader = Cells(stream, read_only=True, data_only=True)
    reader.read_manifest()
    named = [part.PartName.lstrip("/") for part in reader.package.Override]
    # Without its styles, a workbook would be read with numbers for its dates.
    lost = [name for name in named if name.endswith(_NEEDED) and name not in reader.valid_files]
    if lost:
        raise ValueError(f"its part {lost[0]} is missing")
    reader.read_strings()
    reader.read_workbook()
    excel.apply_stylesheet(reader.archive, reader.wb)  # tells which numbers are dates
    reader.read_worksheets()
    return reader.wb


def _read_rows(sheet: Any, place: str) -> Iterator[tuple[int, dict[int, Any]]]:
    """Yield the number of each row and its cells by column, whatever size the sheet says that it has.

    What a sheet says of its size is what it was when some program last looked.
    """
    parser = require("openpyxl.worksheet._reader", "Reading Excel files").WorkSheetParser
    last = 0
    with sheet._get_source() as xml:
        book = sheet.parent
        cells_of = parser(
            xml,
            sheet._shared_strings,
            data_only=True,
            epoch=book.epoch,
            date_formats=book._date_formats,
            timedelta_formats=book._timedelta_formats,
        )
        for number, cells in cells_of.parse():
            row = {cell["column"]: cell["value"] for cell in cells}
            if not last < number <= MOST_ROWS or len(row) < len(cells):
                raise UnreadableFile(
                    f"{place} row {number} follows row {last}, or has a cell twice; expected rows in order, "
                    f"at most {MOST_ROWS:,}. Open it in a spreadsheet program and save it again."
                )
            last = number
            yield number, row


def _choose_sheet(source: ByteSource, names: list[str], sheet: str | int | None) -> str:
    if sheet is None:
        return names[0]
    if isinstance(sheet, int) and 0 <= sheet < len(names):
        return names[sheet]
    if sheet in names:
        return str(sheet)
    if isinstance(sheet, str) and sheet.isdecimal() and 1 <= int(sheet) <= len(names):
        return names[int(sheet) - 1]  # as people count
    raise InvalidParameter(f"{source.path} has no sheet {sheet!r}. There are: {', '.join(map(repr, names))}.")


def _read_sheet(source: ByteSource, name: str, rows: Iterable[tuple[int, dict[int, Any]]]) -> pd.DataFrame:
    # Empty rows above the header and below the data are left over from editing.
    filled = ((n, cells) for n, cells in rows if any(cell is not None for cell in cells.values()))
    header = next(filled, None)
    first = next(filled, None)
    if header is None or first is None:
        what = "is empty" if header is None else "has a header but no data rows"
        raise UnreadableFile(f"{source.path}: sheet {name!r} {what}; expected a header and at least one row.")
    named = {column: cell for column, cell in header[1].items() if cell is not None}
    names = {
        column: str(named[column]).strip() if column in named else f"column_{column}"
        for column in range(1, max(named) + 1)
    }
    check_unique(list(names.values()), where=f"{source.path}, sheet {name!r},")
    numbers: list[int] = []  # of the rows that are not empty, as the spreadsheet counts them
    frame = make_frame(_make_records(source, names, chain([first], filled), numbers), str(source.path))
    if numbers[-1] - numbers[0] == len(frame) - 1:
        mark_lines(frame, numbers[0])
    return frame


def _make_records(
    source: ByteSource, names: dict[int, str], rows: Iterator[tuple[int, dict[int, Any]]], numbers: list[int]
) -> Iterator[dict[str, Any]]:
    """Yield each row by name, noting its number."""
    for number, row in rows:
        if any(column > len(names) and cell is not None for column, cell in row.items()):
            raise UnreadableFile(
                f"{source.path}, row {number}: found more than {len(names)} cells, expected "
                f"{len(names)} as in the header. Name the extra column or clear its cells."
            )
        numbers.append(number)
        cells = {column: None if cell in _ERROR_CELLS else cell for column, cell in row.items()}
        yield {name: cells.get(column) for column, name in names.items()}
