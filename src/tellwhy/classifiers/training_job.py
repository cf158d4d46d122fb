"""Training from a file, in this process or over the ranks of an MPI job, with checkpoints.

`train(job)` starts `mpiexec … python -m mpi4py -m tellwhy.classifiers.training_job job.json` where the job
asks for several ranks, so that a rank that fails ends the whole job.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from tellwhy.classifiers.model_io import check_place, load
from tellwhy.classifiers.svm import checkpoint
from tellwhy.classifiers.svm.base import MulticlassSVM, default_blocks
from tellwhy.classifiers.svm.crammer_singer import CrammerSingerSVM
from tellwhy.classifiers.svm.engines.pair_engine import PairEngine
from tellwhy.classifiers.svm.engines.single_engine import SingleEngine
from tellwhy.classifiers.svm.engines.workers import ranges
from tellwhy.classifiers.svm.lee_lin_wahba import LeeLinWahbaSVM
from tellwhy.classifiers.svm.one_vs_rest import OneVsRestSVM
from tellwhy.classifiers.svm.problem import Labels, Problem, make_problem, memory_for, with_intercept
from tellwhy.classifiers.svm.ranks.engines import RankPairEngine, RankSingleEngine
from tellwhy.classifiers.svm.solver import Progress, Settings, is_done, solve
from tellwhy.classifiers.svm.weston_watkins import WestonWatkinsSVM
from tellwhy.classifiers.training_files import ColumnScaling, check_is_file, is_table, read_rows, survey
from tellwhy.core.errors import InvalidInput, InvalidParameter, MissingExtra, TellwhyError, UnreadableFile
from tellwhy.core.optional import require
from tellwhy.core.params import integer, one_of, real, validate_value
from tellwhy.core.rows.class_labels import class_labels
from tellwhy.core.score_function import Integers
from tellwhy.core.storage.files import new_file

ESTIMATORS: dict[str, type[MulticlassSVM]] = {
    "ww": WestonWatkinsSVM,
    "cs": CrammerSingerSVM,
    "llw": LeeLinWahbaSVM,
    "ovr": OneVsRestSVM,
}
_PAIRS = ("ww", "cs")
INTERRUPTED = 130  # exit status


@dataclass(frozen=True)
class Job:
    """What to train, on which file, and where to put it."""

    data: str
    out: str
    loss: str = "ww"
    C: float = 1.0
    tol: float = 1e-3
    max_epochs: int = 1000
    ranks: int = 1
    threads: int = 1
    dtype: str = "float64"
    fit_intercept: bool = True
    scale: bool = False
    label: str | None = None
    seed: int = 0
    checkpoint_every: int = 20
    resume: bool = False
    quiet: bool = False
    aside: str | None = (
        None  # folder of a model that is only a part of what goes to `out`; the checkpoint stays
    )

    @property
    def checkpoint(self) -> Path:
        """Folder of the checkpoint, beside the model's."""
        return Path(self.out).with_name(Path(self.out).name + "-checkpoint")

    def validate(self) -> None:
        """Check all settings."""
        owner = "fit-svm"
        validate_value(owner, "loss", self.loss, one_of(*ESTIMATORS))
        validate_value(owner, "c", self.C, real(0))
        validate_value(owner, "tol", self.tol, real(0))
        for name in ("max_epochs", "ranks", "threads", "checkpoint_every"):
            validate_value(owner, name, getattr(self, name), integer(1))
        validate_value(owner, "dtype", self.dtype, one_of("float64", "float32"))
        validate_value(owner, "seed", self.seed, integer(0))
        if self.scale and not is_table(Path(self.data)):
            raise InvalidParameter(
                f"Only the columns of tables can be scaled (CSV, Parquet, …). Got {self.data}: scale its values "
                "before, and leave out --scale."
            )
        if self.loss == "cs" and self.ranks > 1:
            raise InvalidParameter(
                "A Crammer–Singer row needs the weights of all classes at once, so that it trains on one rank. "
                "Use --loss ww, which gives much the same models, or --ranks 1."
            )
        if self.resume and not self.checkpoint.is_dir():
            raise InvalidInput(f"There is no checkpoint {self.checkpoint} to resume from.")


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


def train(job: Job, show: Callable[[str], None] = lambda _: None) -> MulticlassSVM:
    """Train as the job says, save the model in its folder and return it."""
    _check(job)
    try:
        if job.ranks == 1:
            run_rank(job, Alone(), show)
        else:
            _launch(job)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"Interrupted. {_way_on(job)}") from stop
    return load(job.aside or job.out)


def _check(job: Job) -> None:
    """Raise now what can be known before any training."""
    job.validate()
    if job.label is not None and not is_table(Path(job.data)):
        raise InvalidParameter(
            f"--label names a column of a table (CSV, Parquet, …). Got {job.data}, whose labels have their own place: "
            "leave out --label."
        )
    check_is_file(Path(job.data))
    check_place(job.out)


def run_rank(job: Job, comm: Any, show: Callable[[str], None] = lambda _: None) -> None:
    """Do one rank's part of a job; rank 0 surveys the file, tells and writes the model."""
    found = comm.bcast(survey(Path(job.data), job.label) if comm.rank == 0 else None)
    classes, numbers = class_labels(found.y, job.data)
    _check_size(job, comm, found.n_features, len(classes))
    sizes = np.bincount(numbers, minlength=len(classes))
    rows = _rows_of_rank(job, comm, classes, sizes, found.n_features)
    problem = _problem(job, rows, classes)
    at = rows.numbers[problem.source]
    with memory_for(problem):
        engine = _engine(job, comm, problem, sizes)
    settings = _checked_settings(job, numbers)
    progress = None
    if job.resume:
        table, progress = checkpoint.read(job.checkpoint, at, len(classes), settings)
        engine.set_duals(table)
    state = {"saved": progress.epochs if progress else 0}

    def report(now: Progress) -> None:
        if comm.rank == 0:
            show(line(now))
        if now.epochs - state["saved"] >= job.checkpoint_every:
            checkpoint.write(
                job.checkpoint, comm, rows=at, duals=engine.duals(), progress=now, settings=settings
            )
            state["saved"] = now.epochs

    stop = Settings(tol=job.tol, max_epochs=job.max_epochs)
    try:
        progress = solve(engine, stop, progress, warm=job.resume, report=report)
    finally:
        engine.close()
    _save(job, comm, engine, _Learned(classes, found.names, progress, rows.scaling))
    if comm.rank == 0 and job.aside is None:
        checkpoint.remove(job.checkpoint)
    if comm.rank == 0 and not is_done(progress, stop):
        show(
            f"stopped at a gap of {progress.last['gap']:.2g}, short of {job.tol:g}: raise --max-epochs, lower --c, "
            "or scale rows to unit length or columns to unit variance"
        )


def _checked_settings(job: Job, numbers: Integers) -> dict[str, Any]:
    """What a training must have in common with the checkpoint that it goes on from."""
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
    return f"epoch {last['epoch']}  gap {last['gap']:.2e}  objective {last['objective']:.8g}  {last['seconds']:.1f} s"


def now_and_then(show: Callable[[str], None], pause: float = 1.0) -> Callable[[str], None]:
    """Pass on the first certificate, then one a `pause` of seconds at most; all that is no certificate always."""
    shown = -math.inf

    def told(text: str) -> None:
        nonlocal shown
        if not text.startswith("epoch"):
            show(text)
        elif time.monotonic() - shown >= pause:
            shown = time.monotonic()
            show(text)

    return told


def _rows_of_rank(job: Job, comm: Any, classes: Any, sizes: Any, n_features: int) -> Any:
    """Rows that this rank works on: with Weston–Watkins those of its own classes."""
    keep = None
    if job.loss == "ww" and comm.size > 1:
        owner = RankPairEngine.owners(sizes, comm.size, job.threads, job.dtype)
        mine = classes[owner == comm.rank]
        keep = lambda y: np.isin(y, mine)  # noqa: E731
    scale = None if not job.scale else "centred" if job.fit_intercept else "plain"
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
    pairs = job.loss in _PAIRS
    if comm.size == 1:
        n = default_blocks(problem.n_classes, pairs=pairs)
        kind: Any = PairEngine if pairs else SingleEngine
        return kind(problem, n_blocks=min(n, problem.n_classes), n_jobs=job.threads, seed=seed)
    return (RankPairEngine if pairs else RankSingleEngine)(
        problem, sizes, comm=comm, n_jobs=job.threads, seed=seed
    )


@dataclass(frozen=True)
class _Learned:
    classes: Any
    names: list[str] | None
    progress: Progress
    scaling: ColumnScaling | None = None


def _save(job: Job, comm: Any, engine: Any, learned: _Learned) -> None:
    """Gather the weights of all ranks, as sparse rows, and write the model."""
    engine.forget_duals()
    held, weights = (
        engine.own_weights() if comm.size > 1 else (np.arange(len(learned.classes)), engine.weights())
    )
    parts = comm.gather((held, _sparse_rows(weights.T)))
    if comm.rank > 0:
        return
    order = np.argsort(np.concatenate([part[0] for part in parts]))
    coef = sparse.vstack([part[1] for part in parts], format="csr")[order]
    model = ESTIMATORS[job.loss](
        C=job.C, tol=job.tol, max_epochs=job.max_epochs, fit_intercept=job.fit_intercept, dtype=job.dtype,
        random_state=job.seed,
    )  # fmt: skip
    if learned.scaling is not None:
        coef = learned.scaling.undone(coef, centred=job.fit_intercept)
    model.adopt(coef, learned.classes, learned.progress, feature_names=learned.names)
    if learned.scaling is not None and job.fit_intercept:
        model.centre_ = learned.scaling.centre
    model.save(job.aside or job.out)


def _sparse_rows(table: Any, at_once: int = 256) -> Any:
    """Dense rows (a rank may have none) as CSR, some at a time: all at once would need several times their memory."""
    parts = [sparse.csr_array(table[first:last]) for first, last in ranges(len(table), at_once)]
    return sparse.vstack(parts, format="csr")


def _launch(job: Job) -> None:
    """Run the job under mpiexec; its lines go to stderr as they come."""
    require("mpi4py", "Training over several ranks")
    with tempfile.TemporaryDirectory() as place:
        described, failure = Path(place) / "job.json", Path(place) / "error.txt"
        described.write_text(json.dumps({**asdict(job), "failure": str(failure)}), encoding="utf-8")
        module = "tellwhy.classifiers.training_job"
        command = [
            *mpiexec(),
            "-n",
            str(job.ranks),
            sys.executable,
            "-m",
            "mpi4py",
            "-m",
            module,
            str(described),
        ]
        done = subprocess.run(command, stdout=sys.stderr, check=False)
        if done.returncode == 0:
            return
        if failure.exists():
            raise TellwhyError(failure.read_text(encoding="utf-8"))
    raise TellwhyError(_ended(job, done.returncode))


def _ended(job: Job, status: int) -> str:
    told = f"A rank ended before the training was done (mpiexec gave status {status}), so that the job was stopped."
    return f"{told} {_way_on(job)}"


def _way_on(job: Job) -> str:
    """How to go on with a training that was stopped."""
    if not (job.checkpoint / "checkpoint.json").is_file():
        return "There is no checkpoint yet; a smaller --checkpoint-every writes one sooner."
    epochs = json.loads((job.checkpoint / "checkpoint.json").read_text(encoding="utf-8"))["epochs"]
    return f"The checkpoint {job.checkpoint} holds epoch {epochs}: run the same command with --resume."


def mpiexec() -> list[str]:
    """Return the command that starts ranks: that of this environment, else the system's."""
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise MissingExtra("Training over several ranks needs mpiexec: run `pip install 'tellwhy[mpi]'`.")
    told = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    if "Open MPI" not in told and "OpenRTE" not in told:
        return [found]
    # Open MPI would give each rank one core for all its threads, and refuse more ranks than cores.
    as_root = ["--allow-run-as-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return [found, *as_root, "--bind-to", "none", "--oversubscribe"]


def main(described: str) -> None:
    """Run one rank of the job that a JSON file describes: the fields of `Job`, `data` and `out` at least."""
    from mpi4py import MPI

    comm, failure = MPI.COMM_WORLD, None
    try:
        job, failure = comm.bcast(_read_job(Path(described), comm.size) if comm.rank == 0 else None)
        run_rank(job, comm, now_and_then(lambda text: None if job.quiet else print(text, flush=True)))
    except KeyboardInterrupt:  # told once, by the process that started the ranks
        comm.Abort(INTERRUPTED)
    except TellwhyError as error:
        if failure is not None:
            with new_file(failure) as work:  # whole, though another rank may end this one at any moment
                work.write_text(str(error), encoding="utf-8")
        else:
            print(error, file=sys.stderr, flush=True)
        comm.Abort(1)


def _read_job(path: Path, n_ranks: int) -> tuple[Job, Path | None]:
    """The job of a file, over as many ranks as there are, and where to say what went wrong (None: on stderr)."""
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        failure = settings.pop("failure", None)
        job = replace(Job(**settings), ranks=n_ranks)
    except OSError as error:
        raise UnreadableFile(f"Cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise UnreadableFile(
            f"{path} does not describe a training ({error}); expected JSON such as "
            f'{{"data": "rows.svm", "out": "model"}} with any of {", ".join(f.name for f in fields(Job)[2:])}.'
        ) from error
    _check(job)
    return job, None if failure is None else Path(failure)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Expected one argument, a JSON file that describes the training.")
    main(sys.argv[1])
