"""Training from a file, in this process or over the ranks of an MPI job, with checkpoints.

`train(job)` starts `mpiexec … python -P -m mpi4py -m tellwhy.classifiers.svm.training.run job.json` where the
job asks for several ranks, so that a rank that fails ends the whole job. When the process that started others
ends, they end.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from tellwhy.classifiers.loading import load
from tellwhy.classifiers.svm.multiclass_svm import MulticlassSVM
from tellwhy.classifiers.svm.training.job import Job
from tellwhy.classifiers.svm.training.rank_training import Alone, run_rank
from tellwhy.core.errors import MissingExtra, TellwhyError, UnreadableFile
from tellwhy.core.optional import require
from tellwhy.storage.folders import new_file, private_folder

_GRACE = 10.0  # seconds that children have to end by themselves


def run_to_the_end(command: Sequence[str]) -> int:
    """Run a command, with its lines on stderr, and return its status; it ends when this process is ended."""
    with (
        _raise_when_terminated(),
        subprocess.Popen(command, stdout=sys.stderr, env=make_safe_environment()) as process,
    ):
        try:
            return process.wait()
        except BaseException:  # Ctrl-C, SIGTERM
            _end(process)
            raise


def make_safe_environment() -> dict[str, str]:
    """Return this process's environment, but nothing in it makes Python import from the working folder."""
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    given = environment.get("PYTHONPATH", "").split(os.pathsep)
    named = [place for place in given if os.path.isabs(place)]  # an empty one means the working folder
    environment.pop("PYTHONPATH", None)
    return environment | ({"PYTHONPATH": os.pathsep.join(named)} if named else {})


def _end(process: subprocess.Popen[Any]) -> None:
    """End a process: by the signal that lets it end its own children, and by force if it does not."""
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()


@contextmanager
def _raise_when_terminated() -> Iterator[None]:
    """Turn SIGTERM into `SystemExit`: as it is, it would end this process and leave its children running."""
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield  # signals reach the main thread only, or somebody else has decided what this one does
        return
    signal.signal(signal.SIGTERM, _raise)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _raise(number: int, frame: object) -> None:  # noqa: ARG001
    raise SystemExit(128 + number)


INTERRUPTED = 130  # exit status


def train(job: Job, show: Callable[[str], None] = lambda _: None) -> MulticlassSVM:
    """Train as the job says, save the model in its file and return it."""
    job.check()
    try:
        if job.ranks == 1:
            run_rank(job, Alone(), show)
        else:
            _launch(job)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"Interrupted. {job.way_on}") from stop
    return load(job.aside or job.out)


def pass_on_now_and_then(show: Callable[[str], None], pause: float = 1.0) -> Callable[[str], None]:
    """Pass on the first certificate, then one each `pause` of seconds at most; other lines always."""
    shown = -math.inf

    def told(text: str) -> None:
        nonlocal shown
        if not text.startswith("epoch"):
            show(text)
        elif time.monotonic() - shown >= pause:
            shown = time.monotonic()
            show(text)

    return told


def _launch(job: Job) -> None:
    """Run the job under mpiexec; its lines go to stderr as they come."""
    require("mpi4py", "Training over several ranks")
    # Beside the model, which all ranks can reach, and not in a temporary folder, which there may not be.
    with private_folder(Path(job.out)) as place:
        described = place / "job.json"
        failure = place / "error.txt"
        described.write_text(json.dumps({**asdict(job), "failure": str(failure)}), encoding="utf-8")
        module = "tellwhy.classifiers.svm.training.run"
        # mpi4py's runner ends all ranks where one raises: else the others would wait for it for ever.
        # Without -P, a file mpi4py.py of the working folder would be run.
        rank = [sys.executable, "-P", "-m", "mpi4py", "-m", module, str(described)]
        status = run_to_the_end([*mpiexec(), "-n", str(job.ranks), *rank])
        if status == 0:
            return
        if failure.exists():
            raise TellwhyError(failure.read_text(encoding="utf-8"))
    raise TellwhyError(
        f"A rank ended before the training was done (mpiexec gave status {status}), so that the job "
        f"was stopped. {job.way_on}"
    )


def mpiexec() -> list[str]:
    """Return the command that starts ranks: that of this environment, else the system's."""
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    # A relative path comes from a search path that names the working folder, which may be anybody's.
    if found is None or not Path(found).is_absolute():
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

    comm = MPI.COMM_WORLD
    failure = None
    try:
        job, failure = comm.bcast(_read_job(Path(described), comm.size) if comm.rank == 0 else None)
        run_rank(job, comm, pass_on_now_and_then(lambda text: None if job.quiet else print(text, flush=True)))
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
    """The job of a file, over as many ranks as there are, and where to say what went wrong.

    That is a file, or None for stderr.
    """
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        failure = settings.pop("failure", None)
        job = replace(Job(**settings), ranks=n_ranks)
    except OSError as error:
        raise UnreadableFile(f"Cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, TypeError, AttributeError) as error:
        known = ", ".join(field.name for field in fields(Job)[2:])
        raise UnreadableFile(
            f"{path} does not describe a training ({error}); expected JSON such as "
            f'{{"data": "rows.svm", "out": "model"}} with any of {known}.'
        ) from error
    job.check()
    return job, None if failure is None else Path(failure)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Expected one argument, a JSON file that describes the training.")
    main(sys.argv[1])
