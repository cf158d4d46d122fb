"""Claim: Weston–Watkins and Lee–Lin–Wahba speed up over threads and ranks, and memory per rank falls (figure III.2).

`python benchmarks/multiclass_svm_scaling.py threads` runs as many threads as there are cores, `ranks` as many MPI
ranks, and `large` fits 100,000 documents × 50,000 terms (60 a row) × 10,000 classes in single precision (target: 16 GB,
one hour). `draw threads` and `draw ranks` only make the pictures again, from the figures that were kept as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _results import publish

from _multiclass_svm import Split, lshtc_look_alike, naics2017_whole
from tellwhy.classifiers import LeeLinWahbaSVM, WestonWatkinsSVM
from tellwhy.classifiers.training_job import Job, mpiexec, run_rank, train
from tellwhy.core.errors import NotConverged

CORES = len(os.sched_getaffinity(0))
COUNTS = [n for n in (1, 2, 4, 8, 16) if n <= CORES]
RANKS = [n for n in (1, 2, 4, 8, 16) if n <= max(CORES, 4)]
LLW_TOL, WW_TOL = 1e-2, 1e-3
BUNDLES = 16
MEMORY_EPOCHS = 3
MEMORY = (
    f"{CORES} cores. One rank has Weston–Watkins classes in one bundle, more ranks two each. GB: what a rank grew by."
)
DOCS = Path(__file__).parent.parent / "docs"
Lines = list[dict[str, Any]]
Tell = Callable[[list[tuple[str, pd.DataFrame]]], None]


def documents(n: int = 5_000, n_classes: int = 1_000, n_terms: int = 20_000) -> Split:
    return replace(lshtc_look_alike(n, n_classes, n_terms), name="generated documents")


def over_threads(s: Split, cls: Any, *, n_bundles: int, tol: float) -> Lines:
    found: Lines = []
    for n in COUNTS:
        model = cls(C=1.0, tol=tol, n_jobs=n, n_bundles=n_bundles, fit_intercept=False, random_state=0).fit(s.X, s.y)
        line = {"data": s.name, "solver": cls.__name__, "threads": n, "bundles": n_bundles}
        seconds = model.history_[-1]["seconds"]
        found.append({**line, "s": seconds, "epochs": model.n_iter_, "objective": model.objective_})
        found[-1]["times faster"] = found[0]["s"] / seconds
        print(found[-1], flush=True)
    return found


def stored(s: Split, place: Path) -> Path:
    parts = {"data": s.X.data, "indices": s.X.indices, "indptr": s.X.indptr, "shape": np.array(s.X.shape)}
    np.savez(place / "rows.npz", y=s.y, **parts)
    return place / "rows.npz"


def over_ranks(s: Split, loss: str, tol: float, max_epochs: int = 500) -> Lines:
    found: Lines = []
    with tempfile.TemporaryDirectory() as place:
        data = stored(s, Path(place))
        for n in RANKS:
            job = {"data": str(data), "out": str(data.with_name(f"{loss}-{n}")), "loss": loss, "tol": tol}
            found.append({"data": s.name, "loss": loss, "ranks": n, **in_ranks(n, job | {"max_epochs": max_epochs})})
            found[-1]["times faster"] = found[0]["s"] / found[-1]["s"]
            print(found[-1], flush=True)
    return found


def in_ranks(n: int, job: dict[str, Any]) -> dict[str, Any]:
    """Run a job under mpiexec; rank 0 writes what it found into a file, as MPI may write lines of its own."""
    told = Path(job["out"] + ".told.json")
    command = [*mpiexec(), "-n", str(n), sys.executable, "-m", "mpi4py", __file__, "rank", json.dumps(job), str(told)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not told.is_file():
        raise RuntimeError(f"{command} gave {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(told.read_text())
    return found


def rank(described: str, told: Path) -> None:
    """Under mpiexec: fit, and let rank 0 write seconds and memory."""
    from mpi4py import MPI

    comm, lines = MPI.COMM_WORLD, []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run_rank(Job(fit_intercept=False, checkpoint_every=10**6, **json.loads(described)), comm, lines.append)
    grown = comm.gather((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20)
    if comm.rank == 0:
        words = next(text for text in reversed(lines) if text.startswith("epoch")).split()
        found = {"s": float(words[6]), "epochs": int(words[1]), "objective": float(words[5])}
        found |= {"GB of the fullest other rank": max(grown[1:] or grown), "GB of rank 0": grown[0]}
        told.write_text(json.dumps(found))


def threads(tell: Tell) -> None:
    s = documents()
    small = s.X[:800], np.arange(800) % 70
    for cls, bundles in ((WestonWatkinsSVM, 1), (WestonWatkinsSVM, 4), (LeeLinWahbaSVM, 4)):
        cls(tol=0.1, n_bundles=bundles, n_jobs=2, fit_intercept=False, max_epochs=5000).fit(*small)  # compile
    parts = []
    for cls, bundles, tol, words in (
        (WestonWatkinsSVM, 1, WW_TOL, "Weston–Watkins, all classes in one bundle: threads share each row."),
        (LeeLinWahbaSVM, BUNDLES, LLW_TOL, f"Lee–Lin–Wahba, {BUNDLES} bundles: threads share the classes."),
        (WestonWatkinsSVM, BUNDLES, WW_TOL, f"Weston–Watkins, {BUNDLES} bundles: threads share the pairs of them."),
    ):
        lines = over_threads(s, cls, n_bundles=bundles, tol=tol)
        if cls is WestonWatkinsSVM:
            lines += over_threads(naics2017_whole(), cls, n_bundles=bundles, tol=tol)
        parts.append(
            (f"{words} Documents: {s.X.shape[0]} × {s.X.shape[1]}, 1,000 classes; C = 1.", pd.DataFrame(lines))
        )
        tell(parts)


def ranks(tell: Tell) -> None:
    parts: list[tuple[str, pd.DataFrame]] = []
    runs = [(documents(6_000, 1_500, 30_000), loss, MEMORY_EPOCHS) for loss in ("ww", "llw")]
    runs += [(naics2017_whole(), loss, 500) for loss in ("ww", "llw")]
    for s, loss, most in runs:
        tol = WW_TOL if loss == "ww" else LLW_TOL
        text = (
            f"{s.name}: {s.X.shape[0]} rows, {s.X.shape[1]} features, {len(np.unique(s.y))} classes, C = 1, gap {tol:g}"
        )
        text += f"; {most} epochs only, to see the memory." if most == MEMORY_EPOCHS else "."
        parts.append((f"{text} {MEMORY}", pd.DataFrame(over_ranks(s, loss, tol, most))))
        tell(parts)


def large(tell: Tell) -> None:
    """From a file, with checkpoints, as `tellwhy fit-svm` does."""
    s, n = lshtc_look_alike(100_000, 10_000, 50_000, words=60), min(CORES, 4)
    with tempfile.TemporaryDirectory() as place:
        data = stored(s, Path(place))
        job = Job(str(data), str(data.with_name("model")), dtype="float32", threads=n, checkpoint_every=10)
        wall, cpu = time.perf_counter(), time.process_time()
        model = train(job, lambda text: print(text, flush=True))
    line = {
        "rows": s.X.shape[0], "classes": 10_000, "terms": s.X.shape[1], "terms a row": s.X.nnz / s.X.shape[0],
        "threads": n, "wall s": time.perf_counter() - wall, "CPU s": time.process_time() - cpu,
        "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, "gap": model.dual_gap_,
        "epochs": model.n_iter_, "density %": 100 * model.density_,
    }  # fmt: skip
    text = (
        "100,000 generated documents, 10,000 classes, Weston–Watkins, C = 1, single precision, gap 1e-3, read from a "
        "file and with checkpoints (target: 16 GB and 3,600 s)."
    )
    tell([(text, pd.DataFrame([line]))])


def draw(by: str) -> None:
    """Times faster against the number of threads or ranks, and memory per rank."""
    import matplotlib.pyplot as plt

    tables = [pd.DataFrame(lines) for lines in json.loads(kept(by).read_text())]
    figure, axes = plt.subplots(1, 2 if by == "ranks" else 1, figsize=(9, 3.8), layout="constrained", squeeze=False)
    counts = tables[0][by].unique()
    for table in tables:
        for keys, lines in table.groupby([c for c in ("data", "solver", "loss", "bundles") if c in table], sort=False):
            words = ", ".join(str(k) for k in keys[:2]) + (f", {keys[2]} bundle(s)" if len(keys) > 2 else "")
            memory = by == "ranks" and lines["epochs"].max() <= MEMORY_EPOCHS
            column, panel = ("GB of the fullest other rank", 1) if memory else ("times faster", 0)
            axes[0, panel].plot(lines[by], lines[column], "o-", label=words)
    axes[0, 0].plot(counts, counts, ":", color="0.6")
    for ax, words in zip(axes.flat, (f"times faster than with one of the {by}", "GB a rank"), strict=False):
        ax.set(xlabel=by, ylabel=words)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log", base=2)
        ax.set_xticks(counts, [str(n) for n in counts])
        ax.yaxis.set_major_formatter("{x:g}")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize=7)
    figure.savefig(DOCS / "images" / f"multiclass-svm-{by}.png", dpi=110)


def kept(what: str) -> Path:
    return DOCS / "results" / f"multiclass_svm_{what}.json"


PAGES: dict[str, tuple[Callable[[Tell], None], str]] = {
    "threads": (threads, "Multi-class SVMs over threads"),
    "ranks": (ranks, "Multi-class SVMs over MPI ranks"),
    "large": (large, "A large multi-class SVM"),
}

if __name__ == "__main__":
    what = sys.argv[1]
    if what == "rank":
        rank(sys.argv[2], Path(sys.argv[3]))
    elif what == "draw":
        draw(sys.argv[2])
    else:
        run, title = PAGES[what]

        def tell(parts: list[tuple[str, pd.DataFrame]]) -> None:
            publish(f"multiclass_svm_{what}", title, parts, peers=("numba",))
            kept(what).write_text(json.dumps([table.to_dict("records") for _, table in parts], indent=1))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            run(tell)
        if what != "large" and find_spec("matplotlib"):
            draw(what)
