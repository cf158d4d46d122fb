"""Claim: a one-class SVM on kernel features takes 1,000,000 × 20 rows in minutes, and is explained as the exact one."""

from __future__ import annotations

import json
import resource
import subprocess
import time
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import SGDOneClassSVM

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.places import started_again
from benchmarks.shared.results import publish
from tellwhy.bases import KernelBasis
from tellwhy.bases.map_rows import project_rows
from tellwhy.core.explanation import Explanation
from tellwhy.detectors import OneClassSVM
from tellwhy.detectors.kernel.one_class_svm import FeatureRows, solve_in_features
from tellwhy.explainers import OneClassDTD

COLUMNS, NU, WIDTH = 20, 0.1, 4.0
SIZES = (100_000, 1_000_000)
EXACT_ROWS, NEW_ROWS = 20_000, 500


def rows(n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, COLUMNS)) + 3.0 * (rng.random(n) < 0.5)[:, None]


def new_rows(shift: float) -> np.ndarray:
    """Rows with one column moved away."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(NEW_ROWS, COLUMNS)) + 3.0 * (rng.random(NEW_ROWS) < 0.5)[:, None]
    X[np.arange(NEW_ROWS), rng.integers(0, COLUMNS, NEW_ROWS)] += shift * rng.choice([-1, 1], NEW_ROWS)
    return X


def basis(n_features: int) -> KernelBasis:
    return KernelBasis("gaussian", "random", n_features, structure="hadamard", random_state=0)


def measure(n: int, method: str) -> None:
    """Child process: print seconds and extra memory as JSON."""
    X = rows(n)
    OneClassSVM(bandwidth=WIDTH, nu=NU, features=basis(1024)).fit(X[:200])  # compiles
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    found: dict[str, Any] = {}
    if method == "ours":
        model = OneClassSVM(bandwidth=WIDTH, nu=NU, features=basis(1024)).fit(X)
        found = {"gap": model.violation_, "landmarks": len(model.support_)}
    else:
        one_pass_of_sgd(X)
    seconds = time.perf_counter() - started
    extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    print(json.dumps({"seconds": seconds, "GB": extra, **found}))


def one_pass_of_sgd(X: np.ndarray) -> tuple[Any, Any]:
    """scikit-learn's way: sampled Fourier features and stochastic gradient, in batches that fit into memory."""
    sampler = RBFSampler(gamma=1 / (2 * WIDTH**2), n_components=1024, random_state=0).fit(X[:2])
    model = SGDOneClassSVM(nu=NU, random_state=0)
    for start in range(0, len(X), 10_000):
        model.partial_fit(sampler.transform(X[start : start + 10_000]))
    return sampler, model


def line(n: int) -> dict[str, Any]:
    def child(method: str) -> dict[str, Any]:
        done = subprocess.run(started_again("--one", str(n), method), capture_output=True, check=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    ours, theirs = child("ours"), child("sgd")
    return {
        "rows": n,
        "ours, s": ours["seconds"],
        "extra GB": ours["GB"],
        "duality gap / ‖w‖²": ours["gap"],
        "landmarks": ours["landmarks"],
        "RBFSampler + SGDOneClassSVM, one pass, s": theirs["seconds"],
    }


def compared(name: str, scores: np.ndarray, values: np.ndarray | None, exact: Explanation) -> dict[str, Any]:
    """How far scores and attributions agree with the exact model's."""
    entry: dict[str, Any] = {
        "model": name,
        "scores, rank correlation": float(spearmanr(exact.scores, scores)[0]),
    }
    if values is None:
        return {
            **entry,
            "cosine": "–",
            "lowest cosine": "–",
            "rank correlation": "–",
            "same first column": "–",
        }
    lengths = np.linalg.norm(exact.values, axis=1) * np.linalg.norm(values, axis=1)
    cosine = (exact.values * values).sum(axis=1) / np.where(lengths > 0, lengths, 1.0)
    ranks = [spearmanr(a, b)[0] for a, b in zip(exact.values, values, strict=True)]
    same = float((exact.values.argmax(axis=1) == values.argmax(axis=1)).mean())
    numbers = {"cosine": cosine.mean(), "lowest cosine": cosine.min(), "rank correlation": np.nanmean(ranks)}
    return {**entry, **{key: float(value) for key, value in numbers.items()}, "same first column": same}


def in_feature_space(X: np.ndarray, new: np.ndarray, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """w·φ(x) itself, and its squared slopes through the sines and cosines: the explanation without landmarks."""
    fitted = basis(n_features).set_params(bandwidth=WIDTH).fit(X)
    weights = solve_in_features(FeatureRows.of(X, fitted.map_), nu=NU, tol=1e-4).weights
    support = np.flatnonzero(weights)
    w = weights[support] @ fitted.transform(X[support])
    layer, half = fitted.map_.layers[0], n_features // 2
    Z = project_rows((new - fitted.map_.centre) / WIDTH, layer)
    pull = (w[:half] * np.cos(Z) - w[half:] * np.sin(Z)) * np.sqrt(2 / n_features)
    G = project_rows(np.eye(COLUMNS), layer)
    return fitted.transform(new) @ w, (pull @ G.T) ** 2


def agreement(shift: float) -> pd.DataFrame:
    X, new = rows(EXACT_ROWS), new_rows(shift)
    exact = OneClassDTD(OneClassSVM(bandwidth=WIDTH, nu=NU).fit(X)).explain(new)
    lines = []
    for n_features in (256, 1024, 4096):
        fast = OneClassDTD(OneClassSVM(bandwidth=WIDTH, nu=NU, features=basis(n_features)).fit(X)).explain(
            new
        )
        lines.append(compared(f"{n_features} features, landmarks", fast.scores, fast.values, exact))
    level, slopes = in_feature_space(X, new, 1024)
    name = f"1024 features, slopes of w·φ ({(level <= 0).mean():.0%} of the rows have w·φ ≤ 0)"
    lines.append(compared(name, -level, slopes, exact))
    sampler, sgd = one_pass_of_sgd(X)
    lines.append(
        compared("RBFSampler + SGDOneClassSVM", -sgd.score_samples(sampler.transform(new)), None, exact)
    )
    return pd.DataFrame(lines)


if __name__ == "__main__":
    one = arguments(__doc__, one=option(str, "for a child process: rows and method", nargs=2)).one
    if one:
        measure(int(one[0]), one[1])
    else:
        text = f"Gaussian kernel, σ = {WIDTH:g}, ν = {NU}, {COLUMNS} columns, 1,024 Hadamard features (target: minutes)."
        parts = [(text, pd.DataFrame([line(n) for n in SIZES]))]
        for size in (5.0, 40.0):
            text = (
                f"Against the exact model of {EXACT_ROWS:,} rows, on {NEW_ROWS} new rows with one column moved by "
                f"{size:g}: attributions of One-Class DTD."
            )
            parts.append((text, agreement(size)))
        publish("one_class_features", "One-class SVM on kernel features", parts)
