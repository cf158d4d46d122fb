"""Claim: the detector that `auto` means is not worse than scikit-learn's IsolationForest, out of the box.

Bandwidth and scaling were ranked on the generated data of the second table, but the public sets were not unseen: an
earlier scaling (quartiles) was scored on them, did badly on musk (.90), and that prompted the search for another one,
whose candidates were scored on them as well. The first table is therefore not a blind test.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from _results import publish
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from tellwhy.data import TableEncoder, fetch
from tellwhy.detectors import KernelDensity, NearestNeighbours
from tellwhy.kernels.bandwidth import median_distance
from tellwhy.workflow.tables.default_detector import make_detector

SETS = ("thyroid", "breastw", "lympho", "musk", "arrhythmia")
NORMAL_KINDS = ("one cluster", "clusters", "correlated", "skewed", "discrete", "mixed")
ANOMALY_KINDS = ("scattered", "one feature", "clustered", "dependency")


def encoded(X: np.ndarray) -> np.ndarray:
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    return TableEncoder().fit(frame).transform(frame)


def scores_of_all(X: np.ndarray) -> dict[str, np.ndarray]:
    """Scores of rows that each method is trained on as well; kernel methods leave each row out of itself."""
    Z = encoded(X)
    width = median_distance(Z)
    found = {"auto": make_detector("auto", Z, is_clean=False)[0].training_scores_}
    for share in (0.25, 1.0):
        found[f"density, {share:g} × median"] = KernelDensity(bandwidth=share * width).fit(Z).training_scores_
    found["20 neighbours"] = NearestNeighbours(20).fit(Z).training_scores_
    found["IsolationForest"] = -IsolationForest(random_state=0).fit(X).score_samples(X)
    return found


def on_public_sets() -> pd.DataFrame:
    lines = []
    for name in SETS:
        data = fetch(f"odds_{name}")
        X, y = data["X"].astype(float), data["y"]
        scores = scores_of_all(X)
        line = {"set": name, "rows": len(X), "columns": X.shape[1], "anomalies": int(y.sum())}
        lines.append(
            line | {m: roc_auc_score(y, s) for m, s in scores.items() if m in ("auto", "IsolationForest")}
        )
    table = pd.DataFrame(lines)
    mean = {"set": "mean", "rows": "", "columns": "", "anomalies": ""}
    return pd.concat([table, pd.DataFrame([mean | table[["auto", "IsolationForest"]].mean().to_dict()])])


def normal_rows(rng: np.random.Generator, n: int, d: int, kind: str) -> np.ndarray:
    if kind == "clusters":
        k = rng.integers(2, 6)
        centres, widths, which = (
            rng.normal(size=(k, d)) * 3,
            rng.uniform(0.5, 1.5, size=k),
            rng.integers(k, size=n),
        )
        return centres[which] + widths[which, None] * rng.normal(size=(n, d))
    if kind in ("correlated", "mixed"):
        rank = max(2, d // 3)
        X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d)) + 0.3 * rng.normal(size=(n, d))
        return X if kind == "correlated" else mix_columns(rng, X / X.std(axis=0))
    if kind == "skewed":
        return np.exp(0.7 * rng.normal(size=(n, d)))
    if kind == "discrete":
        share = rng.uniform(0.02, 0.3, size=d)
        return (rng.random((n, d)) < share).astype(float) + (rng.random((n, d)) < share)
    return rng.normal(size=(n, d))


def mix_columns(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    """Some columns as they are, some log-normal, some heavy-tailed, some binary."""
    shapes = (
        lambda x: x,
        lambda x: np.exp(1.2 * x),
        lambda x: np.sinh(1.5 * x),
        lambda x: (x > 1.3).astype(float),
    )
    return np.column_stack([shapes[rng.integers(4)](column) for column in X.T])


def odd_rows(rng: np.random.Generator, X: np.ndarray, n: int, kind: str) -> np.ndarray:
    d, spread = X.shape[1], X.std(axis=0) + 1e-9
    base = X[rng.integers(len(X), size=n)].copy()
    if kind == "scattered":
        return base + 2 * spread * rng.normal(size=(n, d))
    if kind == "one feature":
        for row in base:
            chosen = rng.choice(d, max(1, d // 8), replace=False)
            row[chosen] += rng.choice([-1, 1], len(chosen)) * rng.uniform(2, 5, len(chosen)) * spread[chosen]
        return base
    if kind == "clustered":
        direction = rng.normal(size=d)
        shift = 1.5 * np.sqrt(d) * direction / np.linalg.norm(direction)
        return X.mean(axis=0) + spread * shift + 0.3 * spread * rng.normal(size=(n, d))
    return np.column_stack([X[rng.integers(len(X), size=n), j] for j in range(d)])


def on_generated_data() -> pd.DataFrame:
    rng, lines = np.random.default_rng(2), []
    for odd_kind in ANOMALY_KINDS:
        for normal_kind in NORMAL_KINDS:
            if odd_kind == "dependency" and normal_kind not in ("clusters", "correlated", "mixed"):
                continue  # independent columns have no dependency to break
            for d in (5, 20, 80):
                for n, share in ((300, 0.03), (1500, 0.05)):
                    X = normal_rows(rng, n, d, normal_kind)
                    odd = odd_rows(rng, X, int(share * n), odd_kind)
                    y = np.r_[np.zeros(len(X)), np.ones(len(odd))]
                    found = scores_of_all(np.vstack([X, odd]))
                    aurocs = {method: roc_auc_score(y, s) for method, s in found.items()}
                    lines.append({"anomalies": odd_kind, "normal rows": normal_kind, **aurocs})
    by_kind = pd.DataFrame(lines).groupby(["anomalies", "normal rows"], sort=False).mean().reset_index()
    mean = by_kind.drop(columns=["anomalies", "normal rows"]).mean().to_dict()
    return pd.concat([by_kind, pd.DataFrame([{"anomalies": "mean", "normal rows": "", **mean}])])


if __name__ == "__main__":
    publish(
        "default_detector",
        "The default detector",
        [
            (
                "AUROC on public sets, trained on all rows without labels (target: mean not lower). The public sets "
                "were not unseen: a weak result of an earlier scaling on musk prompted the search for this one.",
                on_public_sets(),
            ),
            (
                "AUROC on generated data, which the choice was made on; trained on all rows.",
                on_generated_data(),
            ),
        ],
    )
