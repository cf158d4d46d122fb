"""The folder of a result: result.json, scores, rows, explanation and arrays; views may add files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tellwhy.core.errors import UnreadableFile
from tellwhy.core.explanation import Explanation
from tellwhy.results.notice import WRITTEN
from tellwhy.results.result import SCHEMA, Result
from tellwhy.results.schema import from_plain, to_plain
from tellwhy.storage.documents import (
    ARRAYS,
    Misfit,
    read_arrays,
    read_stored_table,
    read_versioned,
    write_arrays,
    write_json,
    write_stored_table,
)
from tellwhy.storage.folders import find_standing, new_folder

HEAD = "result.json"
SCORES = "scores.parquet"
ROWS = "rows.parquet"
EXPLANATION = "explanation"
WHAT = "a result of tellwhy"
BEFORE = {"run.json": 2}  # heads of earlier versions that are still read, and their schema
OLD_MEDIA = "media.json"  # head of an earlier version that is read no more
Record = dict[str, Any]


def save_result(result: Result, folder: Path, *, add: Callable[[Path], Any] | None = None) -> Path:
    """Write the folder, whole or not at all; `add(folder)` may write more into it before it appears."""
    import pandas as pd

    with new_folder(folder, marker=HEAD) as work:
        write_json(work / HEAD, to_plain(result))
        scores = {"row": range(len(result.scores)) if result.rows is None else result.rows}
        write_stored_table(pd.DataFrame({**scores, "score": result.scores}), work / SCORES, index=False)
        if result.table_rows is not None:
            write_stored_table(result.table_rows, work / ROWS, index=False)
        if result.explanation.method:
            result.explanation.save(work / EXPLANATION)
        if result.arrays:
            write_arrays(work / ARRAYS, result.arrays)
        if add is not None:
            add(work)
    return folder


def load_result(folder: Path) -> Result:
    """Read a folder that `save_result` wrote, or one that an earlier version wrote."""
    folder = find_standing(folder)
    if (folder / OLD_MEDIA).is_file():
        raise UnreadableFile(
            f"{folder} holds pictures, a series or texts as an earlier version wrote them; this one does not "
            "read them. Run `tellwhy explain` again."
        )
    path = next((folder / name for name in BEFORE if (folder / name).is_file()), folder / HEAD)
    try:
        if path.name in BEFORE:
            head = _convert_schema_2(read_versioned(path, BEFORE[path.name], WHAT))
        else:
            head = read_versioned(path, SCHEMA, WHAT)
        found: Result = from_plain(Result, head)
        return replace(found, **_list_files(folder))
    except UnreadableFile:
        raise
    except Misfit as error:
        raise UnreadableFile(f"{path} is damaged: key {error.key!r}, {error.why}.") from error
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise UnreadableFile(f"{path} lacks something a result must have: {error}.") from error


def _list_files(folder: Path) -> Record:
    """The fields of a result that stand in files of their own."""
    scores = read_stored_table(folder / SCORES)
    found: Record = {"scores": scores["score"].to_numpy(), "rows": scores["row"].to_numpy()}
    if (folder / ROWS).exists():
        found["table_rows"] = read_stored_table(folder / ROWS)
    if (folder / EXPLANATION).exists():
        found["explanation"] = Explanation.load(folder / EXPLANATION)
    if (folder / ARRAYS).exists():
        found["arrays"] = read_arrays(folder / ARRAYS)
    return found


def _convert_schema_2(head: Record) -> Record:
    """The record of a run of an earlier version as one of today."""
    opening = head.get("opening")
    if opening is None and head["headline"]:
        rule = {"rule": "", "n_flagged": 0, "expected_false": 0.0}
        said = [_make_notice(text) for text in head["headline"]]
        opening = {"n_rows": len(head["columns"]), "alarms": rule, "is_written": True, "more": said}
    changed = {
        "usual": head["typical"],
        "done": _make_notice(head["summary"]),
        "notices": [_make_notice(text) for text in head["notices"]],
        "opening": opening,
        "anomalies": [convert_anomaly_2(each) for each in head["anomalies"]],
        "findings": [convert_finding_2(each) for each in head["findings"]],
        "schema": SCHEMA,
    }
    return head | changed


def _make_notice(text: str) -> Record:
    return {"kind": WRITTEN, "facts": {"text": text}}


def convert_anomaly_2(record: Mapping[str, Any]) -> Record:
    """An anomaly of an earlier version, whose reasons may hold sentences alone."""
    part = {"kind": "row", "name": record["id"], **{k: record.get(k) for k in ("row", "file", "line")}}
    doubt = record.get("doubt")
    if "doubt" not in record and record.get("note"):
        doubt = _make_notice(record["note"])
    reasons = [_convert_reason_2(each) for each in record["reasons"]]
    now = {"part": part, "is_alarm": record["above_threshold"], "reasons": reasons, "doubt": doubt}
    return dict(record) | now


def _convert_reason_2(record: Mapping[str, Any]) -> Record:
    if "facts" in record:
        found = record.get("finding")
        return dict(record) | {"finding": found and convert_finding_2(found)}
    before_share = record["text"].rpartition(" · ")[0]
    facts = {"text": before_share or record["text"]}
    return dict(record) | {"kind": WRITTEN, "facts": facts, "is_share": bool(before_share)}


def convert_finding_2(record: Mapping[str, Any]) -> Record:
    """A finding of an earlier version, which may hold a sentence alone."""
    # Which cells are wrong how probably, and what they should hold, was not told then.
    now = dict(record) | {"probabilities": [], "expected": [], "own": []}
    return now if "facts" in record else now | {"form": WRITTEN, "facts": {"text": record["text"]}}
