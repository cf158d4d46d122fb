"""A result with its spreadsheets, and an anomaly as `--json` prints it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tellwhy.results.result import Anomaly, Result
from tellwhy.results.store import HEAD, load_result, save_result
from tellwhy.storage.csv_cells import write_cells
from tellwhy.storage.documents import plain
from tellwhy.storage.folders import check_new_folder, temporary_files_in
from tellwhy.verdicts.sheet_rows import header, sheet_rows
from tellwhy.verdicts.workbook import can_write_workbook, write_workbook

load_run = load_result  # its name before


def check_place(folder: Path) -> None:
    """Raise now what `save_run` would raise."""
    check_new_folder(folder, marker=HEAD)


def save_run(run: Result, folder: Path, *, add: Callable[[Path], Any] | None = None) -> Path:
    """Write the folder of a result with its spreadsheets; `add(folder)` may write more into it."""

    def add_sheets(work: Path) -> None:
        write_cells(work / "anomalies.csv", header(run), sheet_rows(run))
        if can_write_workbook():
            with temporary_files_in(work):
                write_workbook(run, work / "anomalies.xlsx")
        if add is not None:
            add(work)

    return save_result(run, folder, add=add_sheets)


def anomaly_record(anomaly: Anomaly) -> dict[str, Any]:
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
    result: dict[str, Any] = plain(record)
    return result
