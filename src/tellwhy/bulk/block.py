"""One block explained.

One number for each row, by which equal rows of different blocks are found.

One block: read, judge, explain the alarms, write. Pools and clusters run this one function.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from tellwhy.bulk.blocks import Block, ReadBlock, read_block
from tellwhy.bulk.parts import Record, name_part, write_part, write_record
from tellwhy.bulk.plan import Job
from tellwhy.bulk.repeats import HASH, Hashes, choose_compared, hash_rows
from tellwhy.core.errors import TellwhyError
from tellwhy.core.score import Integers
from tellwhy.data import Table
from tellwhy.kinds.marks import marked_cause, rows_held
from tellwhy.kinds.new_data import count_beyond
from tellwhy.kinds.table import change_request, judge
from tellwhy.kinds.table_cells import Judged
from tellwhy.kinds.table_model import TableModel, load_table_model
from tellwhy.kinds.table_result import run_of
from tellwhy.kinds.table_rows import write_rows
from tellwhy.results.notice import Notice
from tellwhy.results.result import Anomaly, Finding, Part
from tellwhy.results.schema import to_plain
from tellwhy.storage.documents import make_plain

EXPLAINED_AT_ONCE = 200  # alarms, between two looks at the clock
MOST_NAMED = 200  # alarms of a block that the whole run may tell
_WARMING = 200  # rows
NOT_EXPLAINED = Notice("not_explained")


@lru_cache(maxsize=1)
def _load_model(path: str, checksum: str) -> TableModel:  # noqa: ARG001
    return load_table_model(path)


def explain_block(job: Job, block: Block) -> Record:
    """Explain one block and write its parts; the record comes last. One thread: the same bits anywhere."""
    with threadpool_limits(limits=1):
        model = _load_model(job.model, job.checksum)
        read = read_block(block, required=[*model.encoder.columns_, *model.by_roles])
        record = (
            _make_empty_record(block, read)
            if read.table is None
            else _explain_judged(job, model, block, read)
        )
    write_record(Path(job.out), record)
    return record


def warm_up(job: Job) -> None:
    """Judge and explain some rows that the model keeps; what this learns and loads serves every block."""
    # What is wrong with a model is told where a block meets it.
    with suppress(Exception), threadpool_limits(limits=1):
        model = _load_model(job.model, job.checksum)
        rows = model.reference.head(_WARMING)
        if model.by_reference is not None:
            rows = rows.assign(**model.by_reference.head(_WARMING))
        table = Table(rows, model.source)
        judged = judge(
            model,
            table,
            change_request(model, {"method": job.method}),
            finds_learned=job.is_own,
            is_part=True,
        )
        _tell_rows(model, judged, np.arange(min(3, len(judged.ranking.scores))))


def _make_empty_record(block: Block, read: ReadBlock) -> Record:
    return Record(block.number, failed=[list(each) for each in read.failed])


def _explain_judged(job: Job, model: TableModel, block: Block, read: ReadBlock) -> Record:
    settings: dict[str, Any] = {"method": job.method}
    if job.id_column:
        settings["id_column"] = job.id_column
    if read.table is None:
        raise AssertionError("nothing was read")
    try:
        request = change_request(model, settings)
        judged = judge(model, read.table, request, finds_learned=job.is_own, is_part=True)
    except TellwhyError as error:  # columns that are gone in one file of many
        failed = [*read.failed, (", ".join(sorted(set(read.files))), str(error))]
        return Record(block.number, failed=[list(each) for each in failed])
    every = list(_find_alarms(job, model, judged))
    explained = [each for each in every if not each.is_held]
    held = [each.anomaly.row for each in every if each.is_held]
    out = Path(job.out)
    hashes = hash_rows(read.table.frame, choose_compared(model))
    tables = {
        "scores": _make_score_table(judged, read, held, hashes),
        "alarms": _make_alarm_table(judged, read, explained),
    }
    if job.explain_all:
        tables["attributions"] = _make_attribution_table(job, judged, read)
    names = {what: name_part(block.number, what) for what in tables}
    written = {names[what]: write_part(out, names[what], table) for what, table in tables.items()}
    return Record(
        block.number,
        n_read=len(read.rows),
        n_rows=len(judged.ranking.scores),
        n_alarms=len(explained),
        n_explained=sum(each.anomaly.doubt != NOT_EXPLAINED for each in explained),
        n_held_back=len(_rows_held(judged) | set(held)),
        highest=float(judged.ranking.scores.max()) if len(judged.ranking.scores) else None,
        parts=written,
        failed=[list(each) for each in read.failed],
        findings=_list_findings(judged, explained),
        beyond={name: asdict(count) for name, count in count_beyond(model, judged.batch.cleaned).items()},
    )


def _rows_held(judged: Judged) -> set[int]:
    """Rows that marks hold back by what was found in them as data."""
    ranking = judged.ranking
    is_alarm = ranking.scores > ranking.threshold
    by_cause = rows_held(judged.batch.held, judged.batch.fitted.selection.rows.tolist(), is_alarm)
    return {row for rows in by_cause.values() for row in rows}


class Explained(NamedTuple):
    """An alarm, the attributions of its columns (none without reasons), and whether a mark holds it back."""

    anomaly: Anomaly
    values: list[float]
    is_held: bool = False


def _find_alarms(job: Job, model: TableModel, judged: Judged) -> Iterator[Explained]:
    """The alarms of a block, the oddest first, with their reasons; without, once the time is up."""
    ranking = judged.ranking
    alarms = np.argsort(-ranking.scores, kind="stable")[: ranking.n_above]
    until = time.monotonic() + job.budget * len(alarms) if job.budget else np.inf
    for start in range(0, len(alarms), EXPLAINED_AT_ONCE):
        some = alarms[start : start + EXPLAINED_AT_ONCE]
        if time.monotonic() < until:
            yield from _tell_rows(model, judged, some)
        else:
            yield from (Explained(_make_bare_anomaly(judged, int(position)), []) for position in some)


def _tell_rows(model: TableModel, judged: Judged, positions: Integers) -> list[Explained]:
    chosen = replace(judged.ranking, positions=positions, percentiles=np.full(len(positions), 100.0))
    run = run_of(replace(judged, ranking=chosen), with_evidence=False)
    held = [bool(marked_cause(anomaly, run.usual, model.marks)) for anomaly in run.anomalies]
    told = judged.in_words(run).anomalies
    return list(map(Explained, told, run.explanation.values.tolist(), held))


def _make_bare_anomaly(judged: Judged, position: int) -> Anomaly:
    score = float(judged.ranking.scores[position])
    part = Part("row", row=int(judged.batch.fitted.selection.rows[position]))
    p_value = judged.ranking.p_value(position)
    return Anomaly(part, score, p_value, is_alarm=True, percentile=100.0, doubt=NOT_EXPLAINED)


def _list_places(read: ReadBlock, rows: Integers) -> dict[str, Any]:
    """File and row of each row, in columns."""
    files = np.array(read.files, dtype=object)[rows]
    return {
        "file": pa.array(files, pa.string()).dictionary_encode(),
        "row": pa.array(np.array(read.rows, dtype=np.int64)[rows]),
    }


def _make_score_table(judged: Judged, read: ReadBlock, held: list[int], hashes: Hashes) -> pa.Table:
    """Every row that was read; one that was dropped for its gaps has no score."""
    ranking = judged.ranking
    judged_rows = judged.batch.fitted.selection.rows
    scores = np.full(len(read.rows), np.nan)
    scores[judged_rows] = ranking.scores
    is_alarm = np.nan_to_num(scores, nan=-np.inf) > ranking.threshold
    is_alarm[held] = False
    places = _list_places(read, np.arange(len(scores)))
    told = {**places, "score": pa.array(scores, from_pandas=True), "is_alarm": is_alarm}
    return pa.table({**told, HASH: hashes})


def _make_alarm_table(judged: Judged, read: ReadBlock, explained: list[Explained]) -> pa.Table:
    """One line per alarm: where it is, why, the row as the table has it, and all that a run tells of it."""
    anomalies = [each.anomaly for each in explained]
    rows = np.array([anomaly.row for anomaly in anomalies], dtype=np.int64)
    reasons = [[reason.text for reason in anomaly.reasons[:3]] for anomaly in anomalies]
    told = {
        f"reason_{k + 1}": pa.array([texts[k] if k < len(texts) else None for texts in reasons], pa.string())
        for k in range(3)
    }
    table = (
        judged.batch.table if read.table is None else read.table
    )  # texts as they are, not how odd they are
    written = write_rows(table.frame.iloc[rows]).to_dict("records") if len(rows) else []
    return pa.table(
        {
            **_list_places(read, rows),
            "id": pa.array([anomaly.id for anomaly in anomalies], pa.string()),
            "score": pa.array([anomaly.score for anomaly in anomalies], pa.float64()),
            "p_value": pa.array([anomaly.p_value for anomaly in anomalies], pa.float64()),
            **told,
            "holds": pa.array([anomaly.holds for anomaly in anomalies], pa.bool_()),
            "note": pa.array([anomaly.note for anomaly in anomalies], pa.string()),
            "cells": pa.array([_write_json(_show_cells(cells)) for cells in written], pa.string()),
            "values": pa.array([each.values for each in explained], pa.list_(pa.float64())),
            "anomaly": pa.array([_write_json(to_plain(anomaly)) for anomaly in anomalies], pa.string()),
        }
    )


def _show_cells(cells: dict[Any, Any]) -> dict[str, Any]:
    """Cells as JSON can hold them; what is missing is null."""
    return {str(name): None if _is_gap(cell) else cell for name, cell in cells.items()}


def _is_gap(cell: Any) -> bool:
    return cell is None or bool(cell != cell)  # noqa: PLR0124  NaN and NaT differ from themselves


def _write_json(value: Any) -> str:
    return json.dumps(make_plain(value), ensure_ascii=False)


def _make_attribution_table(job: Job, judged: Judged, read: ReadBlock) -> pa.Table:
    """What each column contributes to the score of every row, by the detector."""
    everyone = np.arange(len(judged.ranking.scores))
    found = judged.batch.fitted.explain(everyone, job.method)
    columns = {name: found.values[:, c] for c, name in enumerate(found.names())}
    places = _list_places(read, judged.batch.fitted.selection.rows)
    return pa.table({**places, "score": found.scores, **{f"value: {n}": v for n, v in columns.items()}})


def _list_findings(judged: Judged, explained: list[Explained]) -> list[dict[str, Any]]:
    """What is wrong with the rows as data; of the rows, those that the run may tell are named."""
    told = {each.anomaly.row for each in explained[:MOST_NAMED]}
    rows = judged.batch.fitted.selection.rows
    return [_record(finding, rows, told) for finding in judged.batch.found.findings if finding.rows]


def _record(finding: Finding, rows: Integers, told: set[int]) -> dict[str, Any]:
    numbers = rows[list(finding.rows)]
    named = finding.of_rows([i for i in np.argsort(numbers, kind="stable") if numbers[i] in told])
    return {
        "kind": finding.kind,
        "columns": list(finding.columns),
        "n_rows": finding.n_rows,
        "form": finding.form,
        "facts": dict(finding.facts),
        "usual": dict(finding.usual),
        "action": finding.action,
        "rows": rows[list(named.rows)].tolist(),
        "probabilities": list(named.probabilities),
        "expected": list(named.expected),
        "own": [dict(each) for each in named.own],
    }
