"""Parts to one run.

What is told of all rows but seen in some of them: made while the other blocks are still at work.

What is usual in each column, and how far explanations can be trusted, is told for the oddest rows of one
block. That takes some seconds of one processor. A run on many processors would spend a good part of its time
on it if it came at the end.

The parts of all blocks as one run: its list of parts, and the folder that people open.
"""

from __future__ import annotations

import datetime
import heapq
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from tellwhy.bulk.blocks import read_block
from tellwhy.bulk.parts import PARTS, Record, name_part
from tellwhy.bulk.plan import Plan
from tellwhy.bulk.repeats import find_repeats_elsewhere
from tellwhy.core.explanation import Explanation
from tellwhy.core.progress import silently
from tellwhy.core.score import Floats, Integers
from tellwhy.kinds.new_data import join_counts, tell_since_fitted
from tellwhy.kinds.table import (
    change_request,
    draw_fitted_line,
    explain_judged,
    judge,
    keep_counting_notices,
    settings_of_model,
)
from tellwhy.kinds.table_cells import Judged
from tellwhy.kinds.table_model import TableModel, load_table_model
from tellwhy.kinds.table_result import average_shares
from tellwhy.results.notice import Notice, written
from tellwhy.results.result import AlarmRule, Anomaly, Finding, Result
from tellwhy.results.schema import from_plain, to_plain
from tellwhy.storage.documents import make_plain
from tellwhy.storage.folders import new_file
from tellwhy.verdicts.headline import make_headline
from tellwhy.verdicts.reasons import group_anomalies

MOST_JUDGED = 1_000  # rows of one block by which it is told how far explanations can be trusted
LONGEST_END = 20.0  # seconds that a run which is interrupted waits for what it has begun here


@dataclass(frozen=True, eq=False)
class Sample:
    """The run of the oddest rows of one block, and the model that made it.

    Attributes
    ----------
    model
        As it was read from its file.
    run
        Rows are numbered within the block.
    number
        Of the block.
    """

    model: TableModel
    run: Result
    number: int


def sample_of(plan: Plan, record: Record) -> Sample:
    """Judge and explain the oddest rows of a block, in one thread: the same bits on any machine."""
    with threadpool_limits(limits=1):
        model = load_table_model(plan.job.model)
        read = read_block(plan.blocks[record.number], required=[*model.encoder.columns_, *model.by_roles])
        if read.table is None:
            raise AssertionError("a block that was judged can be read")
        settings: dict[str, Any] = {"method": plan.job.method}
        if plan.job.id_column:
            settings["id_column"] = plan.job.id_column
        scores = scores_of(plan, record)
        filled = np.flatnonzero(np.isfinite(scores))
        chosen = np.sort(filled[np.argsort(-scores[filled], kind="stable")[:MOST_JUDGED]])
        some = replace(read.table, frame=read.table.frame.iloc[chosen].reset_index(drop=True))
        request = change_request(model, settings)
        judged = judge(model, some, request, finds_learned=plan.job.is_own, is_part=True)
        run = _drop_counting_notices(explain_judged(model, judged), judged)
    moved = [
        replace(each, part=replace(each.part, row=int(chosen[each.row]), line=None)) for each in run.anomalies
    ]
    return Sample(model, replace(run, anomalies=moved, groups=group_anomalies(moved)), record.number)


def _drop_counting_notices(run: Result, judged: Judged) -> Result:
    """The run without the notices that count its own rows."""
    fitted = judged.batch.fitted
    counted = keep_counting_notices(fitted.encoder, fitted.selection)
    left_out = [*counted, *([] if run.opening is None else run.opening.more)]
    return replace(run, notices=[notice for notice in run.notices if notice not in left_out])


def scores_of(plan: Plan, record: Record) -> Floats:
    """Scores of the rows of a block; NaN where a row was dropped for its gaps."""
    path = Path(plan.job.out) / PARTS / name_part(record.number, "scores")
    return np.asarray(pq.read_table(path, columns=["score"]).column(0).to_numpy())


@dataclass(eq=False)
class EarlySample:
    """A sample that is made in a thread as soon as it is known of which block it must be."""

    plan: Plan
    _made: list[Sample] = field(default_factory=list)
    _failed: list[BaseException] = field(default_factory=list)
    _thread: threading.Thread | None = None
    _n_without: int = 0  # blocks, from the first on, that have no alarms

    def first_with_alarms(self, done: Mapping[int, Record]) -> Record | None:
        """The first block that has alarms; None while one before it is not done, or where none has any.

        Which block it is does not depend on the order in which they are done.
        """
        for block in self.plan.blocks[self._n_without :]:
            record = done.get(block.number)
            if record is None or record.n_alarms:
                return record
            self._n_without += 1
        return None

    def look(self, done: Mapping[int, Record]) -> None:
        """Begin, where the blocks that are done allow it."""
        record = None if self._thread is not None else self.first_with_alarms(done)
        if record is not None:
            # A daemon: it must not keep a process alive whose run has failed.
            self._thread = threading.Thread(target=silently(self._make), args=(record,), daemon=True)
            self._thread.start()

    def _make(self, record: Record) -> None:
        try:
            self._made.append(sample_of(self.plan, record))
        except BaseException as error:  # told by the thread that asks for it
            self._failed.append(error)

    def end(self) -> None:
        """Wait for the thread for a while: one in mid-work would break the end of the process."""
        if self._thread is not None:
            self._thread.join(LONGEST_END)

    def result(self) -> Sample | None:
        """The sample; None where no block has alarms. What went wrong in making it is raised here."""
        if self._thread is not None:
            self._thread.join()
        if self._failed:
            raise self._failed[0]
        return self._made[0] if self._made else None


WHOLE = "parts.json"
MOST_TOLD = 200  # alarms that the run's folder lists; all are in the parts
MOST_SCORES = 10_000_000  # rows whose scores the run's folder holds as well


@dataclass(frozen=True, eq=False)
class _Alarm:
    """One alarm of one block, as it stands in the part."""

    anomaly: Anomaly
    values: Sequence[float]
    cells: Mapping[str, Any]


def write_list(plan: Plan, records: Sequence[Record], run: Result | None) -> None:
    """Write the list of all parts, with their sizes and checksums, and of what could not be read."""
    beyond = join_counts(record.beyond for record in records)
    told = {
        "schema": 1,
        "n_rows": sum(record.n_rows for record in records),
        "n_alarms": sum(record.n_alarms for record in records),
        "n_held_back": sum(record.n_held_back for record in records),
        "parts": {name: list(found) for record in records for name, found in record.parts.items()},
        "failed": [list(each) for record in records for each in record.failed],
        "findings": [] if run is None else [to_plain(finding) for finding in run.findings],
        "beyond": {name: asdict(count) for name, count in beyond.items() if count.n},
    }
    with new_file(Path(plan.job.out) / WHOLE) as work:
        work.write_text(json.dumps(make_plain(told), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def merge_run(plan: Plan, records: Sequence[Record], sample: Sample | None = None) -> Result | None:
    """The oddest alarms of all blocks as one run; None where no row was judged.

    `sample` is that of the first block with alarms, where it was made before.
    """
    n_rows = sum(record.n_rows for record in records)
    if not n_rows:
        return None
    n_alarms = sum(record.n_alarms for record in records)
    sample = sample if n_alarms else _sample_oddest(plan, records)
    if sample is None:
        sample = sample_of(plan, next(record for record in records if record.n_alarms))
    model = sample.model
    base = sample.run
    line = draw_fitted_line(model, n_rows)
    rule = AlarmRule(line.rule, n_alarms, line.expected_false, line.over)
    scores, rows = _join_scores(plan, records, n_rows, model.threshold)
    beyond = join_counts(record.beyond for record in records)
    told = replace(
        base,
        source=_name_source(plan),
        done=written(_write_summary(plan, model, n_rows, n_alarms)),
        notices=[
            *base.notices,
            *_collect_notices(records, n_rows),
            *tell_since_fitted(model, beyond),
        ],
        scores=scores,
        rows=rows,
        findings=[*merge_findings(records), *find_repeats_elsewhere(plan, records, model)],
        alarms=rule,
        created=_find_newest(plan),
        settings={**base.settings, **settings_of_model(plan.job.model)},
        fingerprint=plan.job.checksum,
    )
    told = _put_alarms(told, list(_find_oddest(plan, records))) if n_alarms else told
    told = replace(told, findings=_keep_findings_of_alarms(told))
    return replace(told, opening=make_headline(n_rows, rule, told.anomalies, told.usual))


def _sample_oddest(plan: Plan, records: Sequence[Record]) -> Sample:
    """Without any alarm the oddest rows of all are told, by their numbers among all rows."""
    judged = [record for record in records if record.n_rows]
    oddest = max(judged, key=lambda record: -np.inf if record.highest is None else record.highest)
    sample = sample_of(plan, oddest)
    first = sum(record.n_read for record in records if record.number < oddest.number)
    moved = [replace(each, part=replace(each.part, row=first + each.row)) for each in sample.run.anomalies]
    return replace(sample, run=replace(sample.run, anomalies=moved, groups=group_anomalies(moved)))


def _join_scores(plan: Plan, records: Sequence[Record], n_rows: int, line: float) -> tuple[Floats, Integers]:
    """Scores of all rows in order, and the rows; of very many, none: they are in the parts."""
    if n_rows > MOST_SCORES:
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    scores = np.concatenate([_limit_scores(plan, record, line) for record in records if record.n_rows])
    firsts = np.cumsum([0, *(record.n_read for record in records)])[:-1]
    rows = np.concatenate(
        [
            np.arange(record.n_read) + first
            for record, first in zip(records, firsts, strict=True)
            if record.n_rows
        ]
    )
    is_judged = np.isfinite(scores)
    return scores[is_judged], rows[is_judged].astype(np.int64)


def _limit_scores(plan: Plan, record: Record, line: float) -> Floats:
    """Scores of a block; a row that a mark holds back is at the line, as no alarm is above it."""
    path = Path(plan.job.out) / PARTS / name_part(record.number, "scores")
    table = pq.read_table(path, columns=["score", "is_alarm"])
    scores = np.asarray(table.column("score").to_numpy())
    is_alarm = np.asarray(table.column("is_alarm").to_numpy())
    if not record.n_held_back:
        return scores
    return np.where(is_alarm, scores, np.minimum(scores, line))


def _find_oddest(plan: Plan, records: Sequence[Record]) -> Iterator[_Alarm]:
    """The alarms with the highest scores, numbered among all rows."""
    best: list[tuple[float, int, int]] = []  # score, minus the row's number, block
    first = 0
    firsts: dict[int, int] = {}
    for record in records:
        firsts[record.number] = first
        if record.n_alarms and not _is_lower(record, best):
            path = Path(plan.job.out) / PARTS / name_part(record.number, "alarms")
            scores = pq.read_table(path, columns=["score"]).column(0).to_pylist()
            found = [(float(score), -place, record.number) for place, score in enumerate(scores)]
            best = heapq.nlargest(MOST_TOLD, [*best, *found], key=lambda each: (each[0], -each[2], each[1]))
        first += record.n_read
    is_single = len(plan.files) == 1
    lines = _read_lines(plan, best)
    for _, place, number in best:
        yield _make_alarm(lines[number, -place], firsts[number], is_single=is_single)


def _is_lower(record: Record, best: Sequence[tuple[float, int, int]]) -> bool:
    """Whether no row of a block can be among the oddest: its part need not be opened."""
    return len(best) == MOST_TOLD and record.highest is not None and record.highest < best[-1][0]


def _read_lines(
    plan: Plan, chosen: Sequence[tuple[float, int, int]]
) -> dict[tuple[int, int], dict[str, Any]]:
    """What the parts say of the chosen alarms, by block and place; each part is read once."""
    lines: dict[tuple[int, int], dict[str, Any]] = {}
    for number in sorted({each[2] for each in chosen}):
        places = sorted(-each[1] for each in chosen if each[2] == number)
        path = Path(plan.job.out) / PARTS / name_part(number, "alarms")
        table = pq.read_table(path, columns=["anomaly", "values", "cells"]).take(places)
        lines |= {(number, place): line for place, line in zip(places, table.to_pylist(), strict=True)}
    return lines


def _make_alarm(line: Mapping[str, Any], first: int, *, is_single: bool) -> _Alarm:
    anomaly: Anomaly = from_plain(Anomaly, json.loads(line["anomaly"]))
    file = None if is_single else anomaly.file
    anomaly = replace(anomaly, part=replace(anomaly.part, row=first + anomaly.row, line=None, file=file))
    return _Alarm(anomaly, line["values"] or [], json.loads(line["cells"]))


def _put_alarms(run: Result, alarms: Sequence[_Alarm]) -> Result:
    """The run with other rows told, and their attributions."""
    names = run.explanation.names()
    values = np.array([alarm.values or [0.0] * len(names) for alarm in alarms], dtype=np.float64)
    cells = pd.DataFrame([dict(alarm.cells) for alarm in alarms])
    scores = np.array([alarm.anomaly.score for alarm in alarms])
    explanation = Explanation(
        values=values,
        scores=scores,
        base_values=np.broadcast_to(run.explanation.base_values[:1], scores.shape),
        data=cells[list(names)],
        feature_names=list(names),
        method=run.explanation.method,
        params=run.explanation.params,
        kind=run.explanation.kind,
    )
    anomalies = [alarm.anomaly for alarm in alarms]
    return replace(
        run,
        anomalies=anomalies,
        explanation=explanation,
        column_shares=average_shares(explanation),
        groups=group_anomalies(anomalies),
        table_rows=cells,
    )


def merge_findings(records: Sequence[Record]) -> list[Finding]:
    """Findings of all blocks; those with one cause are one, with the number of all their rows.

    Of these rows, numbered among all, those are named that may be told as alarms.
    """
    merged: dict[tuple[Any, ...], _Merged] = {}
    start = 0
    for record in records:
        for found in record.findings:
            cause = (found["kind"], found["form"], tuple(found["columns"]), _write_json(found["facts"]))
            one = merged.setdefault(cause, _Merged(found))
            one.n_rows += int(found["n_rows"])
            one.rows += [start + int(row) for row in found["rows"]]
            for name, its in one.of_rows.items():
                its.extend(found.get(name, ()))
        start += record.n_read
    told = sorted(merged.values(), key=lambda each: -each.n_rows)
    return [one.finding() for one in told]


@dataclass(eq=False)
class _Merged:
    """A finding of several blocks."""

    first: Mapping[str, Any]
    n_rows: int = 0
    rows: list[int] = field(default_factory=list)
    of_rows: dict[str, list[Any]] = field(
        default_factory=lambda: {"probabilities": [], "expected": [], "own": []}
    )

    def finding(self) -> Finding:
        """The finding of all of them; how many rows of one block are otherwise is not told."""
        usual = {name: value for name, value in self.first["usual"].items() if name != "n"}
        return Finding(
            self.first["kind"],
            list(self.first["columns"]),
            self.rows,
            self.first["facts"],
            usual,
            form=self.first["form"],
            n=self.n_rows,
            action=self.first["action"],
            probabilities=self._of_rows("probabilities"),
            expected=self._of_rows("expected"),
            own=self._of_rows("own"),
        )

    def _of_rows(self, name: str) -> list[Any]:
        """What is known of each row, where it is known of all."""
        return self.of_rows[name] if len(self.of_rows[name]) == len(self.rows) else []


def _write_json(facts: Mapping[str, Any]) -> str:
    return json.dumps(make_plain(facts), ensure_ascii=False, sort_keys=True)


def _keep_findings_of_alarms(run: Result) -> list[Finding]:
    """Findings that name the told alarms alone: a mark is made of them, with the value that they found."""
    told = {anomaly.row for anomaly in run.anomalies}
    return [f.of_rows([i for i, row in enumerate(f.rows) if row in told]) for f in run.findings]


def _name_source(plan: Plan) -> str:
    first = plan.files[0][0]
    return first if len(plan.files) == 1 else f"{first} and {len(plan.files) - 1} more"


def _write_summary(plan: Plan, model: TableModel, n_rows: int, n_alarms: int) -> str:
    files = "1 file" if len(plan.files) == 1 else f"{len(plan.files):,} files"
    blocks = "1 block" if len(plan.blocks) == 1 else f"{len(plan.blocks):,} blocks"
    alarms = {0: "No row is", 1: "1 row is"}.get(n_alarms, f"{n_alarms:,} rows are")
    told = (
        f"the {MOST_TOLD:,} oddest are listed here, all of them are in"
        if n_alarms > MOST_TOLD
        else "scores of all rows are in"
    )
    return (
        f"{n_rows:,} rows of {files} were judged in {blocks} by a {model.words} that was "
        f"fitted to {model.n_rows:,} rows of {Path(model.source).name}. {alarms} above the "
        f"threshold ({model.rule}); {told} {PARTS}/."
    )


def _collect_notices(records: Sequence[Record], n_rows: int) -> list[Notice]:
    failed = [each for record in records for each in record.failed]
    n_held = sum(record.n_held_back for record in records)
    told = [Notice("piece_left_out", {"name": each[0], "why": each[1]}) for each in failed[:20]]
    if len(failed) > 20:
        told.append(Notice("more_left_out", {"n": len(failed) - 20}))
    if n_held:
        told.append(Notice("held_back_in_all", {"n": n_held}))
    if n_rows > MOST_SCORES:
        told.append(Notice("scores_in_parts", {"n": n_rows}))
    return told


def _find_newest(plan: Plan) -> str:
    """When the newest file was changed: the clock of the run would make its bytes differ."""
    newest = max(file[2] for file in plan.files) / 1e9
    return datetime.datetime.fromtimestamp(int(newest), datetime.UTC).isoformat(timespec="seconds")
