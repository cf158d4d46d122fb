"""Claim: One-Class DTD explains at about the cost of scoring, in bounded memory, ≥ 100 × faster than kernel SHAP."""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import shap
from sklearn.svm import OneClassSVM as SklearnOneClassSVM

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.places import started_again
from benchmarks.shared.results import publish
from tellwhy.explainers import OneClassDTD
from tellwhy.scoring import as_score

ROWS, SUPPORT, REPEATS = 2_000, 1_000, 9
MEMORY_ROWS, MEMORY_COLUMNS = 100_000, 784
SHAP_ROWS, SHAP_SAMPLES = 3, 2_048


def model_with_support(d: int) -> SklearnOneClassSVM:
    """A fitted one-class SVM with at least SUPPORT support vectors."""
    X = np.random.default_rng(0).normal(size=(2_500, d))
    model = SklearnOneClassSVM(nu=0.42, gamma=1 / (2 * (0.5 * np.sqrt(2 * d)) ** 2)).fit(X)
    assert len(model.support_) >= SUPPORT
    return model


def seconds(call: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Median processor time of a call, after one to warm up: other work on the machine does not count."""
    call()
    times = []
    for _ in range(repeats):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return float(np.median(times))


def cost_of_explaining(d: int) -> dict[str, Any]:
    model = model_with_support(d)
    X = np.random.default_rng(1).normal(size=(ROWS, d)) * 1.2
    score, explainer = as_score(model), OneClassDTD(model)
    scoring, explaining = seconds(lambda: score.value(X)), seconds(lambda: explainer.explain(X))
    theirs = seconds(lambda: model.score_samples(X), repeats=3)
    ordinary = np.random.default_rng(2).normal(size=(1_000, d))

    def with_choice() -> Any:
        """A new explainer each time: what is usual, and the choice of the form, are found again."""
        return OneClassDTD(model, relative="auto").remember(ordinary).explain(X)

    choosing = seconds(with_choice)
    return {
        "columns": d,
        "support vectors": len(model.support_),
        "score, ms": 1e3 * scoring,
        "explain, ms": 1e3 * explaining,
        "explain ÷ score": explaining / scoring,
        "explain with relative='auto', ms": 1e3 * choosing,
        "scikit-learn's score_samples, ms": 1e3 * theirs,
    }


def against_kernel_shap(d: int) -> dict[str, Any]:
    model = model_with_support(d)
    X = np.random.default_rng(1).normal(size=(SHAP_ROWS, d)) * 1.2
    background = shap.kmeans(np.random.default_rng(0).normal(size=(500, d)), 8)
    peer = shap.KernelExplainer(lambda rows: -model.score_samples(rows), background)
    theirs = seconds(lambda: peer.shap_values(X, nsamples=SHAP_SAMPLES, silent=True), repeats=1) / SHAP_ROWS
    many = np.random.default_rng(1).normal(size=(ROWS, d)) * 1.2
    explainer = OneClassDTD(model)
    ours, ours_few = (
        seconds(lambda: explainer.explain(many)) / ROWS,
        seconds(lambda: explainer.explain(X)) / SHAP_ROWS,
    )
    return {
        "columns": d,
        "shap.KernelExplainer, ms a row": 1e3 * theirs,
        f"ours, ms a row ({SHAP_ROWS} rows)": 1e3 * ours_few,
        f"ours, ms a row ({ROWS} rows)": 1e3 * ours,
        f"times faster ({SHAP_ROWS} rows)": theirs / ours_few,
        f"times faster ({ROWS} rows)": theirs / ours,
    }


def measure_memory() -> None:
    """Child process: print the peak beyond input and output, in MB."""
    model = model_with_support(MEMORY_COLUMNS)
    explainer = OneClassDTD(model)
    X = np.random.default_rng(1).normal(size=(MEMORY_ROWS, MEMORY_COLUMNS))
    explainer.explain(X[:10])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    explanation = explainer.explain(X)
    elapsed = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print((after - before) / 1024 - explanation.values.nbytes / 2**20, elapsed)


def memory_of_explaining() -> dict[str, Any]:
    child = subprocess.run(started_again("--memory"), capture_output=True, text=True, check=True)
    extra, elapsed = (float(word) for word in child.stdout.split())
    return {
        "rows": MEMORY_ROWS,
        "columns": MEMORY_COLUMNS,
        "MB beyond input and output": extra,
        "seconds": elapsed,
    }


if __name__ == "__main__":
    if arguments(__doc__, memory=option(False, "for a child process: measure memory alone")).memory:
        measure_memory()
    else:
        cost = pd.DataFrame([cost_of_explaining(d) for d in (20, 784)])
        memory = pd.DataFrame([memory_of_explaining()])
        peers = pd.DataFrame([against_kernel_shap(d) for d in (20, 784)])
        publish(
            "oc_dtd_cost",
            "Cost of One-Class DTD",
            [
                (
                    f"Explaining {ROWS} rows of a one-class SVM, processor time of one thread (target: ≤ 2.5 at 20 "
                    "columns, ≤ 3.2 at 784).",
                    cost,
                ),
                ("Memory (target: ≤ 300 MB).", memory),
                (
                    f"Kernel SHAP on the same model, {SHAP_SAMPLES} samples a row (target: ≥ 100 times faster).",
                    peers,
                ),
            ],
            peers=("shap",),
        )
