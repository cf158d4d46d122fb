"""Claim: 100,000 documents × 50,000 terms (60 a row) × 10,000 classes train within 16 GB and an hour."""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

import pandas as pd

from benchmarks.shared.arguments import arguments
from benchmarks.svm._scaling import CORES, Tell, measured, stored
from benchmarks.svm._sets import lshtc_look_alike
from tellwhy.classifiers.svm.training.job import Job
from tellwhy.classifiers.svm.training.run import train


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


if __name__ == "__main__":
    arguments(__doc__)
    measured("large", "A large multi-class SVM", large)
