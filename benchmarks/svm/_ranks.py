"""Multi-class SVMs under mpiexec for multiclass_svm_ranks.py: seconds an epoch and to a gap, memory."""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from tellwhy.classifiers.svm.lee_lin_wahba import SingleEngine
from tellwhy.classifiers.svm.problem import PAIR_LOSSES, Labels, make_problem, sum_squares_of
from tellwhy.classifiers.svm.ranks.exchange import Plan, SharedMemory, Size
from tellwhy.classifiers.svm.ranks.row_engine import RankSingleEngine, RowEngine
from tellwhy.classifiers.svm.records import Barrier
from tellwhy.classifiers.svm.solver import Settings, solve
from tellwhy.classifiers.svm.threads._compiled_barrier import LINE, wait_for_all
from tellwhy.classifiers.svm.threads._compiled_sweeps import DENSE_BATCH
from tellwhy.classifiers.svm.threads.row_batches import deal_out_features
from tellwhy.classifiers.svm.training.job import Job
from tellwhy.classifiers.svm.training.rank_training import run_rank
from tellwhy.classifiers.svm.training.run import mpiexec
from tellwhy.classifiers.svm.weston_watkins import PairEngine
from tellwhy.core.compiled import njit

TOLS = {"ww": 1e-3, "cs": 1e-3, "llw": 1e-2}
LIMIT = 600  # seconds
MEETINGS = 20_000  # to time one


def in_ranks(
    n: int, place: Path, whats: list[dict[str, Any]]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Run measurements under one mpiexec; yields each with what was found, as soon as it was.

    Rank 0 writes what it found into a file, line by line, as MPI may write lines of its own.
    """
    told = place / "told.jsonl"
    log = place / "log.txt"
    n_told = 0
    told.write_text("")
    command = [
        *mpiexec(),
        "-n",
        str(n),
        sys.executable,
        "-m",
        "mpi4py",
        "-m",
        __spec__.name,
        json.dumps(whats),
        str(told),
    ]
    with log.open("w") as lines:
        running = subprocess.Popen(command, stdout=lines, stderr=subprocess.STDOUT)
    until = time.monotonic() + LIMIT
    while running.poll() is None and time.monotonic() < until:
        time.sleep(0.2)
        for line in told.read_text().splitlines(keepends=True)[n_told:]:
            if line.endswith("\n"):
                yield whats[n_told], json.loads(line)
                n_told += 1
    running.terminate()
    rest = [json.loads(line) for line in told.read_text().splitlines()[n_told:]]
    if n_told + len(rest) < len(whats):
        print(f"{command} gave {running.wait()}\n{log.read_text()[-4000:]}", file=sys.stderr)
    yield from zip(whats[n_told:], rest, strict=False)


def stored_rows(path: str) -> tuple[Any, Any]:
    held = np.load(path)
    X = sparse.csr_array((held["data"], held["indices"], held["indptr"]), shape=tuple(held["shape"]))
    return X, np.unique(held["y"], return_inverse=True)[1]


def engine(X: Any, y: Any, comm: Any, what: dict[str, Any]) -> Any:
    """The engine of one rank; `parts` of the features are chosen by the plan unless told."""
    loss = what["loss"]
    sizes = np.bincount(y)
    common = {"n_jobs": what["threads"]}
    given = {"n_classes": len(sizes), "loss": loss, "dtype": "float64"}
    caps = np.full(len(y), what["C"])
    labels = Labels.of_classes(y)
    if loss in PAIR_LOSSES:
        size = Size(len(y), X.nnz, X.shape[1], len(sizes))
        plan = Plan.of(comm.size, size, what["parts"])
        what["plan"] = f"{plan.n_slots} × {plan.n_ranges}"
        part = plan.part(comm.rank, deal_out_features(X.indptr, X.indices, X.shape[1]))
        problem = make_problem(
            sparse.csr_array(X[:, part.features]), labels, caps, squares=sum_squares_of(X), **given
        )
        return RowEngine(problem, part, comm=comm, seed=np.random.default_rng(0), **common)
    problem = make_problem(X, labels, caps, **given)
    what["plan"] = f"1 × {comm.size}"
    seed = np.random.default_rng([0, comm.rank])
    if comm.size == 1:
        kind = PairEngine if problem.loss in PAIR_LOSSES else SingleEngine
        return kind(problem, n_blocks=what["blocks"], seed=seed, **common)
    each = max(what["blocks"] // comm.size, 1)
    return RankSingleEngine(problem, sizes, comm=comm, blocks=each, seed=seed, **common)


def warm_up(X: Any, comm: Any, what: dict[str, Any]) -> None:
    """Have everything compiled."""
    n_classes = 70
    X = sparse.csr_array(X[: 4 * n_classes])
    small = engine(X, np.arange(X.shape[0]) % n_classes, comm, what)
    solve(small, Settings(tol=0.1, max_epochs=4))
    small.close()


def seconds_per_epoch(X: Any, y: Any, comm: Any, what: dict[str, Any]) -> dict[str, Any]:
    """As figure III.2 was made: a fixed number of epochs that leave nothing out."""
    held = engine(X, y, comm, what)
    held.dense_epoch()
    held.certify(math.inf)
    taken = []
    for _ in range(what["epochs"]):
        comm.Barrier()
        started = time.perf_counter()
        held.epoch(0.0, 2**30)
        comm.Barrier()
        taken.append(time.perf_counter() - started)
    found = held.certify(math.inf)
    held.close()
    return {
        "s an epoch": float(np.mean(taken)),
        "least": min(taken),
        "most": max(taken),
        "features × classes": what["plan"],
        "gap": found.gap,
    }


def counted(held: Any) -> list[int]:
    """Rows between which ranks wait for each other, counted from now on: the one number of a list."""
    meetings = [0]
    listed = held.rows._sweep_listed
    dense = held.rows._sweep_all

    def sweep_listed(order: Any, *given: Any) -> Any:
        meetings[0] += len(order)
        return listed(order, *given)

    def sweep_all(order: Any, *given: Any) -> Any:
        meetings[0] += int((-(-held.rows.batches.sizes[order] // DENSE_BATCH)).sum())
        return dense(order, *given)

    held.rows._sweep_listed = sweep_listed
    held.rows._sweep_all = sweep_all
    return meetings


@njit(nogil=True)
def _meet(t, barrier, times):
    for k in range(times):
        wait_for_all(t, barrier, k + 1)


def microseconds_a_meeting(held: Any) -> float:
    """What it takes ranks of one machine to wait for each other when none has anything else to do."""
    comm = held.exchange.comm
    if not isinstance(held.exchange, SharedMemory):
        return 0.0
    taken = 0.0
    for times in (10, MEETINGS):  # compiled first
        barrier = Barrier(comm.size, held.exchange.counters(LINE * comm.size))
        started = time.perf_counter()
        _meet(comm.rank, barrier, times)
        taken = time.perf_counter() - started
    return 1e6 * taken / MEETINGS


def seconds_to_a_gap(X: Any, y: Any, comm: Any, what: dict[str, Any]) -> dict[str, Any]:
    """The fastest of some trainings."""
    return min((one_training(X, y, comm, what) for _ in range(what["repeats"])), key=lambda found: found["s"])


def one_training(X: Any, y: Any, comm: Any, what: dict[str, Any]) -> dict[str, Any]:
    held = engine(X, y, comm, what)
    meetings = counted(held)
    a_meeting = microseconds_a_meeting(held)
    comm.Barrier()  # whoever is late would be waited for
    progress = solve(held, Settings(tol=TOLS[what["loss"]], max_epochs=what["epochs"]))
    held.close()
    if isinstance(held, RowEngine):
        held.release()
    last = progress.last
    return {
        "s": progress.seconds,
        "epochs": progress.epochs,
        "gap": last["gap"],
        "objective": last["objective"],
        "features × classes": what["plan"],
        "meetings": meetings[0],
        "µs a meeting": a_meeting,
    }


def memory(comm: Any, what: dict[str, Any]) -> dict[str, Any]:
    """By how much each rank grows when it trains from a file as `tellwhy fit-svm` does; rank 0 saves the model."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    out = str(Path(what["data"]).with_name("model"))
    job = Job(
        what["data"],
        out,
        what["loss"],
        max_epochs=what["epochs"],
        fit_intercept=False,
        checkpoint_every=10**6,
    )
    run_rank(job, comm, lambda _: None)
    grown = comm.gather((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20)
    return (
        {"GB of the fullest other rank": max(grown[1:] or grown), "GB of rank 0": grown[0]} if grown else {}
    )


def measured(comm: Any, what: dict[str, Any]) -> dict[str, Any]:
    if what["measure"] == "memory":
        return memory(comm, what)
    X, y = stored_rows(what["data"])
    warm_up(X, comm, what)
    return {"epoch": seconds_per_epoch, "gap": seconds_to_a_gap}[what["measure"]](X, y, comm, what)


def main(whats: list[dict[str, Any]], told: Path) -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    words = MPI.Get_library_version().partition("\n")[0].partition(",")[0].replace("Version:", "").split()
    for what in whats:
        found = measured(comm, what)
        if comm.rank == 0:
            with told.open("a") as lines:
                lines.write(json.dumps(found | {"MPI": " ".join(words)}) + "\n")
        comm.Barrier()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
