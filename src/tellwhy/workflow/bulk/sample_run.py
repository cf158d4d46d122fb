"""What is told of all rows but seen in some of them: made while the other blocks are still at work.

What is usual in each column, and how far explanations can be trusted, is told for the oddest rows of one
block. That takes some seconds of one processor. A run on many processors would spend a good part of its time
on it if it came at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from tellwhy.core.progress import silently
from tellwhy.core.score_function import Floats
from tellwhy.workflow.bulk.blocks import read_block
from tellwhy.workflow.bulk.parts import PARTS, Record, part_name
from tellwhy.workflow.bulk.plan import Plan
from tellwhy.workflow.models.explain_new import changed_request, judge, judged_run
from tellwhy.workflow.models.files import load_table_model
from tellwhy.workflow.models.table_model import TableModel
from tellwhy.workflow.run import Run
from tellwhy.workflow.verdicts.reasons import groups_of

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
    run: Run
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
        request = changed_request(model, settings)
        run = judged_run(model, judge(model, some, request, finds_learned=plan.job.is_own))
    moved = [replace(each, row=int(chosen[each.row]), line=None) for each in run.anomalies]
    return Sample(model, replace(run, anomalies=moved, groups=groups_of(moved)), record.number)


def scores_of(plan: Plan, record: Record) -> Floats:
    """Scores of the rows of a block; NaN where a row was dropped for its gaps."""
    path = Path(plan.job.out) / PARTS / part_name(record.number, "scores")
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
