"""The loop that every multi-class SVM is solved by: dense epochs, epochs over what may move, certificates."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from tellwhy.classifiers.svm.engines.records import Swept
from tellwhy.classifiers.svm.large_c.leap import Point, epochs_to_tol, is_slow, leap
from tellwhy.core.errors import InvalidInput
from tellwhy.core.progress import track

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
    with _interrupts():
        if not warm:
            for _ in range(min(DENSE_EPOCHS, settings.max_epochs)):
                with _timed(progress):
                    engine.dense_epoch()
                progress.epochs += 1
        for _ in track(_until_done(engine, settings, progress), settings.max_epochs, "fitting"):
            report(progress)
    with _timed(progress):
        _sum_weights_afresh(engine)
    return progress


@contextmanager
def _timed(progress: Progress) -> Iterator[None]:
    """Count the seconds of what is done inside: reports and checkpoints between are not the solver's."""
    started = time.perf_counter()
    yield
    progress.seconds += time.perf_counter() - started


@contextmanager
def _interrupts() -> Iterator[None]:
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


def _until_done(engine: Engine, settings: Settings, progress: Progress) -> Iterator[Progress]:
    leapt: Point | None = None
    while True:
        with _timed(progress):
            found = _certified(engine, _slack(progress, settings), settings)
        if not progress.is_restarted:
            progress.history.append(_line(found, progress))
            yield progress
            if progress.is_restarted:
                leapt = None  # whoever resumes from the checkpoint does not know it either
                continue
        progress.is_restarted = False
        if is_done(progress, settings) or progress.epochs >= settings.max_epochs:
            break
        if settings.stopping == "gap" and is_slow(
            engine.problem.loss, progress.history, tol=settings.tol, max_epochs=settings.max_epochs
        ):
            with _timed(progress):
                slack = _slack(progress, settings)
                better = leap(engine, settings.tol, below=progress.last["gap"], slack=slack)
            if better is not None:
                leapt = better
                continue
        with _timed(progress):
            _epochs_between(engine, settings, progress)
    if leapt is not None and leapt.gap < progress.last["gap"]:
        with _timed(progress):
            _go_back(engine, leapt, settings, progress)
        yield progress


def _go_back(engine: Engine, point: Point, settings: Settings, progress: Progress) -> None:
    """Take earlier variables again: a step never lowers the dual objective, but it may widen the gap."""
    engine.set_duals(point.duals)
    found = _certified(engine, _slack(progress, settings), settings)
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


def _epochs_between(engine: Engine, settings: Settings, progress: Progress) -> None:
    """Visit listed variables until the next certificate is due."""
    negligible = 0.0
    for _ in range(min(_epochs_ahead(progress, settings), settings.max_epochs - progress.epochs)):
        visit = engine.epoch(negligible, PATIENCE)
        progress.epochs += 1
        negligible = NEGLIGIBLE * visit.mean if settings.shrinking else 0.0
        if visit.visited == 0:
            break


def _slack(progress: Progress, settings: Settings) -> float:
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


def _epochs_ahead(progress: Progress, settings: Settings) -> int:
    """Epochs until the target at the speed of the last ones, between 2 and `MOST_EPOCHS`."""
    if len(progress.history) < 2 or settings.stopping != "gap":
        return MOST_EPOCHS // 2
    # Half an epoch more: a certificate that comes too early costs as much as one epoch, and two more follow.
    ahead = epochs_to_tol(progress.history[-2], progress.last, settings.tol) + 0.5
    return math.ceil(min(max(ahead, 2), MOST_EPOCHS))
