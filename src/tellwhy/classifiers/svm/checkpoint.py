"""Dual variables of a training that is under way: enough to go on from, with any number of ranks.

A rank is one process of a training that runs in several. `checkpoint.json` says how far the training had
come; `rank-0.npz`, `rank-1.npz`, … hold what each rank knew of the variables, as triples (row, class, value).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from tellwhy.classifiers.svm.solver import Progress
from tellwhy.core.errors import InvalidInput, UnreadableFile
from tellwhy.core.score_function import Integers
from tellwhy.storage.documents import Arrays, Format, read_arrays, write_arrays
from tellwhy.storage.files import remove_folder
from tellwhy.storage.replacing import standing

FORMAT = Format(
    "a checkpoint",
    "checkpoint.json",
    keys={"settings": (dict,), "ranks": (int,), "epochs": (int,), "seconds": (float,), "history": (list,)},
)
_TRIPLES = ("row", "cls", "val")
_LINE = ("epoch", "seconds", "objective", "dual", "gap", "violation", "listed")


def write(
    folder: Path, comm: Any, *, rows: Integers, duals: Any, progress: Progress, settings: dict[str, Any]
) -> None:
    """Write the variables of all ranks, whole or not at all: rows of the file × classes."""
    if comm.rank > 0:
        _write_part(Path(comm.bcast(None)), comm.rank, rows, duals)
        comm.Barrier()
        return
    with FORMAT.new_folder(folder) as work:
        _write_part(Path(comm.bcast(str(work))), 0, rows, duals)
        comm.Barrier()  # the folder takes its place only after every rank has written its part
        state = {"epochs": progress.epochs, "seconds": progress.seconds, "history": progress.history}
        FORMAT.write_head(work, {"settings": settings, "ranks": comm.size, **state})


def _write_part(work: Path, rank: int, rows: Integers, duals: Any) -> None:
    table = duals.tocoo()
    at, classes = table.coords
    triples = {"row": rows[at], "cls": classes.astype(np.int32), "val": table.data}
    write_arrays(work / f"rank-{rank}.npz", triples, is_compressed=False)


def read(folder: Path, rows: Integers, n_classes: int, settings: dict[str, Any]) -> tuple[Any, Progress]:
    """Variables of the given rows × all classes, and how far the training had come."""
    folder = standing(folder)
    head = FORMAT.read_head(folder)
    _check_settings(folder, head["settings"], settings)
    parts = [_read_part(folder / f"rank-{rank}.npz", n_classes) for rank in range(head["ranks"])]
    if not parts:
        raise UnreadableFile(f"{folder / FORMAT.head} names no 'ranks'; expected one at least.")
    row = np.concatenate([part["row"] for part in parts])
    cls = np.concatenate([part["cls"] for part in parts])
    val = np.concatenate([part["val"] for part in parts])
    pairs = row.astype(np.int64) * n_classes + cls
    if len(np.unique(pairs)) < len(pairs):
        raise UnreadableFile(f"{folder} holds more than one value of a variable (of the same row and class).")
    at = np.searchsorted(rows, row)
    mine = (at < len(rows)) & (rows[np.minimum(at, len(rows) - 1)] == row)
    table = sparse.csr_array((val[mine], (at[mine], cls[mine])), shape=(len(rows), n_classes))
    return table, Progress(head["epochs"], float(head["seconds"]), list(head["history"]))


def check_progress(folder: Path, progress: Progress) -> None:
    """Raise unless all certificates on the way here were such: the next is judged by the latest of them."""
    for line in progress.history:
        found = [line.get(name) for name in _LINE] if isinstance(line, dict) else [None]
        if not all(isinstance(each, (int, float)) and math.isfinite(each) for each in found):
            raise UnreadableFile(
                f"{folder / FORMAT.head} holds no certificate in a line of 'history': {str(line)[:80]}."
            )
    if progress.epochs < 0 or not 0 <= progress.seconds < math.inf:
        raise UnreadableFile(f"{folder / FORMAT.head} holds a negative number of 'epochs' or 'seconds'.")


def _check_settings(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise if the checkpoint was made from other rows, or with other settings."""
    if now["labels"] != before.get("labels"):
        raise InvalidInput(
            f"The checkpoint {folder} was made from rows with other labels. Train on the file that it was "
            "made from, or without --resume."
        )
    for name, value in now.items():
        if before.get(name) != value:
            raise InvalidInput(
                f"The checkpoint {folder} was made with {name} = {before.get(name)!r}, this training has "
                f"{value!r}. Train with the same settings, or without --resume."
            )


def _read_part(path: Path, n_classes: int) -> Arrays:
    part = read_arrays(path, _TRIPLES)
    kinds = {name: part[name].dtype.kind for name in _TRIPLES}
    shapes = {part[name].shape for name in _TRIPLES}
    if kinds != {"row": "i", "cls": "i", "val": "f"} or len(shapes) != 1 or part["row"].ndim != 1:
        raise UnreadableFile(f"{path} does not hold one row, class and value per variable.")
    if not ((part["cls"] >= 0) & (part["cls"] < n_classes)).all() or not np.isfinite(part["val"]).all():
        raise UnreadableFile(f"{path} holds classes that there are not in 'cls', or no numbers in 'val'.")
    return part


def remove(folder: Path) -> None:
    """Remove a checkpoint that is no longer needed."""
    if FORMAT.is_in(folder):
        remove_folder(folder, marker=FORMAT.head)
