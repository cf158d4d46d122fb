"""Time per row of Anomaly Shapley: the paper's table 7 and figure 3, and shap.KernelExplainer in the same run."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _results import publish

from _anomaly_shapley import DETECTORS, SETS, fitted, injected, split
from _takeishi_figures import SECONDS
from tellwhy.detectors import GaussianMixture
from tellwhy.explainers import AnomalyShapley
from tellwhy.scoring import as_score

FIGURE = Path(__file__).parent.parent / "docs" / "images" / "anomaly-shapley-time.png"
ROWS, REPEATS = 60, 3
TARGETS = {"thyroid": 0.7, "musk": 60.0, "arrhythmia": 250.0}
PEER_ROWS = {"thyroid": 60, "breastw": 60, "musk": 60, "arrhythmia": 8}
WIDTHS, MANY_ROWS = (5, 10, 12, 13, 30, 100, 300), (1, 10, 100, 1_000, 10_000)


def shortest(call: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Shortest time of a call, after one to warm up: what the machine needs when nobody else uses it."""
    call()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


def rows_of(name: str, n: int) -> np.ndarray:
    return np.asarray(injected(name, 1)[0][:n])


def table_7(sets: list[str], detectors: list[str]) -> pd.DataFrame:
    """Milliseconds per row of each set and detector."""
    lines = []
    for name in sets:
        times: dict[str, float] = {}
        for detector in detectors:
            made, X = AnomalyShapley(fitted(name, detector)).fit(split(name).train), rows_of(name, ROWS)
            ours = times[detector] = 1e3 * shortest(lambda made=made, X=X: made.explain(X)) / len(X)
            paper = 1e3 * SECONDS[name, detector]
            line = {
                "set": name,
                "d": X.shape[1],
                "detector": detector,
                "ours, ms a row": ours,
                "paper, ms a row": paper,
                "times faster": round(paper / ours),
                "÷ GMM": round(ours / times["GMM"], 1) if "GMM" in times else "—",
                "target, ms a row": TARGETS.get(name, "—") if detector == "GMM" else "—",
            }
            print(line, flush=True)
            lines.append(line)
    return pd.DataFrame(lines)


def against_shap(name: str) -> dict[str, Any]:
    """Our time and kernel SHAP's, on the same rows, with as many coalitions."""
    import shap

    model, train, X = fitted(name, "GMM"), split(name).train, rows_of(name, PEER_ROWS[name])
    made = AnomalyShapley(model).fit(train)
    n_coalitions = int(made.explain(X[:1]).params["coalitions_used"])
    ours = 1e3 * shortest(lambda: made.explain(X)) / len(X)
    score = as_score(model).value
    line: dict[str, Any] = {"set": name, "d": X.shape[1], "rows": len(X), "coalitions": n_coalitions}
    line["ours, ms a row"] = ours
    for n_references in (1, 8):
        peer = shap.KernelExplainer(score, shap.kmeans(train, n_references))
        started = time.perf_counter()
        peer.shap_values(X, nsamples=n_coalitions, silent=True)
        theirs = 1e3 * (time.perf_counter() - started) / len(X)
        line[f"shap, {n_references} reference rows, ms a row"] = theirs
        line[f"times faster ({n_references})"] = theirs / ours
    print(line, flush=True)
    return line


def by_width() -> pd.DataFrame:
    """Generated rows of more and more columns."""
    lines = []
    for d in WIDTHS:
        rng = np.random.default_rng(0)
        train = rng.normal(size=(2_000, d)) @ rng.normal(size=(d, d)) / np.sqrt(d)
        made = AnomalyShapley(GaussianMixture(2).fit(train)).fit(train)
        X = train[:20] + 2 * rng.normal(size=(20, d))
        used = int(made.explain(X[:1]).params["coalitions_used"])
        lines.append({"d": d, "coalitions": used, "ms a row": 1e3 * shortest(lambda: made.explain(X)) / 20})  # noqa: B023
        print(lines[-1], flush=True)
    return pd.DataFrame(lines)


def by_rows() -> pd.DataFrame:
    """Thyroid's rows, drawn again and again."""
    train = split("thyroid").train
    made = AnomalyShapley(fitted("thyroid", "GMM")).fit(train)
    pool = injected("thyroid", 1)[0]
    lines = []
    for n in MANY_ROWS:
        X = pool[np.random.default_rng(0).integers(len(pool), size=n)]
        total = shortest(lambda: made.explain(X))  # noqa: B023
        lines.append({"rows": n, "ms": 1e3 * total, "ms a row": 1e3 * total / n})
    return pd.DataFrame(lines)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--detectors", default=",".join(DETECTORS), help="of GMM, VAE-r, VAE-e, DAGMM; any case")
    parser.add_argument("--without-shap", action="store_true", help="do not run shap.KernelExplainer")
    return parser.parse_args()


def draw(by_set: pd.DataFrame, by_d: pd.DataFrame, by_n: pd.DataFrame) -> None:
    """Figure 3 of the paper, its times beside ours, and how time grows with columns and rows."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    means = by_set.groupby("set", sort=False)[["ours, ms a row", "paper, ms a row"]].mean()
    for column, colour in zip(means, ("C0", "0.6"), strict=True):
        axes[0].plot(means.index, means[column], "o-", color=colour, label=column.split(",")[0])
    axes[0].set(title="Mean over detectors, by set", ylabel="ms a row", yscale="log")
    axes[0].legend(frameon=False)
    axes[1].loglog(by_d["d"], by_d["ms a row"], "o-")
    axes[1].set(title="By columns, mixture of two", xlabel="columns", ylabel="ms a row")
    axes[2].loglog(by_n["rows"], by_n["ms a row"], "o-")
    axes[2].set(title="By rows explained together, thyroid", xlabel="rows", ylabel="ms a row")
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(FIGURE, dpi=110)


if __name__ == "__main__":
    asked = arguments()
    sets = asked.sets.split(",")
    wanted = [d for d in DETECTORS if d.lower() in asked.detectors.lower().split(",")]
    times, widths, many = table_7(sets, wanted), by_width(), by_rows()
    parts = [
        (
            f"Table 7: time per row, γ = 0.01, all coalitions up to 12 columns and 2d + 2048 beyond; {ROWS} rows "
            f"together, shortest of {REPEATS}. Detectors that were run: {', '.join(wanted)}.",
            times,
        ),
        ("By number of columns: generated rows, mixture of two components, 20 rows together.", widths),
        ("By number of rows explained together: thyroid, Gaussian mixture.", many),
    ]
    if not asked.without_shap:
        peers = pd.DataFrame([against_shap(name) for name in PEER_ROWS if name in sets])
        words = "Against shap.KernelExplainer: same mixture, same rows, as many coalitions; 1 and 8 reference rows."
        parts.insert(1, (words, peers))
    if find_spec("matplotlib"):
        draw(times, widths, many)
    publish("anomaly_shapley_speed", "Anomaly Shapley: time", parts, peers=() if asked.without_shap else ("shap",))
