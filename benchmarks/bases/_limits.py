"""What bounds the results of kernel_bases.py: the best that any few features can do, and the exact kernel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from benchmarks.bases._sets import Rows
from tellwhy.bases.objectives import compute_kernel_of_pairs

ROWS, STEPS, STARTS = 400, 1_500, 2


def least_errors(rows: Rows, kernel: str, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """Smallest errors on 400 test rows: of any D features at all, and of sines and cosines of any D/2 phases.

    The first is given by the eigenvalues of the kernel matrix. The second gives each row phases of its own, which no
    projection has to produce, and is found by descent: a smaller one may exist.
    """
    X = torch.tensor(
        rows.X_test[:ROWS] / (rows.bandwidth if kernel == "gaussian" else 1.0), dtype=torch.float32
    )
    n = len(X)
    index = torch.arange(n)
    K = compute_kernel_of_pairs(X[index.repeat_interleave(n)], X[index.repeat(n)], kernel, 1).reshape(n, n)
    values = torch.linalg.eigvalsh(K.double()).flip(0)
    found = []
    for size in sizes:
        line = {
            "features": size,
            "error": float(0.5 * values[size:].square().sum() / n**2),
            "accuracy": math.nan,
        }
        if kernel == "gaussian":
            line["free_phases"] = min(_free_phases(X, K, size, seed) for seed in range(STARTS))
        found.append(line)
    return found


def _free_phases(X: Any, K: Any, size: int, seed: int) -> float:
    rng = np.random.default_rng(seed)
    directions = torch.tensor(rng.standard_normal((X.shape[1], size // 2)), dtype=torch.float32)
    phases = (X @ directions).requires_grad_()
    optimiser = torch.optim.Adam([phases], lr=0.1)
    pairs = ~torch.eye(len(X), dtype=torch.bool)
    for step in range(STEPS):
        optimiser.param_groups[0]["lr"] = 0.1 * (1 - step / STEPS)
        features = torch.cat([phases.sin(), phases.cos()], dim=1) * math.sqrt(2 / size)
        error = 0.5 * (K - features @ features.T)[pairs].square().mean()
        optimiser.zero_grad()
        error.backward()
        optimiser.step()
    return error.item()


def exact_accuracy(rows: Rows) -> list[dict[str, Any]]:
    """Test accuracy of a support vector machine with the Gaussian kernel itself, C chosen on the rows held out."""
    from sklearn.svm import SVC

    X, y, held = rows.X[rows.n_held :], rows.y[rows.n_held :], rows.held
    gamma = 0.5 / rows.bandwidth**2
    models = [SVC(C=C, gamma=gamma, cache_size=500).fit(X, y) for C in (1.0, 10.0, 100.0)]
    best = max(models, key=lambda m: m.score(rows.X[held], rows.y[held]))
    return [{"features": 0, "error": 0.0, "C": best.C, "accuracy": best.score(rows.X_test, rows.y_test)}]


def other_learners(rows: Rows) -> list[dict[str, Any]]:
    """What learners of other kinds reach: settings chosen on the rows held out, then fitted once more on all rows.

    The last line says how many test rows every one of them gets wrong after that.
    """
    X, y, held = rows.X[rows.n_held :], rows.y[rows.n_held :], rows.held
    found, wrong = [], []
    for name, models in _learners().items():
        judged = [float(model.fit(X, y).score(rows.X[held], rows.y[held])) for model in models]
        best = models[int(np.argmax(judged))]
        line = {"learner": name, "held_accuracy": max(judged)}
        line["accuracy"] = best.score(rows.X_test, rows.y_test)
        wrong.append(best.fit(rows.X, rows.y).predict(rows.X_test) != rows.y_test)
        found.append({**line, "refitted": float(1 - wrong[-1].mean())})
    everywhere = np.logical_and.reduce(wrong)
    return [*found, {"learner": "right by at least one", "refitted": float(1 - everywhere.mean())}]


def _learners() -> dict[str, list[Any]]:
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.svm import SVC

    network = {"batch_size": 64, "max_iter": 60, "n_iter_no_change": 60, "random_state": 0}
    return {
        "support vector machine, Gaussian kernel": [
            SVC(C=10.0, gamma=0.5 / width**2, cache_size=500) for width in (0.35, 0.5, 0.6)
        ],
        "network, one hidden layer of 1,000": [
            MLPClassifier((1_000,), alpha=ridge, **network) for ridge in (1e-4, 1e-2)
        ],
        "nearest neighbours": [KNeighborsClassifier(k) for k in (1, 3, 5)],
        "500 randomised trees": [ExtraTreesClassifier(500, max_features=m, random_state=0) for m in (2, 4)],
    }
