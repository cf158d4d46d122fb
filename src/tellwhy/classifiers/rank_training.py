"""One rank's part of a training: its rows, its engine, checkpoints, and the model that rank 0 writes.

A rank is one process of several that train together; a process that trains alone is rank 0 of one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from tellwhy.classifiers.job import ESTIMATORS, Job
from tellwhy.classifiers.svm import checkpoint
from tellwhy.classifiers.svm.base import MulticlassSVM
from tellwhy.classifiers.svm.engines.in_memory import PAIR_LOSSES, engine_in_memory
from tellwhy.classifiers.svm.problem import (
    Labels,
    Problem,
    make_problem,
    memory_for,
    why_infeasible,
    with_intercept,
)
from tellwhy.classifiers.svm.ranks.engines import RankPairEngine, RankSingleEngine
from tellwhy.classifiers.svm.solver import Progress, Settings, is_done, solve
from tellwhy.classifiers.svm.threads.workers import ranges
from tellwhy.classifiers.training_files import ColumnScaling, read_rows, survey
from tellwhy.core.errors import InvalidInput, UnreadableFile
from tellwhy.core.rows.class_labels import class_labels
from tellwhy.core.score_function import Integers


class Alone:
    """The communicator of a process that has no others."""

    rank, size = 0, 1

    def bcast(self, value: Any, root: int = 0) -> Any:  # noqa: ARG002
        """Return the value."""
        return value

    def gather(self, value: Any, root: int = 0) -> list[Any]:  # noqa: ARG002
        """Return the value in a list."""
        return [value]

    def Barrier(self) -> None:
        """Wait for nobody."""


def run_rank(job: Job, comm: Any, show: Callable[[str], None] = lambda _: None) -> None:
    """Do one rank's part of a job; rank 0 surveys the file, tells and writes the model."""
    found = comm.bcast(survey(Path(job.data), job.label) if comm.rank == 0 else None)
    classes, numbers = class_labels(found.y, job.data)
    _check_size(job, comm, found.n_features, len(classes))
    sizes = np.bincount(numbers, minlength=len(classes))
    rows = _rows_of_rank(job, comm, classes, sizes, found.n_features)
    problem = _problem(job, rows, classes)
    engine = _engine(job, comm, problem, sizes)
    saved = _Checkpoints(job, comm, engine, rows.numbers[problem.source], _checked_settings(job, numbers))
    stop = Settings(tol=job.tol, max_epochs=job.max_epochs)

    def report(now: Progress) -> None:
        if comm.rank == 0:
            show(line(now))
        saved.write_if_due(now)

    try:
        progress = saved.read(len(classes)) if job.resume else None
        progress = solve(engine, stop, progress, warm=job.resume, report=report)
    finally:
        engine.close()
    _save(job, comm, engine, _Learned(classes, found.names, progress, rows.scaling))
    if comm.rank == 0 and job.aside is None:
        checkpoint.remove(job.checkpoint)
    if comm.rank == 0 and not is_done(progress, stop):
        show(
            f"stopped at a gap of {progress.last['gap']:.2g}, short of {job.tol:g}: raise --max-epochs, "
            "lower --c, or scale rows to unit length or columns to unit variance"
        )


@dataclass
class _Checkpoints:
    """Dual variables of an engine, written every so many epochs."""

    job: Job
    comm: Any
    engine: Any
    rows: Integers  # which row of the file each example of the engine is
    settings: dict[str, Any]
    last: int = 0  # epochs at the latest

    def read(self, n_classes: int) -> Progress:
        """Go on from the checkpoint; returns how far it had come."""
        table, progress = checkpoint.read(self.job.checkpoint, self.rows, n_classes, self.settings)
        checkpoint.check_progress(self.job.checkpoint, progress)
        wrong = why_infeasible(table, self.engine.problem)
        if wrong is not None:
            raise UnreadableFile(
                f"The checkpoint {self.job.checkpoint} is damaged, or was made from other rows: of its "
                f"variables, {wrong}. Train without --resume."
            )
        self.engine.set_duals(table)
        self.last = progress.epochs
        return progress

    def write_if_due(self, now: Progress) -> None:
        """Write a checkpoint where enough epochs have passed since the latest."""
        if now.epochs - self.last < self.job.checkpoint_every:
            return
        duals = self.engine.duals()
        checkpoint.write(
            self.job.checkpoint, self.comm, rows=self.rows, duals=duals, progress=now, settings=self.settings
        )
        self.last = now.epochs


def _checked_settings(job: Job, numbers: Integers) -> dict[str, Any]:
    """What a training must have in common with the checkpoint that it goes on from."""
    # Not tol or max_epochs: a training may well go on with others.
    told = {"loss": job.loss, "C": job.C, "fit_intercept": job.fit_intercept, "scale": job.scale}
    return told | {"rows": len(numbers), "labels": zlib.crc32(numbers.tobytes())}


def _check_size(job: Job, comm: Any, n_features: int, n_classes: int) -> None:
    if n_features == 0:
        raise InvalidInput(f"{job.data} has no feature in any row; at least one is needed.")
    if n_classes < comm.size:
        raise InvalidInput(
            f"{job.data} has {n_classes} classes, fewer than the {comm.size} ranks: take fewer ranks."
        )


def line(progress: Progress) -> str:
    """The latest certificate in words."""
    last = progress.last
    reached = f"gap {last['gap']:.2e}  objective {last['objective']:.8g}"
    return f"epoch {last['epoch']}  {reached}  {last['seconds']:.1f} s"


def _rows_of_rank(job: Job, comm: Any, classes: Any, sizes: Any, n_features: int) -> Any:
    """Rows that this rank works on: with Weston–Watkins those of its own classes."""
    keep: Callable[[Any], Any] | None = None
    if job.loss == "ww" and comm.size > 1:
        owner = RankPairEngine.owners(sizes, comm.size, job.threads, job.dtype)
        mine = classes[owner == comm.rank]

        def keep(y: Any) -> Any:
            return np.isin(y, mine)

    scale = None
    if job.scale:
        # Without an intercept nothing could make up for the means.
        scale = "centred" if job.fit_intercept else "plain"
    return read_rows(Path(job.data), label=job.label, keep=keep, n_features=n_features, scale=scale)


def _problem(job: Job, rows: Any, classes: Any) -> Problem:
    if not np.isfinite(rows.X.data).all():
        raise InvalidInput(f"{job.data} holds NaN or infinity; expected finite numbers.")
    X = with_intercept(rows.X, 1.0) if job.fit_intercept else rows.X
    labels = Labels.of_classes(np.searchsorted(classes, rows.y))
    caps = np.full(len(rows.y), job.C)
    return make_problem(X, labels, caps, n_classes=len(classes), loss=job.loss, dtype=job.dtype)


def _engine(job: Job, comm: Any, problem: Problem, sizes: Any) -> Any:
    seed = np.random.default_rng([job.seed, comm.rank])
    if comm.size == 1:
        return engine_in_memory(problem, n_jobs=job.threads, seed=seed)
    kind = RankPairEngine if job.loss in PAIR_LOSSES else RankSingleEngine
    with memory_for(problem):
        return kind(problem, sizes, comm=comm, n_jobs=job.threads, seed=seed)


@dataclass(frozen=True)
class _Learned:
    classes: Any
    names: list[str] | None
    progress: Progress
    scaling: ColumnScaling | None = None


def _save(job: Job, comm: Any, engine: Any, learned: _Learned) -> None:
    """Gather the weights of all ranks, as sparse rows, and write the model."""
    engine.forget_duals()  # their memory is needed for what is gathered
    if comm.size > 1:
        held, weights = engine.own_weights()
    else:
        held, weights = np.arange(len(learned.classes)), engine.weights()
    parts = comm.gather((held, _sparse_rows(weights.T)))
    if comm.rank > 0:
        return
    order = np.argsort(np.concatenate([part[0] for part in parts]))
    coef = sparse.vstack([part[1] for part in parts], format="csr")[order]
    _model(job, coef, learned).save(job.aside or job.out)


def _model(job: Job, coef: Any, learned: _Learned) -> MulticlassSVM:
    model = ESTIMATORS[job.loss](
        C=job.C,
        tol=job.tol,
        max_epochs=job.max_epochs,
        fit_intercept=job.fit_intercept,
        dtype=job.dtype,
        random_state=job.seed,
    )
    scaling = learned.scaling
    if scaling is not None:
        coef = scaling.undone(coef, centred=job.fit_intercept)
    model.adopt(coef, learned.classes, learned.progress, feature_names=learned.names)
    if scaling is not None and job.fit_intercept:
        model.centre_ = scaling.centre
    return model


def _sparse_rows(table: Any, at_once: int = 256) -> Any:
    """Dense rows (a rank may have none) as CSR, some at a time.

    All at once they would need several times their memory.
    """
    parts = [sparse.csr_array(table[first:last]) for first, last in ranges(len(table), at_once)]
    return sparse.vstack(parts, format="csr")
