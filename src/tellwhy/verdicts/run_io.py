"""A result with its spreadsheets and its Excel workbook, and an anomaly as `--json` prints it."""

from __future__ import annotations

import importlib.util
import math
import re
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tellwhy.core.optional import require
from tellwhy.results.result import Anomaly, Result
from tellwhy.results.store import HEAD, load_result, save_result
from tellwhy.storage.csv_cells import FORMULA_STARTS, write_cells
from tellwhy.storage.documents import make_plain
from tellwhy.storage.folders import check_new_folder, temporary_files_in
from tellwhy.verdicts.sheet_rows import (
    REASONS,
    find_named_columns,
    list_header,
    list_sheet_rows,
    list_shown_places,
    list_table_columns,
)

load_run = load_result  # its name before


def check_place(folder: Path) -> None:
    """Raise now what `save_run` would raise."""
    check_new_folder(folder, marker=HEAD)


def save_run(run: Result, folder: Path, *, add: Callable[[Path], Any] | None = None) -> Path:
    """Write the folder of a result with its spreadsheets; `add(folder)` may write more into it."""

    def add_sheets(work: Path) -> None:
        write_cells(work / "anomalies.csv", list_header(run), list_sheet_rows(run))
        if can_write_workbook():
            with temporary_files_in(work):
                write_workbook(run, work / "anomalies.xlsx")
        if add is not None:
            add(work)

    return save_result(run, folder, add=add_sheets)


def record_anomaly(anomaly: Anomaly) -> dict[str, Any]:
    """One anomaly as `--json` prints it."""
    record: dict[str, Any] = {
        "row": anomaly.row,
        "line": anomaly.line,
        **({} if anomaly.file is None else {"file": anomaly.file}),
        "id": anomaly.id,
        **({"segment": anomaly.segment} if anomaly.segment else {}),
        "score": anomaly.score,
        "p_value": anomaly.p_value,
        "percentile": anomaly.percentile,
        "above_threshold": anomaly.above_threshold,
        "reasons": [
            {
                "feature": r.feature,
                "value": r.value,
                "typical": list(r.typical),
                "share": r.share,
                "holds": r.holds,
                "text": r.text,
            }
            for r in anomaly.reasons
        ],
        "holds": anomaly.holds,
        "known_by": anomaly.known_by,
        "note": anomaly.note,
    }
    if anomaly.nearest_normal is not None:
        record["nearest_normal"] = dict(anomaly.nearest_normal)
    result: dict[str, Any] = make_plain(record)
    return result


ODD_CELL = "FFF9CB9C"  # fill of a cell that a reason names
HEADER_FILL = "FFE8ECF1"
LONGEST_CELL = 32_767  # characters: what Excel holds
MOST_DIGITS = 10**15  # whole numbers from here on lose digits in Excel
WIDEST = 60
SAMPLE = 200  # rows by which the width of a column is chosen
MOST_LINES = 20
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # of zip files
_TIMES = re.compile(rb"(<dcterms:(?:created|modified)[^>]*>)[^<]*(</dcterms:)")
FINDING_COLUMNS = ("rows", "finding", "example", "columns", "lines", "what was done", "kind")


def can_write_workbook() -> bool:
    """Whether openpyxl is there."""
    return importlib.util.find_spec("openpyxl") is not None


def write_workbook(run: Result, path: Path) -> None:
    """Write the sheets 'anomalies', 'findings' and 'summary'. Nothing in them is a formula."""
    openpyxl = require("openpyxl", "Writing Excel files")
    book = openpyxl.Workbook(write_only=True)
    _write_anomalies(book, run)
    findings = [
        [
            len(found.rows),
            found.text,
            found.example,
            ", ".join(found.columns),
            ", ".join(list_shown_places(found, MOST_LINES)) + (" …" if len(found.rows) > MOST_LINES else ""),
            found.action,
            found.kind,
        ]
        for found in run.findings
    ]
    _write_sheet(book, "findings", FINDING_COLUMNS, findings)
    told = [*run.headline, run.summary, *run.notes]
    _write_sheet(book, "summary", (f"What is odd in {Path(run.source).name}",), [[text] for text in told])
    book.save(path)
    _set_clock(path, run.created)


def _set_clock(path: Path, created: str) -> None:
    """Put the time of the run where openpyxl put that of writing: the same run gives the same bytes."""
    stamp = re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", created)
    told = f"{stamp.group() if stamp else '1980-01-01T00:00:00'}Z".encode()
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts = {name: _TIMES.sub(rb"\g<1>" + told + rb"\g<2>", content) for name, content in parts.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name, _FIRST_DAY), content, zipfile.ZIP_DEFLATED)


def _write_anomalies(book: Any, run: Result) -> None:
    names = list_header(run)
    columns = list_table_columns(run)
    first = len(names) - len(columns)  # position of the table's first column
    marked = [
        {first + columns.index(name) for name in find_named_columns(anomaly, columns)}
        for anomaly in run.anomalies
    ]
    wide = {names.index(name): WIDEST for name in (*REASONS, "would_look_normal")}
    _write_sheet(book, "anomalies", names, list(list_sheet_rows(run)), marked=marked, widths=wide)


def _write_sheet(
    book: Any,
    title: str,
    names: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    marked: Sequence[set[int]] = (),
    widths: dict[int, int] | None = None,
) -> None:
    styles = require("openpyxl.styles", "Writing Excel files")
    letters = require("openpyxl.utils", "Writing Excel files").get_column_letter
    sheet = book.create_sheet(title)
    sheet.freeze_panes = "A2"
    for position, name in enumerate(names):
        chosen = (widths or {}).get(position) or _measure_width(
            name, (row[position] for row in rows[:SAMPLE])
        )
        sheet.column_dimensions[letters(position + 1)].width = chosen
    bold = {"font": styles.Font(bold=True), "fill": styles.PatternFill("solid", fgColor=HEADER_FILL)}
    sheet.append([_make_cell(sheet, name, bold) for name in names])
    odd = {"fill": styles.PatternFill("solid", fgColor=ODD_CELL)}
    for at, row in enumerate(rows):
        colored = marked[at] if at < len(marked) else set()
        sheet.append([_make_cell(sheet, value, odd if j in colored else {}) for j, value in enumerate(row)])
    sheet.auto_filter.ref = f"A1:{letters(len(names))}{len(rows) + 1}"


def _measure_width(name: str, values: Iterable[Any]) -> int:
    longest = max([len(name) + 3, *(len(str(value)) + 2 for value in values if value is not None)])
    return min(longest, WIDEST)


def _make_cell(sheet: Any, value: Any, style: dict[str, Any]) -> Any:
    """A cell that holds the value; text stays text whatever it begins with."""
    cells = require("openpyxl.cell", "Writing Excel files")
    cell = cells.WriteOnlyCell(sheet)
    plain = _make_plain(value)
    if isinstance(plain, str):
        # Given as a value, '=1+1' would become a formula; quotePrefix keeps it text when it is edited, too.
        whole = plain.encode("utf-8", "backslashreplace").decode()  # a file's name may hold half characters
        cell.value = cells.cell.ILLEGAL_CHARACTERS_RE.sub("", whole)[:LONGEST_CELL]
        cell.data_type = "s"
        cell.quotePrefix = plain.startswith(FORMULA_STARTS)
    else:
        cell.value = plain
    for name, part in style.items():
        setattr(cell, name, part)
    return cell


def _make_plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= MOST_DIGITS:
        return str(value)
    return value
