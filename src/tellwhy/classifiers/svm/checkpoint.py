"""Dual variables of a training that is under way: enough to go on from, with any number of ranks."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from tellwhy.classifiers.svm.solver import Progress
from tellwhy.core.errors import InvalidInput, UnreadableFile
from tellwhy.core.score_function import Integers
from tellwhy.core.storage.files import new_folder, read_versioned, stored_arrays, write_json

SCHEMA = 1
_HEAD = "checkpoint.json"


def write(
    folder: Path, comm: Any, *, rows: Integers, duals: Any, progress: Progress, settings: dict[str, Any]
) -> None:
    """Write the variables of all ranks, whole or not at all: rows of the file × classes."""
    if comm.rank > 0:
        _write_part(Path(comm.bcast(None)), comm.rank, rows, duals)
        comm.Barrier()
        return
    with new_folder(folder, marker=_HEAD) as work:
        _write_part(Path(comm.bcast(str(work))), 0, rows, duals)
        comm.Barrier()
        state = {"epochs": progress.epochs, "seconds": progress.seconds, "history": progress.history}
        write_json(work / _HEAD, {"schema": SCHEMA, "settings": settings, "ranks": comm.size, **state})


def _write_part(work: Path, rank: int, rows: Integers, duals: Any) -> None:
    table = duals.tocoo()
    at, classes = table.coords
    np.savez(
        work / f"rank-{rank}.npz",
        row=rows[at],
        cls=classes.astype(np.int32),
        val=table.data,
        allow_pickle=False,
    )


def read(folder: Path, rows: Integers, n_classes: int, settings: dict[str, Any]) -> tuple[Any, Progress]:
    """Variables of the given rows × all classes, and how far the training had come."""
    head = read_versioned(folder / _HEAD, SCHEMA, "a checkpoint")
    if settings["labels"] != head["settings"].get("labels"):
        raise InvalidInput(
            f"The checkpoint {folder} was made from rows with other labels. Train on the file that it was made from, "
            "or without --resume."
        )
    for name, value in settings.items():
        if head["settings"].get(name) != value:
            raise InvalidInput(
                f"The checkpoint {folder} was made with {name} = {head['settings'].get(name)!r}, this training has "
                f"{value!r}. Train with the same settings, or without --resume."
            )
    parts = [_read_part(folder / f"rank-{rank}.npz") for rank in range(int(head["ranks"]))]
    row, cls, val = (np.concatenate([part[i] for part in parts]) for i in range(3))
    at = np.searchsorted(rows, row)
    mine = (at < len(rows)) & (rows[np.minimum(at, len(rows) - 1)] == row)
    table = sparse.csr_array((val[mine], (at[mine], cls[mine])), shape=(len(rows), n_classes))
    return table, Progress(int(head["epochs"]), float(head["seconds"]), list(head["history"]))


def _read_part(path: Path) -> tuple[Any, Any, Any]:
    arrays = stored_arrays(path)
    missing = {"row", "cls", "val"} - set(arrays)
    if missing:
        raise UnreadableFile(f"{path} lacks {sorted(missing)}.")
    return arrays["row"], arrays["cls"], arrays["val"]


def remove(folder: Path) -> None:
    """Remove a checkpoint that is no longer needed."""
    if (folder / _HEAD).is_file():
        shutil.rmtree(folder, ignore_errors=True)
