"""`explain_bulk`: any number of rows, explained block by block, and continued where it was stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tellwhy.bulk.blocks import Block
from tellwhy.bulk.merge import EarlySample, merge_run, write_list
from tellwhy.bulk.parts import ROWS, Record, clear_unfinished, make_folders, read_record, write_record
from tellwhy.bulk.plan import Job, Plan, make_plan
from tellwhy.bulk.workers import run_in_pool, start_starter
from tellwhy.core.errors import CannotWrite, InvalidParameter, UnreadableFile
from tellwhy.core.optional import require
from tellwhy.core.params import integer, real, validate_value
from tellwhy.core.progress import stage, track
from tellwhy.data.databases import is_address, words_of
from tellwhy.data.queries import write_query
from tellwhy.kinds.mark_file import fingerprint_with_marks
from tellwhy.results.result import Result
from tellwhy.storage.folders import new_file
from tellwhy.verdicts.run_io import save_run

LOCK = "at-work"
RUN = "run"

Runner = Callable[[Job, Sequence[Block]], Iterator[Record]]


@dataclass(frozen=True)
class BulkResult:
    """What a run over many rows came to.

    Attributes
    ----------
    out
        Its folder.
    run
        The oddest alarms of all; its folder is `run/` in `out`. None where no row could be judged.
    n_rows, n_alarms, n_held_back
        Rows that were judged, alarms, and alarms that marks held back.
    n_blocks, n_resumed
        Blocks in all, and those that an earlier run had finished.
    failed
        Pieces that could not be read or explained, and why.
    """

    out: Path
    run: Result | None
    n_rows: int
    n_alarms: int
    n_held_back: int
    n_blocks: int
    n_resumed: int
    failed: list[tuple[str, str]]

    @property
    def n_flagged(self) -> int:
        """Alarms, as a `Result` calls them."""
        return self.n_alarms


def explain_bulk(
    names: str | Path | Sequence[str | Path],
    *,
    model: str | Path,
    out: str | Path,
    workers: int = 1,
    explain_all: bool = False,
    method: str = "auto",
    budget: float = 0.0,
    id_column: str | None = None,
    is_own: bool = False,
    ray: str | None = None,
) -> BulkResult:
    """Explain the rows of files that need not fit into memory, by a model that was fitted before.

    Run again, it goes on where it was stopped, whatever stopped it; its result is then the same, byte for
    byte, as that of a run that was not stopped, with any number of processes.

    Parameters
    ----------
    names
        Parquet or text files, or folders of them.
    model
        A file that `tellwhy.save` wrote.
    out
        Folder of the run.
    workers
        Processes.
    explain_all
        Whether to write the attributions of every row, and not only the reasons of alarms.
    method
        Of explaining.
    budget
        Seconds for each alarm; alarms beyond it are written without reasons. 0: no limit.
    id_column
        Column that names rows; by default that of the model.
    is_own
        Whether the model was fitted to these very rows: they are then judged as if it had not seen them.
    ray
        Address of a Ray cluster, or 'local'; the processes are then Ray's.
    """
    validate_value("explain_bulk", "workers", workers, integer(1, 10_000))
    validate_value("explain_bulk", "budget", budget, real(0, closed="left"))
    listed = [names] if isinstance(names, (str, Path)) else list(names)
    if not listed:
        raise InvalidParameter("Name at least one file or folder to explain; got none.")
    stage("planning")
    job = Job(
        os.path.abspath(model),
        fingerprint_with_marks(model),
        os.path.abspath(out),
        explain_all=explain_all,
        method=method,
        budget=budget,
        id_column=id_column or "",
        is_own=is_own,
    )
    with _choose_runner(workers, ray) as runner:
        plan = make_plan([os.path.abspath(name) for name in listed], job)
        make_folders(Path(job.out))
        with _lock_folder(Path(job.out)):
            clear_unfinished(Path(job.out))
            return _continue_run(plan, runner)


@contextmanager
def _choose_runner(workers: int, ray: str | None) -> Iterator[Runner]:
    """What explains blocks; processes load the libraries while it is planned what they are to do."""
    if ray is None:
        early = start_starter()
        try:
            yield lambda job, blocks: run_in_pool(job, blocks, workers, early)
        finally:
            early.end()
        return
    from tellwhy.bulk.workers import run_on_ray

    require("ray", "--ray")  # before anything is written
    yield lambda job, blocks: run_on_ray(job, blocks, ray, workers)


@contextmanager
def _lock_folder(out: Path) -> Iterator[None]:
    """Let one process at a time write into a folder; the lock goes with the process that holds it."""
    import fcntl

    with (out / LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CannotWrite(f"Another process is at work in {out}; wait for it, or stop it.") from error
        yield


def _continue_run(plan: Plan, runner: Runner) -> BulkResult:
    """Explain the blocks that are not done, and put the run together."""
    out = Path(plan.job.out)
    done = _find_done(plan)
    n_resumed = len(done)
    early = EarlySample(plan)
    try:
        _explain_others(plan, runner, done, early)
        clear_unfinished(out)  # of workers that were killed while they wrote; others did their blocks
        records = [done[block.number] for block in plan.blocks]
        stage("putting the run together")
        run = merge_run(plan, records, early.result())
    finally:
        early.end()
    if run is not None:
        save_run(run, out / RUN)
    write_list(plan, records, run)
    return BulkResult(
        out=out,
        run=run,
        n_rows=sum(record.n_rows for record in records),
        n_alarms=sum(record.n_alarms for record in records),
        n_held_back=sum(record.n_held_back for record in records),
        n_blocks=len(records),
        n_resumed=n_resumed,
        failed=[(str(each[0]), str(each[1])) for record in records for each in record.failed],
    )


def _find_done(plan: Plan) -> dict[int, Record]:
    """Records of the blocks that need not be done again, by number."""
    found = {block.number: read_record(Path(plan.job.out), block.number) for block in plan.blocks}
    # What could not be read is tried again: the file may have been mended.
    return {n: record for n, record in found.items() if record is not None and not record.failed}


def _explain_others(plan: Plan, runner: Runner, done: dict[int, Record], early: EarlySample) -> None:
    """Explain the blocks that are not done; `done` gets their records."""
    left = [block for block in plan.blocks if block.number not in done]
    early.look(done)
    for record in track(runner(plan.job, left), len(left), f"explaining {len(left)} blocks"):
        done[record.number] = record
        if record.failed and not record.parts:
            write_record(Path(plan.job.out), record)
        early.look(done)


QUERY = "query.json"


def write_rows_of_query(query: str, db: str | Path, out: Path) -> Path:
    """Ask a database once, and return the file of rows; a run that goes on reads those it began with."""
    words = words_of(db)
    told = {"query": query, "db": words if is_address(words) else str(Path(words).resolve())}
    target = out / ROWS
    if (out / QUERY).exists() and target.exists():
        if _read_query(out / QUERY) != told:
            raise CannotWrite(f"{out} holds a run of another query: choose another folder, or remove it.")
        return target
    if out.exists() and any(path.name not in (ROWS, QUERY, "model.tellwhy") for path in out.iterdir()):
        raise CannotWrite(f"{out} exists and holds something else than this run: choose another folder.")
    stage("asking", words)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(f"Cannot write to {out}: {error.strerror or error}.") from error
    if not write_query(query, db, target):
        raise UnreadableFile(
            f"The query of {words} gave no rows; expected at least one. Check its conditions."
        )
    with new_file(out / QUERY) as work:
        work.write_text(json.dumps(told) + "\n", encoding="utf-8")
    return target


def _read_query(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
