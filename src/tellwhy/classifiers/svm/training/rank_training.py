"""One rank's part of a training: its rows, its engine, checkpoints, and the model that rank 0 writes.

A rank is one process of several that train together; a process that trains alone is rank 0 of one. The model
goes to disk some classes at a time: no process ever holds all its weights.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from tellwhy.classifiers.svm import multiclass_svm as weights, solver as checkpoint
from tellwhy.classifiers.svm.lee_lin_wahba import SingleEngine
from tellwhy.classifiers.svm.multiclass_svm import MulticlassSVM
from tellwhy.classifiers.svm.problem import (
    PAIR_LOSSES,
    Labels,
    Problem,
    add_intercept,
    describe_memory_for,
    make_problem,
    tell_why_infeasible,
)
from tellwhy.classifiers.svm.ranks.exchange import Plan, RankPart, Size
from tellwhy.classifiers.svm.ranks.row_engine import RankSingleEngine, RowEngine
from tellwhy.classifiers.svm.solver import Progress, Settings, is_done, solve
from tellwhy.classifiers.svm.threads.row_batches import MOST_SHARDS, ranges
from tellwhy.classifiers.svm.training.files import ColumnScaling, LabelledRows, Survey, read_rows, survey
from tellwhy.classifiers.svm.training.job import Job
from tellwhy.classifiers.svm.weston_watkins import PairEngine
from tellwhy.core.errors import InvalidInput, UnreadableFile
from tellwhy.core.estimator_rows import find_classes
from tellwhy.core.score import Integers
from tellwhy.storage.folders import private_folder
from tellwhy.storage.model_file import Stream, take_apart, write_model_file

_LEARNED = "model.learned"  # begins the names of the arrays that a model file holds of an estimator


def write_model(model: MulticlassSVM, blocks: Iterable[Any], path: Path) -> None:
    """Write a model whose weights come in blocks of classes × features, the intercept's feature last."""
    shape = model.coef_.shape
    with private_folder(path) as place:
        spool = Spool(place, model.coef_.dtype)
        intercepts = [spool.append(block, has_intercept=model.fit_intercept) for block in blocks]
        if model.fit_intercept:
            model.intercept_ = np.concatenate(intercepts) * model.intercept_scaling
        is_sparse = shape[0] * shape[1] >= weights.SPARSE_FROM and spool.density(shape) < weights.SPARSE_BELOW
        model.coef_ = (
            sparse.csr_array(shape, dtype=spool.dtype) if is_sparse else _nothing(shape, spool.dtype)
        )
        head, arrays = take_apart(model)
        streams = spool.as_sparse() if is_sparse else {"coef_": spool.as_dense(shape)}
        write_model_file(path, head, arrays | {f"{_LEARNED}.{name}": each for name, each in streams.items()})


def _nothing(shape: tuple[int, int], dtype: Any) -> Any:
    """Stand for a dense array of this shape, without its memory."""
    return np.broadcast_to(np.zeros((), dtype=dtype), shape)


@dataclass
class Spool:
    """Weights that are not zero, in files."""

    place: Path
    dtype: Any
    at: list[int] = field(default_factory=lambda: [0])  # where the entries of each class begin and end

    def append(self, block: Any, *, has_intercept: bool) -> Any:
        """Take the weights of some classes more; returns their intercepts."""
        block = sparse.csr_array(block).astype(self.dtype)
        last = block[:, [-1]].toarray().ravel() if has_intercept else None
        block = sparse.csr_array(block[:, :-1]) if has_intercept else block
        block.eliminate_zeros()
        block.sort_indices()
        with ExitStack() as files:
            for name, values in (("data", block.data), ("indices", block.indices.astype(np.int32))):
                values.tofile(files.enter_context((self.place / name).open("ab")))
        self.at += (self.at[-1] + block.indptr[1:]).tolist()
        return last

    def density(self, shape: tuple[int, int]) -> float:
        """Share of weights that are not zero."""
        return float(self.at[-1] / (shape[0] * shape[1]))

    def as_sparse(self) -> dict[str, Stream]:
        """The parts of a CSR matrix."""
        n = self.at[-1]
        kind = np.int32 if n < 2**31 else np.int64
        indptr = np.array(self.at, dtype=kind)
        return {
            "coef_.data": Stream((n,), self.dtype, self._pieces("data", self.dtype)),
            "coef_.indices": Stream((n,), kind, (p.astype(kind) for p in self._pieces("indices", np.int32))),
            "coef_.indptr": Stream(indptr.shape, kind, [indptr]),
        }

    def as_dense(self, shape: tuple[int, int]) -> Stream:
        """The same, class by class."""
        return Stream(shape, self.dtype, self._lines(shape[1]))

    def _pieces(self, name: str, dtype: Any, size: int = 2**20) -> Iterable[Any]:
        with (self.place / name).open("rb") as file:
            while len(piece := np.fromfile(file, dtype=dtype, count=size)):
                yield piece

    def _lines(self, n_features: int) -> Iterable[Any]:
        with (self.place / "data").open("rb") as data, (self.place / "indices").open("rb") as indices:
            for n in np.diff(self.at):
                line = np.zeros(n_features, dtype=self.dtype)
                line[np.fromfile(indices, np.int32, n)] = np.fromfile(data, self.dtype, n)
                yield line


AT_ONCE = 8 * 2**20  # bytes of weights that travel to rank 0 at once


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
    classes, numbers = find_classes(found.y, job.data)
    _check_size(job, comm, found.n_features, len(classes))
    part = _part(job, comm, found, numbers)
    if part is not None and comm.size > 1 and comm.rank == 0:
        show(part.plan.words)
    rows = _take_rows_of_rank(job, part, found.n_features)
    problem = _problem(job, rows, classes, part)
    engine = _engine(job, comm, problem, part, np.bincount(numbers, minlength=len(classes)))
    saved = _Checkpoints(job, comm, engine, problem.source, _collect_checked_settings(job, numbers))
    stop = Settings(tol=job.tol, max_epochs=job.max_epochs)

    def report(now: Progress) -> None:
        if comm.rank == 0:
            show(line(now))
        saved.write_if_due(now)

    try:
        progress = saved.read(len(classes)) if job.resume else None
        if progress is not None and progress.history and comm.rank == 0:
            show(line(progress))
        progress = solve(engine, stop, progress, warm=job.resume, report=report)
    finally:
        engine.close()
    _save(job, comm, engine, _Learned(classes, found.names, progress, rows.scaling))
    if isinstance(engine, RowEngine):
        engine.release()
    if comm.rank == 0 and job.aside is None:
        checkpoint.remove(job.checkpoint)
    if comm.rank == 0 and not is_done(progress, stop):
        show(_describe_shortfall(job, comm.size, progress.last["gap"]))


def _describe_shortfall(job: Job, n_ranks: int, gap: float) -> str:
    """Say that a training ended too early, and what may help."""
    text = (
        f"stopped at a gap of {gap:.2g}, short of {job.tol:g}: raise --max-epochs, lower --c, or scale rows "
        "to unit length or columns to unit variance"
    )
    if n_ranks == 1:
        return text
    return f"{text}; without --ranks, methods for large C are tried that ranks do not have"


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
        wrong = tell_why_infeasible(table, self.engine.problem)
        if wrong is not None:
            raise UnreadableFile(
                f"The checkpoint {self.job.checkpoint} is damaged, or was made from other rows: of its "
                f"variables, {wrong}. Train without --resume."
            )
        self.engine.set_duals(table)
        self._restart(progress)
        return progress

    def write_if_due(self, now: Progress) -> None:
        """Write a checkpoint where enough epochs have passed since the latest."""
        if now.epochs - self.last < self.job.checkpoint_every:
            return
        duals = self.engine.duals()
        checkpoint.write(
            self.job.checkpoint, self.comm, rows=self.rows, duals=duals, progress=now, settings=self.settings
        )
        self._restart(now)

    def _restart(self, now: Progress) -> None:
        """Go on as whoever resumes from the checkpoint will: from its variables, and nothing else."""
        self.last = now.epochs
        self.engine.restart(_seed(self.job, self.comm, now.epochs))
        now.is_restarted = True


def _collect_checked_settings(job: Job, numbers: Integers) -> dict[str, Any]:
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


def _part(job: Job, comm: Any, found: Survey, numbers: Integers) -> RankPart | None:
    """The features and classes that a rank holds; None for losses that judge each class on its own."""
    if job.loss not in PAIR_LOSSES:
        return None
    n = len(numbers)
    often = found.often
    dealt = found.dealt
    if job.scale:  # zeros do not stay zeros
        often = np.full_like(often, n)
        dealt = np.arange(len(often)) % MOST_SHARDS
    if job.fit_intercept:
        dealt = np.append(dealt, np.bincount(dealt, often, MOST_SHARDS).argmin())
        often = np.append(often, n)
    itemsize = np.dtype(job.dtype).itemsize
    size = Size(n, int(often.sum()), len(often), int(numbers.max()) + 1, itemsize)
    return Plan.of(comm.size, size, job.feature_parts).part(comm.rank, dealt)


def _take_rows_of_rank(job: Job, part: RankPart | None, n_features: int) -> LabelledRows:
    """All rows, with the features that this rank holds."""
    columns = None if part is None else part.features[part.features < n_features]
    return read_rows(
        Path(job.data), label=job.label, columns=columns, n_features=n_features, scale=job.scaling
    )


def _problem(job: Job, rows: LabelledRows, classes: Any, part: RankPart | None) -> Problem:
    if not np.isfinite(rows.squares).all():
        raise InvalidInput(f"{job.data} holds NaN or infinity; expected finite numbers.")
    X = rows.X
    squares = rows.squares
    if job.fit_intercept:
        squares = squares + 1.0
        if part is None or len(part.features) > X.shape[1]:
            X = add_intercept(X, 1.0)
    labels = Labels.of_classes(np.searchsorted(classes, rows.y))
    caps = np.full(len(rows.y), job.C)
    return make_problem(
        X, labels, caps, n_classes=len(classes), loss=job.loss, dtype=job.dtype, squares=squares
    )


def _engine(job: Job, comm: Any, problem: Problem, part: RankPart | None, sizes: Any) -> Any:
    seed = _seed(job, comm, 0)
    with describe_memory_for(problem):
        if part is not None:
            return RowEngine(problem, part, comm=comm, n_jobs=job.threads, seed=seed)
        if comm.size == 1:
            kind = PairEngine if job.loss in PAIR_LOSSES else SingleEngine
            return kind(problem, n_jobs=job.threads, seed=seed)
        return RankSingleEngine(problem, sizes, comm=comm, n_jobs=job.threads, seed=seed)


def _seed(job: Job, comm: Any, epochs: int) -> np.random.Generator:
    """The same for all ranks where all visit the same rows, else one for each."""
    rank = 0 if job.loss in PAIR_LOSSES else comm.rank
    return np.random.default_rng([job.seed, rank, epochs])


@dataclass(frozen=True)
class _Learned:
    classes: Any
    names: list[str] | None
    progress: Progress
    scaling: ColumnScaling | None = None


def _save(job: Job, comm: Any, engine: Any, learned: _Learned) -> None:
    """Put the weights of all ranks together, some classes at a time, and let rank 0 write the model."""
    engine.forget_duals()
    n_features = engine.class_rows(np.arange(1)).shape[1]
    at_once = max(AT_ONCE // (8 * n_features), 1)
    blocks = (engine.class_rows(np.arange(*part)) for part in ranges(len(learned.classes), at_once))
    if comm.rank > 0:
        for _ in blocks:
            pass
        return
    scaling = learned.scaling
    if scaling is not None:
        blocks = (scaling.undone(block, centred=job.fit_intercept) for block in blocks)
    write_model(_model(job, learned, n_features), blocks, Path(job.aside or job.out))


def _model(job: Job, learned: _Learned, n_features: int) -> MulticlassSVM:
    """The model without its weights."""
    model = job.make_estimator()
    none = sparse.csr_array((len(learned.classes), n_features), dtype=job.dtype)
    model.adopt(none, learned.classes, learned.progress, feature_names=learned.names)
    if learned.scaling is not None and job.fit_intercept:
        model.centre_ = learned.scaling.centre
    return model
