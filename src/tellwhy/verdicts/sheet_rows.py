"""What a spreadsheet of a run holds: one line per explained row, the same columns in each."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pandas as pd

from tellwhy.results.result import Anomaly, Finding, Result
from tellwhy.verdicts.words import make_plain_cell
from tellwhy.words.numbers import write_plain

N_REASONS = 3
TOLD = ("rank", "row", "line", "id", "score", "p_value", "flagged")
REASONS = tuple(f"reason_{k + 1}" for k in range(N_REASONS))
VERDICT = ("known_by", "note", "would_look_normal")


def list_header(run: Result) -> list[str]:
    """Names of the columns: what is told of a row, then those of the table; each occurs once."""
    told = [*TOLD, *(["file"] if has_files(run) else []), *REASONS, *VERDICT]
    return [*told, *(f"{name} (table)" if name in told else name for name in list_table_columns(run))]


def has_files(run: Result) -> bool:
    """Whether rows came from several files."""
    return any(anomaly.file is not None for anomaly in run.anomalies)


def list_table_columns(run: Result) -> list[str]:
    """Columns of the table, in its order."""
    return [] if run.table_rows is None else [str(name) for name in run.table_rows.columns]


def list_sheet_rows(run: Result) -> Iterator[list[Any]]:
    """Cells of each line, in the order of the header: None, bool, int, float or text."""
    with_files = has_files(run)
    columns = _list_columns(run.table_rows)
    for at, anomaly in enumerate(run.anomalies):
        cells = [make_plain_cell(column[at]) for column in columns]
        told = [at + 1, anomaly.row, anomaly.line, anomaly.id, anomaly.score, anomaly.p_value]
        told += [anomaly.above_threshold, *([anomaly.file] if with_files else [])]
        reasons = [reason.text for reason in anomaly.reasons[:N_REASONS]]
        verdict = [anomaly.known_by, anomaly.note, write_normal(run, at)]
        yield [*told, *reasons, *[""] * (N_REASONS - len(reasons)), *verdict, *cells]


def _list_columns(frame: pd.DataFrame | None) -> list[list[Any]]:
    # Column by column: a whole row of mixed kinds would make floats of its whole numbers.
    return [] if frame is None else [list(frame.iloc[:, j]) for j in range(frame.shape[1])]


def write_normal(run: Result, at: int) -> str:
    """'size = 3.1 instead of 145': what would make a row look ordinary; nothing where that is not known."""
    changes = run.anomalies[at].nearest_normal or {}
    rows = run.explanation.data if run.table_rows is None else run.table_rows
    parts = []
    for name, value in changes.items():
        before = make_plain_cell(rows[name].iloc[at]) if name in getattr(rows, "columns", ()) else None
        parts.append(f"{name} = {write_plain(value)} instead of {write_plain(before)}")
    return " and ".join(parts)


def find_named_columns(anomaly: Anomaly, columns: Collection[str]) -> set[str]:
    """Columns that verified reasons and findings name; a pair names both, a finding all of its columns."""
    found: set[str] = set()
    for reason in anomaly.reasons:
        if reason.holds or reason.finding is not None:
            found |= {reason.feature, reason.facts.get("other", reason.feature)}
            found |= set(() if reason.finding is None else reason.finding.columns)
            found |= set(reason.facts.get("columns", ()))
    return found & set(columns)


def list_shown_places(found: Finding, most: int) -> list[str]:
    """The first few places of a finding: lines, 'file:line' where there are several files, else rows."""
    if found.files:
        return [f"{file}:{line}" for file, line in zip(found.files[:most], found.lines[:most], strict=True)]
    return [str(place) for place in (found.lines or found.rows)[:most]]
