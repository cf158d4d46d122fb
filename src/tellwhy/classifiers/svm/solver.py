"""The loop that every multi-class SVM is solved by: dense epochs, epochs over what may move, certificates.

Where plain steps lead nowhere, the solver goes over to another method and sees whether its variables are
better. A training that is under way is written down: `checkpoint.json` says how far it had come;
`rank-0.npz`, `rank-1.npz`, … hold what each rank (one process of several) knew of the variables, as triples
(row, class, value), enough to go on from with any number of ranks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from tellwhy.classifiers.svm.records import Swept
from tellwhy.core.errors import InvalidInput, UnreadableFile
from tellwhy.core.progress import track
from tellwhy.core.score import Integers
from tellwhy.storage.documents import Arrays, Format, read_arrays, write_arrays
from tellwhy.storage.folders import find_standing, remove_folder

SWITCH_AFTER = 20  # epochs: then Lee–Lin–Wahba, whose plain steps creep, tries another method
SLOW_AFTER = 100  # epochs, and twice, four times … as many: the others do where those left will not suffice


@dataclass(frozen=True)
class Point:
    """Dual variables, and the relative duality gap that they have."""

    duals: Any
    gap: float


def switch_method(engine: Any, tol: float, *, below: float, slack: float) -> Point | None:
    """Take the variables of another method, where there is one and their gap is `below` this.

    Otherwise the engine is left as it was, with lists made anew for this `slack`, and None is returned.
    """
    found = _solve_by_another_method(engine, tol)
    if found is None:
        return None
    before = engine.duals()
    engine.set_duals(found)
    gap = float(engine.certify(0.0).gap)
    if gap < below:
        return Point(found, gap)
    engine.set_duals(before)
    engine.certify(slack)
    return None


def _solve_by_another_method(engine: Any, tol: float) -> Any:
    """Dual variables by the engine's own other method, else by an interior-point method, or None."""
    from tellwhy.classifiers.svm.interior_point import interior_point, is_small

    if hasattr(engine, "switch_method"):
        return engine.switch_method(tol)
    comm = getattr(engine, "comm", None)
    is_whole = comm is None or comm.size == 1  # one of several ranks has its own features only
    return interior_point(engine.problem, tol) if is_whole and is_small(engine.problem) else None


def is_slow(loss: str, history: list[dict[str, Any]], *, tol: float, max_epochs: int) -> bool:
    """Whether the latest certificate is the first after so many epochs that steps seem to lead nowhere.

    Lee–Lin–Wahba is asked once; the others whenever the epochs have doubled, by the speed of the gap. Only
    the history decides, so that a training that is resumed switches where it would have.
    """
    now = int(history[-1]["epoch"])
    before = int(history[-2]["epoch"]) if len(history) > 1 else 0
    if loss == "llw":
        return before < SWITCH_AFTER <= now
    doublings = [(epochs // SLOW_AFTER).bit_length() for epochs in (before, now)]
    if doublings[0] == doublings[1]:
        return False
    # The speed since half of the epochs: from one certificate to the next the gap goes up and down.
    half = next(line for line in history if line["epoch"] >= now // 2)
    return estimate_epochs_to_tol(half, history[-1], tol) > max_epochs - now


def estimate_epochs_to_tol(before: dict[str, Any], now: dict[str, Any], tol: float) -> float:
    """Epochs until a gap of `tol`, if it goes on to fall by the same factor each epoch."""
    if not 0 < now["gap"] < before["gap"]:
        return math.inf
    speed = math.log(before["gap"] / now["gap"]) / max(now["epoch"] - before["epoch"], 1)
    return math.log(now["gap"] / tol) / speed


SLACK = 0.01  # variables whose margin is below 1 + SLACK are listed
FIRST_SLACK = 0.02  # the same at the first certificate, after which margins still move much
NEGLIGIBLE = 0.1  # examples with less than this share of the mean violation are left out for a while
PATIENCE = 1  # visits without more than that, until the next certificate brings them back
DENSE_EPOCHS = 2  # at the start, where next to every variable moves
MOST_EPOCHS = 10  # between two certificates
_MOST_ROUNDING = 1e-12  # gaps this far below 0 are 0 but for the last digits of the sums


@dataclass(frozen=True)
class Visit:
    """What one epoch met: the largest violation, the mean of each example's largest, and examples visited."""

    worst: float
    mean: float
    visited: int

    @classmethod
    def of(cls, parts: list[Swept]) -> Visit:
        """Join what the parts of an epoch met."""
        summed = np.array([part.summed for part in parts]).sum()
        visited = sum(part.visited for part in parts)
        return cls(float(max(part.worst for part in parts)), float(summed / max(visited, 1)), int(visited))


@dataclass(frozen=True)
class Certificate:
    """Primal and dual objective at the same weights: the optimum lies between them."""

    primal: float
    dual: float
    worst: float
    listed: int

    @property
    def gap(self) -> float:
        """Relative duality gap (P − D) / P; not a number where an objective is none."""
        if not (math.isfinite(self.primal) and math.isfinite(self.dual)):
            return math.nan
        gap = (self.primal - self.dual) / self.primal if self.primal > 0 else -self.dual
        return gap if gap < -_MOST_ROUNDING else max(gap, 0.0)

    def is_sound(self, dtype: DTypeLike) -> bool:
        """Whether this can be a certificate: numbers, and a primal objective that is not below the dual."""
        return self.gap >= -math.sqrt(np.finfo(dtype).eps)


class Engine(Protocol):
    """Weights and dual variables, in memory or spread over processes."""

    problem: Any
    lists: Any  # of dual variables, by class block or tile

    def dense_epoch(self) -> None:
        """Visit every variable once."""

    def epoch(self, negligible: float, patience: int) -> Visit:
        """Visit the listed variables once; an example idle for `patience` visits is left out.

        A visit is idle where the example's violation is at most `negligible`.
        """
        ...

    def certify(self, slack: float) -> Certificate:
        """Both objectives; lists every variable that may have to move."""
        ...

    def duals(self) -> Any:
        """Dual variables that are not zero, examples × classes."""
        ...

    def set_duals(self, table: Any) -> None:
        """Take given dual variables, and the weights that follow from them."""


@dataclass(frozen=True)
class Settings:
    """When to stop, and what to leave out."""

    tol: float = 1e-3
    stopping: str = "gap"
    max_epochs: int = 1000
    shrinking: bool = True


@dataclass
class Progress:
    """Where a solution stands; `history` has one line per certificate."""

    epochs: int = 0
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)
    # Whether the engine was given its variables anew since the latest certificate, by or from a checkpoint:
    # then it has to list them once more. Both are done alike, so that what follows is the same to the bit.
    is_restarted: bool = False

    @property
    def last(self) -> dict[str, Any]:
        """The latest certificate."""
        return self.history[-1]


def solve(
    engine: Engine,
    settings: Settings,
    progress: Progress | None = None,
    *,
    warm: bool = False,
    report: Callable[[Progress], None] = lambda _: None,
) -> Progress:
    """Ascend until the relative duality gap (or the largest violation) is at most `tol`, or epochs run out.

    Each certificate is a pass over all variables that changes none: it gives the gap, and it brings back
    variables that were left out. Between two of them only variables that may have to move are visited.
    `report` is called after each certificate; `warm` says that the engine holds variables to go on from.
    """
    progress = progress or Progress()
    with _let_interrupts_through():
        if not warm:
            for _ in range(min(DENSE_EPOCHS, settings.max_epochs)):
                with _time_block(progress):
                    engine.dense_epoch()
                progress.epochs += 1
        for _ in track(_visit_until_done(engine, settings, progress), settings.max_epochs, "fitting"):
            report(progress)
    with _time_block(progress):
        _sum_weights_afresh(engine)
    return progress


@contextmanager
def _time_block(progress: Progress) -> Iterator[None]:
    """Count the seconds of what is done inside: reports and checkpoints between are not the solver's."""
    started = time.perf_counter()
    yield
    progress.seconds += time.perf_counter() - started


@contextmanager
def _let_interrupts_through() -> Iterator[None]:
    """Raise Ctrl-C as what it is: compiled code that returns while it is pending raises a SystemError."""
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise


def _sum_weights_afresh(engine: Engine) -> None:
    """Compute the weights from the dual variables.

    Variables that moved to and fro have left 1e-17 in weights that should be zero.
    """
    if engine.problem.loss == "llw":  # whose weights have their mean taken off, so that hardly any is zero
        return
    for lists in engine.lists.values():
        lists.drop_zeros()
    engine.set_duals(engine.duals())


def is_done(progress: Progress, settings: Settings) -> bool:
    """Whether the latest certificate meets the stopping rule."""
    reached = "gap" if settings.stopping == "gap" else "violation"
    return bool(progress.history) and progress.last[reached] <= settings.tol


def _visit_until_done(engine: Engine, settings: Settings, progress: Progress) -> Iterator[Progress]:
    switched: Point | None = None
    while True:
        with _time_block(progress):
            found = _certified(engine, _choose_slack(progress, settings), settings)
        if not progress.is_restarted:
            progress.history.append(_line(found, progress))
            yield progress
            if progress.is_restarted:
                switched = None  # whoever resumes from the checkpoint does not know it either
                continue
        progress.is_restarted = False
        if is_done(progress, settings) or progress.epochs >= settings.max_epochs:
            break
        if settings.stopping == "gap" and is_slow(
            engine.problem.loss, progress.history, tol=settings.tol, max_epochs=settings.max_epochs
        ):
            with _time_block(progress):
                slack = _choose_slack(progress, settings)
                better = switch_method(engine, settings.tol, below=progress.last["gap"], slack=slack)
            if better is not None:
                switched = better
                continue
        with _time_block(progress):
            _run_epochs_between(engine, settings, progress)
    if switched is not None and switched.gap < progress.last["gap"]:
        with _time_block(progress):
            _go_back(engine, switched, settings, progress)
        yield progress


def _go_back(engine: Engine, point: Point, settings: Settings, progress: Progress) -> None:
    """Take earlier variables again: a step never lowers the dual objective, but it may widen the gap."""
    engine.set_duals(point.duals)
    found = _certified(engine, _choose_slack(progress, settings), settings)
    progress.history.append(_line(found, progress))


def _certified(engine: Engine, slack: float, settings: Settings) -> Certificate:
    """Return a certificate that holds, of weights computed afresh where rounding may have spoilt it."""
    dtype = engine.problem.dtype
    found = engine.certify(slack)
    # In single precision the weights drift away from their dual variables by about 1e-6, and with them the
    # gap: the certificate that ends a training is that of the weights that it ends with.
    ends = settings.stopping == "gap" and found.gap <= settings.tol and dtype == np.float32
    if found.is_sound(dtype) and not ends:
        return found
    engine.set_duals(engine.duals())
    found = engine.certify(slack)
    if not found.is_sound(dtype):
        largest = float(np.abs(engine.problem.entries.values).max(initial=0.0))
        raise InvalidInput(
            f"The training cannot be certified: its objective is {found.primal:.6g}, its dual objective "
            f"{found.dual:.6g}; expected numbers, the second not above the first. The largest value of the "
            f"rows is {largest:.3g}: scale the columns, or lower C, or compute in float64."
        )
    return found


def _run_epochs_between(engine: Engine, settings: Settings, progress: Progress) -> None:
    """Visit listed variables until the next certificate is due."""
    negligible = 0.0
    for _ in range(min(_estimate_epochs_ahead(progress, settings), settings.max_epochs - progress.epochs)):
        visit = engine.epoch(negligible, PATIENCE)
        progress.epochs += 1
        negligible = NEGLIGIBLE * visit.mean if settings.shrinking else 0.0
        if visit.visited == 0:
            break


def _choose_slack(progress: Progress, settings: Settings) -> float:
    if not settings.shrinking:
        return math.inf
    return SLACK if progress.history else FIRST_SLACK


def _line(found: Certificate, progress: Progress) -> dict[str, Any]:
    return {
        "epoch": progress.epochs,
        "seconds": progress.seconds,
        "objective": found.primal,
        "dual": found.dual,
        "gap": found.gap,
        "violation": found.worst,
        "listed": found.listed,
    }


def _estimate_epochs_ahead(progress: Progress, settings: Settings) -> int:
    """Epochs until the target at the speed of the last ones, between 2 and `MOST_EPOCHS`."""
    if len(progress.history) < 2 or settings.stopping != "gap":
        return MOST_EPOCHS // 2
    # Half an epoch more: a certificate that comes too early costs as much as one epoch, and two more follow.
    ahead = estimate_epochs_to_tol(progress.history[-2], progress.last, settings.tol) + 0.5
    return math.ceil(min(max(ahead, 2), MOST_EPOCHS))


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
    folder = find_standing(folder)
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
