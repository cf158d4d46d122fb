"""Claim: Weston–Watkins and Lee–Lin–Wahba speed up over threads and ranks, and memory per rank falls (figure III.2).

`python benchmarks/multiclass_svm_scaling.py` runs threads and ranks on generated documents; with the argument `large`
it fits 100,000 documents × 50,000 terms (60 a row) × 10,000 classes in single precision (target: 16 GB, one hour).
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _results import publish

from _multiclass_svm import Split, lshtc_look_alike
from tellwhy.classifiers import LeeLinWahbaSVM, WestonWatkinsSVM
from tellwhy.classifiers.training_job import Job, mpiexec, run_rank, train

CORES = len(os.sched_getaffinity(0))
COUNTS = [n for n in (1, 2, 4, 8, 16) if n <= CORES]
DOCUMENTS, CLASSES, TERMS = 10_000, 1_500, 40_000


def documents() -> Split:
    return lshtc_look_alike(DOCUMENTS, CLASSES, TERMS)


def over_threads(s: Split, cls: Any, *, n_bundles: int, C: float, tol: float) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for n in COUNTS:
        model = cls(C=C, tol=tol, n_jobs=n, n_bundles=n_bundles, fit_intercept=False, random_state=0).fit(s.X, s.y)
        seconds = model.history_[-1]["seconds"]
        found.append(
            {"solver": cls.__name__, "threads": n, "bundles": n_bundles, "s": seconds, "epochs": model.n_iter_}
        )
        found[-1] |= {"times faster": found[0]["s"] / seconds, "objective": model.objective_}
        print(found[-1], flush=True)
    return found


def stored(s: Split, place: Path) -> Path:
    parts = {"data": s.X.data, "indices": s.X.indices, "indptr": s.X.indptr, "shape": np.array(s.X.shape)}
    np.savez(place / "rows.npz", y=s.y, **parts)
    return place / "rows.npz"


def over_ranks(s: Split, loss: str, C: float, tol: float) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        data = stored(s, Path(place))
        for n in COUNTS:
            found.append(in_ranks(n, data, loss, C, tol))
            found[-1]["times faster"] = found[0]["s"] / found[-1]["s"]
            print(found[-1], flush=True)
    return found


def in_ranks(n: int, data: Path, loss: str, C: float, tol: float) -> dict[str, Any]:
    job = {"data": str(data), "out": str(data.with_name(f"{loss}-{n}")), "loss": loss, "C": C, "tol": tol}
    command = [*mpiexec(), "-n", str(n), sys.executable, "-m", "mpi4py", __file__, "rank", json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return {"loss": loss, "ranks": n, **told}


def rank(described: str) -> None:
    """Under mpiexec: fit, and let rank 0 print seconds and memory."""
    from mpi4py import MPI

    comm, lines = MPI.COMM_WORLD, []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run_rank(
        Job(fit_intercept=False, max_epochs=500, checkpoint_every=10**6, **json.loads(described)), comm, lines.append
    )
    grown = comm.gather((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20)
    if comm.rank == 0:
        words = lines[-1].split()
        told = {"s": float(words[6]), "epochs": int(words[1]), "objective": float(words[5])}
        print(json.dumps({**told, "GB of the fullest rank": max(grown[1:] or grown), "GB of rank 0": grown[0]}))


def large(threads: int) -> list[dict[str, Any]]:
    """From a file, with checkpoints, as `tellwhy fit-svm` does."""
    s = lshtc_look_alike(100_000, 10_000, 50_000, words=60)
    with tempfile.TemporaryDirectory() as place:
        data = stored(s, Path(place))
        job = Job(str(data), str(data.with_name("model")), dtype="float32", threads=threads, checkpoint_every=10)
        wall, cpu = time.perf_counter(), time.process_time()
        model = train(job, lambda text: print(text, flush=True))
    return [
        {
            "rows": s.X.shape[0], "classes": 10_000, "terms": s.X.shape[1], "terms a row": s.X.nnz / s.X.shape[0],
            "threads": threads, "wall s": time.perf_counter() - wall, "CPU s": time.process_time() - cpu,
            "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, "gap": model.dual_gap_,
            "epochs": model.n_iter_, "density %": 100 * model.density_,
        }
    ]  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) == 3:
        rank(sys.argv[2])
    elif sys.argv[1:] == ["large"]:
        text = (
            "100,000 generated documents, 10,000 classes, Weston–Watkins, C = 1, single precision, gap 1e-3, read from "
            "a file and with checkpoints (target: 16 GB and 3,600 s)."
        )
        publish("multiclass_svm_large", "A large multi-class SVM", [(text, pd.DataFrame(large(min(CORES, 2))))])
    else:
        s = documents()
        small = s.X[:400], np.arange(400) % 70
        for cls in (WestonWatkinsSVM, LeeLinWahbaSVM):
            cls(tol=0.1, n_bundles=4, n_jobs=2, fit_intercept=False, max_epochs=5000).fit(*small)  # compile
        n_bundles = max(4, 2 * max(COUNTS))
        threads = over_threads(s, WestonWatkinsSVM, n_bundles=n_bundles, C=1.0, tol=1e-3)
        threads += over_threads(s, LeeLinWahbaSVM, n_bundles=n_bundles, C=1.0, tol=1e-2)
        ranks = over_ranks(s, "ww", 1.0, 1e-3) + over_ranks(s, "llw", 1.0, 1e-2)
        shape = f"{DOCUMENTS} generated documents, {CLASSES} classes, {TERMS} terms, C = 1"
        parts = [
            (f"Threads of one process: {shape}. The same steps are taken whatever the threads.", pd.DataFrame(threads)),
            (f"MPI ranks on one machine: {shape}. Memory is what the rank grew by.", pd.DataFrame(ranks)),
        ]
        publish("multiclass_svm_scaling", "Multi-class SVMs over threads and ranks", parts)
