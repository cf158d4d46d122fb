"""Claim: our solver fits 50,000 × 20 rows within 5 minutes and 2 GB; scikit-learn's libsvm beside it."""

from __future__ import annotations

import json
import resource
import subprocess
import time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.svm import OneClassSVM as SklearnOneClassSVM

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.places import started_again
from benchmarks.shared.results import publish
from tellwhy.detectors import OneClassSVM

COLUMNS, NU, BANDWIDTH = 20, 0.1, 4.0
SIZES = (5_000, 10_000, 20_000, 50_000)


def rows(n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, COLUMNS)) + 3.0 * (rng.random(n) < 0.5)[:, None]


def measure(n: int, solver: str) -> None:
    """Child process: print seconds, peak memory and the discriminant at the boundary as JSON."""
    X = rows(n)
    OneClassSVM(bandwidth=BANDWIDTH, nu=NU, solver="smo").fit(X[:200])  # compile
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    if solver == "ours":
        ours = OneClassSVM(bandwidth=BANDWIDTH, nu=NU, solver="smo").fit(X)
        level, n_support = float(np.exp(-ours.threshold_)), len(ours.support_)
    else:
        theirs = SklearnOneClassSVM(nu=NU, gamma=1 / (2 * BANDWIDTH**2)).fit(X)
        level, n_support = float(theirs.offset_[0] / theirs.dual_coef_.sum()), len(theirs.support_)
    seconds = time.perf_counter() - started
    extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    print(json.dumps({"seconds": seconds, "GB": extra, "level": level, "support vectors": n_support}))


def in_child(n: int, solver: str) -> dict[str, Any]:
    done = subprocess.run(started_again("--one", str(n), solver), capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def line(n: int) -> dict[str, Any]:
    ours = in_child(n, "ours")
    theirs = in_child(n, "libsvm")
    return {
        "rows": n,
        "ours, s": ours["seconds"],
        "ours, extra GB": ours["GB"],
        "support vectors": ours["support vectors"],
        "boundary g": ours["level"],
        "libsvm, s": theirs["seconds"],
        "libsvm, boundary g": theirs["level"],
        "times faster": theirs["seconds"] / ours["seconds"],
    }


if __name__ == "__main__":
    one = arguments(__doc__, one=option(str, "for a child process: rows and method", nargs=2)).one
    if one:
        measure(int(one[0]), one[1])
    else:
        text = f"Gaussian kernel, ν = {NU}, {COLUMNS} columns (target at 50,000 rows: ≤ 300 s, ≤ 2 GB)."
        publish(
            "one_class_svm_fit", "Fitting one-class SVMs", [(text, pd.DataFrame([line(n) for n in SIZES]))]
        )
