"""Anomaly Shapley of a VAE's score on a GPU: 10,000 rows of musk, and the CPU beside it on some of them."""

from __future__ import annotations

import argparse
import time
from copy import copy
from typing import Any

import joblib
import numpy as np
import pandas as pd
import torch
from _results import publish

from tellwhy.data import fetch
from tellwhy.detectors import VAE
from tellwhy.explainers import AnomalyShapley

CPU_ROWS = 40


def many_rows(n: int) -> np.ndarray:
    """Test rows of musk, again and again, each time with a little noise."""
    test = fetch("takeishi_splits_musk")["test"]
    rng = np.random.default_rng(0)
    return test[rng.integers(len(test), size=n)] + 0.01 * rng.normal(size=(n, test.shape[1]))


def measure(detector: VAE, device: str, n: int) -> dict[str, Any]:
    train = fetch("takeishi_splits_musk")["train"]
    explainer = AnomalyShapley(copy(detector).set_params(device=device)).fit(train)
    explainer.explain(many_rows(4))
    X = many_rows(n)
    started = time.perf_counter()
    explanation = explainer.explain(X)
    seconds = time.perf_counter() - started
    assert np.abs(explanation.residual).max() < 1e-6 * np.abs(explanation.scores).max()
    is_gpu = device == "cuda"
    return {
        "device": torch.cuda.get_device_name() if is_gpu else f"CPU, {joblib.effective_n_jobs(-1)} cores",
        "score": detector.score,
        "rows": n,
        "seconds": seconds,
        "ms a row": 1e3 * seconds / n,
        "GPU memory, GB": torch.cuda.max_memory_allocated() / 2**30 if is_gpu else float("nan"),
    }


def fitted(kind: str) -> VAE:
    started = time.perf_counter()
    detector = VAE(score=kind, device="cuda").fit(fetch("takeishi_splits_musk")["train"])
    print(f"fitted for {kind} in {time.perf_counter() - started:.0f} s", flush=True)
    return detector


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    rows = parser.parse_args().rows
    lines = []
    for kind in ("reconstruction", "elbo"):
        detector = fitted(kind)
        on_cpu, on_gpu = measure(detector, "cpu", CPU_ROWS), measure(detector, "cuda", rows)
        on_gpu["times faster"] = on_cpu["ms a row"] / on_gpu["ms a row"]
        lines += [on_cpu, on_gpu]
        print(lines[-2:], flush=True)
    publish(
        "anomaly_shapley_gpu",
        "Anomaly Shapley on a GPU",
        [
            (
                "A VAE fitted to musk (166 columns); 2d + 2048 coalitions and d + 1 minimisations a row.",
                pd.DataFrame(lines),
            )
        ],
        peers=("torch",),
    )
