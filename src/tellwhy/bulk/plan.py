"""What a run over many rows is about, kept beside its parts: another run in the same folder is noticed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tellwhy.bulk.blocks import Block, list_files, plan_blocks
from tellwhy.core.errors import CannotWrite, UnreadableFile
from tellwhy.kinds.table_model import load_table_model
from tellwhy.storage.documents import make_plain, read_versioned
from tellwhy.storage.folders import new_file

PLAN = "bulk.json"
SCHEMA = 2
OURS = ("model.tellwhy", "query.parquet", "query.json")  # what may be in the folder before a run begins


@dataclass(frozen=True)
class Job:
    """What is the same for every block.

    Attributes
    ----------
    model, checksum
        The model's file, and its SHA-256, so that another model under the same name is noticed.
    out
        Folder of the run.
    explain_all
        Whether the attributions of every row are written.
    method
        Of explaining.
    budget
        Seconds for each alarm; 0 for no limit.
    id_column
        Column that names rows; "" for that of the model.
    is_own
        Whether the model was fitted to these rows: they are judged as if it had not seen them.
    """

    model: str
    checksum: str
    out: str
    explain_all: bool = False
    method: str = "auto"
    budget: float = 0.0
    id_column: str = ""
    is_own: bool = False


@dataclass(frozen=True)
class Plan:
    """Blocks, and what is done with each."""

    job: Job
    blocks: tuple[Block, ...]
    files: tuple[tuple[str, int, int], ...]  # name, size, time of the last change


def make_plan(names: Sequence[str | Path], job: Job) -> Plan:
    """Return the plan of a run, from its folder where that holds the same one; else a new one.

    Files are compared by name, size and time: with others, or another model or other settings, the folder
    holds another run, and is left alone.
    """
    files = tuple((str(path), *_stamp(path)) for path in list_files(names))
    path = Path(job.out) / PLAN
    if not path.exists():
        _check_empty(Path(job.out))
        load_table_model(job.model)  # one that cannot be read must not leave a folder that is in the way
        plan = Plan(job, tuple(plan_blocks(names)), files)
        _write(path, plan)
        return plan
    head = read_versioned(path, SCHEMA, "a run over many rows")
    _check_same(path, head, job, files)
    try:
        blocks = tuple(Block.of_record(each) for each in head["blocks"])
    except (LookupError, TypeError, ValueError) as error:
        raise UnreadableFile(f"{path} is damaged: {error!r}. Remove the folder and run again.") from error
    return Plan(job, blocks, files)


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _check_empty(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(path.name not in OURS for path in out.iterdir())):
        raise CannotWrite(
            f"{out} exists and holds something else than a run over many rows: choose another, or move it "
            "away."
        )


def _check_same(path: Path, head: dict[str, Any], job: Job, files: Sequence[Sequence[Any]]) -> None:
    told = asdict(job)
    before = head.get("job")
    changed = [
        name
        for name in ("checksum", "explain_all", "method", "budget", "id_column", "is_own")
        if not isinstance(before, dict) or before.get(name) != told[name]
    ]
    words = {"checksum": "the model", "explain_all": "--all", "budget": "--budget", "id_column": "--id"}
    named = [words.get(name, f"--{name}") for name in changed]
    if head.get("files") != make_plain(files):
        named.append("the files")
    if named:
        raise CannotWrite(
            f"{path.parent} holds another run: {', '.join(named)} changed since it began. Choose another "
            "folder, or remove this one to begin anew."
        )


def _write(path: Path, plan: Plan) -> None:
    head = {
        "schema": SCHEMA,
        "job": {**asdict(plan.job), "out": ""},
        "files": plan.files,
        "blocks": [block.record() for block in plan.blocks],
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(f"Cannot write to {path.parent}: {error.strerror or error}.") from error
    with new_file(path) as work:
        work.write_text(json.dumps(make_plain(head), ensure_ascii=False) + "\n", encoding="utf-8")
