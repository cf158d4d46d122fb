"""A run's folder: run.json, spreadsheets, scores and rows, explanation/; a view adds report.html."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellwhy.core.errors import UnreadableFile
from tellwhy.core.explanation import Explanation
from tellwhy.results import records
from tellwhy.results.result import AlarmRule, Anomaly, Finding, Group, Headline, Notice, Typical
from tellwhy.results.run import SCHEMA, Agreement, Detection, Evidence, Run
from tellwhy.storage.csv_cells import write_cells
from tellwhy.storage.documents import plain, read_stored_table, read_versioned, write_json, write_stored_table
from tellwhy.storage.folders import check_new_folder, new_folder, standing, temporary_files_in
from tellwhy.verdicts.sheet_rows import header, sheet_rows
from tellwhy.verdicts.workbook import can_write_workbook, write_workbook

if TYPE_CHECKING:
    import pandas as pd

HEAD = "run.json"
ROWS = "rows.parquet"
NOT_IN_HEAD = ("scores", "rows", "explanation", "table_rows")


def check_place(folder: Path) -> None:
    """Raise now what `save_run` would raise."""
    check_new_folder(folder, marker=HEAD)


def save_run(run: Run, folder: Path, *, add: Callable[[Path], Any] | None = None) -> Path:
    """Write the folder, whole or not at all; `add(folder)` may write more into it before it appears."""
    with new_folder(folder, marker=HEAD) as work:
        write_json(work / HEAD, _head(run))
        write_cells(work / "anomalies.csv", header(run), sheet_rows(run))
        if can_write_workbook():
            with temporary_files_in(work):
                write_workbook(run, work / "anomalies.xlsx")
        _write_scores(run, work / "scores.parquet")
        if run.table_rows is not None:
            write_stored_table(run.table_rows, work / ROWS, index=False)
        run.explanation.save(work / "explanation")
        if add is not None:
            add(work)
    return folder


def load_run(folder: Path) -> Run:
    """Read a folder that `save_run` wrote."""
    folder = standing(folder)
    path = folder / HEAD
    head = read_versioned(path, SCHEMA, "a run of tellwhy")
    scores = read_stored_table(folder / "scores.parquet")
    try:
        run = _run(head, scores, Explanation.load(folder / "explanation"))
        return replace(run, table_rows=_table_rows(folder / ROWS))
    except UnreadableFile:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise UnreadableFile(f"{path} lacks something a run must have: {error}.") from error


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
        "note": anomaly.note,
    }
    if anomaly.nearest_normal is not None:
        record["nearest_normal"] = dict(anomaly.nearest_normal)
    result: dict[str, Any] = plain(record)
    return result


def _head(run: Run) -> dict[str, Any]:
    """Everything of a run that is not an array or the explanation."""
    parts = {name: value for name, value in vars(run).items() if name not in NOT_IN_HEAD}
    for name in ("evidence", "detection", "alarms"):
        parts[name] = None if parts[name] is None else asdict(parts[name])
    parts["groups"] = [asdict(each) for each in run.groups]
    parts["anomalies"] = [records.anomaly_record(each) for each in run.anomalies]
    parts["findings"] = [plain(records.finding_record(each)) for each in run.findings]
    parts["opening"] = None if run.opening is None else asdict(run.opening)
    parts["headline"] = run.headline
    parts["typical"] = {name: asdict(each) for name, each in run.typical.items()}
    return {"schema": parts.pop("schema"), **parts}


def _run(head: dict[str, Any], scores: pd.DataFrame, explanation: Explanation) -> Run:
    evidence = head["evidence"]
    detection = head["detection"]
    agreement = [Agreement(**each) for each in evidence["agreement"]]
    head = {name: value for name, value in head.items() if name != "headline"} | {"opening": _opening(head)}
    left_over = float(evidence["unattributed"])  # JSON has no NaN: it is stored as text
    return Run(
        **{
            **head,
            "scores": scores["score"].to_numpy(),
            "rows": scores["row"].to_numpy(),
            "explanation": explanation,
            "anomalies": [records.anomaly_of(each) for each in head["anomalies"]],
            "groups": [Group(**each) for each in head["groups"]],
            "typical": {name: Typical(**each) for name, each in head["typical"].items()},
            "evidence": Evidence(**{**evidence, "agreement": agreement, "unattributed": left_over}),
            "detection": None if detection is None else Detection(**detection),
            "findings": [_read_finding(each) for each in head["findings"]],
            "alarms": None if head["alarms"] is None else AlarmRule(**head["alarms"]),
        }
    )


def _read_finding(record: dict[str, Any]) -> Finding:
    """A finding as a file holds it; raise where it lacks what its sentence needs."""
    found = records.finding_of(record)
    if not found.text:
        raise ValueError("a finding has no words")
    return found


def _opening(head: dict[str, Any]) -> Headline | None:
    """The headline of a run; of one that an earlier version saved, its sentences."""
    if head.get("opening") is not None:
        return records.headline_from(head["opening"])
    if not head["headline"]:
        return None
    said = [Notice(records.WRITTEN, {"text": text}) for text in head["headline"]]
    return Headline(len(head["columns"]), AlarmRule("", 0, 0.0), is_written=True, more=said)


def _table_rows(path: Path) -> Any:
    """The ranked rows as they stand in the table; None for runs that have none."""
    return read_stored_table(path) if path.exists() else None


def _write_scores(run: Run, path: Path) -> None:
    import pandas as pd

    write_stored_table(pd.DataFrame({"row": run.rows, "score": run.scores}), path, index=False)
