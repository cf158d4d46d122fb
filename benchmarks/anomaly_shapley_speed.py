"""Time per row of Anomaly Shapley: the paper's table 7 and figure 3, and shap.KernelExplainer in the same run.

`--models folder` keeps fitted networks for the next run, `--cache file` the times of table 7, so that an interrupted
run continues; `--clock cpu` is for a machine that others use too.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _results import publish

from _anomaly_shapley import DETECTORS, SETS, fitted, injected, split
from _takeishi_figures import SECONDS
from tellwhy.detectors import GaussianMixture, load
from tellwhy.explainers import AnomalyShapley
from tellwhy.scoring import as_score

FIGURE = Path(__file__).parent.parent / "docs" / "images" / "anomaly-shapley-time.png"
ROWS = 60
TARGETS = {"thyroid": 0.7, "musk": 60.0, "arrhythmia": 250.0}
PEER_ROWS = {"thyroid": 60, "breastw": 60, "musk": 60, "arrhythmia": 8}
WIDTHS, MANY_ROWS = (5, 10, 12, 13, 30, 100, 300), (1, 10, 100, 1_000, 10_000)


def shortest(calls: dict[str, Callable[[], Any]], repeats: int, now: Callable[[], float]) -> dict[str, float]:
    """Shortest time of each call, after one to warm up; all of them take turns, so that they meet the same machine."""
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            started = now()
            call()
            times[name].append(now() - started)
    return {name: min(found) for name, found in times.items()}


def model(name: str, detector: str, folder: Path | None) -> Any:
    """A fitted detector, read from the folder where it is there."""
    if folder is None or detector == "GMM":
        return fitted(name, detector)
    place = folder / f"{name}_{detector}"
    if not place.exists():
        fitted(name, detector).save(place)
    return load(place)


def rows_of(name: str, n: int) -> np.ndarray:
    return np.asarray(injected(name, 1)[0][:n])


def table_7(asked: argparse.Namespace) -> pd.DataFrame:
    """Milliseconds per row of each set and detector."""
    lines = json.loads(asked.cache.read_text()) if asked.cache and asked.cache.exists() else []
    for name in [name for name in asked.sets if name not in {line["set"] for line in lines}]:
        X, calls = rows_of(name, ROWS), {}
        for detector in (d for d in asked.detectors if f"{name}:{d}" not in asked.skip):
            made = AnomalyShapley(model(name, detector, asked.models)).fit(split(name).train)
            calls[detector] = partial(made.explain, X)
        times = shortest(calls, asked.repeats, asked.now)
        for detector, seconds in times.items():
            ours, paper = 1e3 * seconds / len(X), 1e3 * SECONDS[name, detector]
            line = {
                "set": name,
                "d": X.shape[1],
                "detector": detector,
                "ours, ms a row": ours,
                "paper, ms a row": paper,
                "times faster": round(paper / ours),
                "÷ GMM": round(seconds / times["GMM"], 1) if "GMM" in times else "—",
                "target, ms a row": TARGETS.get(name, "—") if detector == "GMM" else "—",
            }
            print(line, flush=True)
            lines.append(line)
        if asked.cache:
            asked.cache.write_text(json.dumps(lines, indent=1))
    return pd.DataFrame(lines)


def against_shap(name: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Our time and kernel SHAP's, on the same rows, with as many coalitions."""
    import shap

    mixture, train, X = fitted(name, "GMM"), split(name).train, rows_of(name, PEER_ROWS[name])
    made = AnomalyShapley(mixture).fit(train)
    n_coalitions = int(made.explain(X[:1]).params["coalitions_used"])
    ours = 1e3 * shortest({"": lambda: made.explain(X)}, asked.repeats, asked.now)[""] / len(X)
    score = as_score(mixture).value
    line: dict[str, Any] = {"set": name, "d": X.shape[1], "rows": len(X), "coalitions": n_coalitions}
    line["ours, ms a row"] = ours
    for n_references in (1, 8):
        peer = shap.KernelExplainer(score, shap.kmeans(train, n_references))
        started = asked.now()
        peer.shap_values(X, nsamples=n_coalitions, silent=True)
        theirs = 1e3 * (asked.now() - started) / len(X)
        line[f"shap, {n_references} reference rows, ms a row"] = theirs
        line[f"times faster ({n_references})"] = theirs / ours
    print(line, flush=True)
    return line


def by_width(asked: argparse.Namespace) -> pd.DataFrame:
    """Generated rows of more and more columns."""
    calls, used = {}, {}
    for d in WIDTHS:
        rng = np.random.default_rng(0)
        train = rng.normal(size=(2_000, d)) @ rng.normal(size=(d, d)) / np.sqrt(d)
        made = AnomalyShapley(GaussianMixture(2).fit(train)).fit(train)
        X = train[:20] + 2 * rng.normal(size=(20, d))
        used[str(d)], calls[str(d)] = (
            int(made.explain(X[:1]).params["coalitions_used"]),
            partial(made.explain, X),
        )
    times = shortest(calls, asked.repeats, asked.now)
    return pd.DataFrame(
        [{"d": int(d), "coalitions": used[d], "ms a row": 1e3 * times[d] / 20} for d in times]
    )


def by_rows(asked: argparse.Namespace) -> pd.DataFrame:
    """Thyroid's rows, drawn again and again."""
    made = AnomalyShapley(fitted("thyroid", "GMM")).fit(split("thyroid").train)
    pool, rng = injected("thyroid", 1)[0], np.random.default_rng(0)
    calls = {str(n): partial(made.explain, pool[rng.integers(len(pool), size=n)]) for n in MANY_ROWS}
    times = shortest(calls, asked.repeats, asked.now)
    return pd.DataFrame(
        [{"rows": int(n), "ms": 1e3 * t, "ms a row": 1e3 * t / int(n)} for n, t in times.items()]
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--detectors", nargs="+", default=list(DETECTORS), choices=DETECTORS)
    parser.add_argument("--skip", nargs="*", default=[], help="pairs to leave out, e.g. arrhythmia:DAGMM")
    parser.add_argument("--without-shap", action="store_true", help="do not run shap.KernelExplainer")
    parser.add_argument("--models", type=Path, help="folder of fitted networks")
    parser.add_argument("--cache", type=Path, help="JSON file of times")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    asked = parser.parse_args()
    asked.now = time.perf_counter if asked.clock == "wall" else time.process_time
    return asked


CLOCKS = {
    "wall": "",
    "cpu": " Times are those of the processor, all threads together, since other work ran beside it: on two free cores "
    "what runs in threads takes less.",
}


def draw(by_set: pd.DataFrame, by_d: pd.DataFrame, by_n: pd.DataFrame) -> None:
    """Figure 3 of the paper, its times beside ours, and how time grows with columns and rows."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    means = by_set.groupby("set", sort=False)[["ours, ms a row", "paper, ms a row"]].mean()
    for column, colour in zip(means, ("C0", "0.6"), strict=True):
        axes[0].plot(means.index, means[column], "o-", color=colour, label=column.split(",")[0])
    axes[0].set(title="Mean over detectors, by set", ylabel="ms a row", yscale="log")
    axes[0].tick_params(axis="x", rotation=30)
    axes[0].legend(frameon=False)
    axes[1].loglog(by_d["d"], by_d["ms a row"], "o-")
    axes[1].set(title="By columns, mixture of two", xlabel="columns", ylabel="ms a row")
    axes[2].loglog(by_n["rows"], by_n["ms a row"], "o-")
    axes[2].set(title="By rows explained together, thyroid", xlabel="rows", ylabel="ms a row")
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(FIGURE, dpi=110)


def main() -> None:
    asked = arguments()
    times, widths, many = table_7(asked), by_width(asked), by_rows(asked)
    skipped = f", but for {', '.join(asked.skip)}" if asked.skip else ""
    parts = [
        (
            f"Table 7: time per row, γ = 0.01, all coalitions up to 12 columns and 2d + 2048 beyond; {ROWS} rows "
            f"together, shortest of {asked.repeats}, detectors of a set in turns. Detectors that were run: "
            f"{', '.join(asked.detectors)}{skipped}.{CLOCKS[asked.clock]}",
            times,
        ),
        ("By number of columns: generated rows, mixture of two components, 20 rows together.", widths),
        ("By number of rows explained together: thyroid, Gaussian mixture.", many),
    ]
    if not asked.without_shap:
        peers = pd.DataFrame([against_shap(name, asked) for name in PEER_ROWS if name in asked.sets])
        words = "Against shap.KernelExplainer: same mixture, same rows, as many coalitions; 1 and 8 reference rows."
        parts.insert(1, (words, peers))
    if find_spec("matplotlib"):
        draw(times, widths, many)
    publish(
        "anomaly_shapley_speed", "Anomaly Shapley: time", parts, peers=() if asked.without_shap else ("shap",)
    )


if __name__ == "__main__":
    main()
