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

from benchmarks.shapley._detectors_and_methods import DETECTORS, SETS, WIDE, fitted, injected, split
from benchmarks.shapley._published import SECONDS
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.places import IMAGES
from benchmarks.shared.results import machine, publish
from tellwhy.detectors import GaussianMixture
from tellwhy.explainers import AnomalyShapley
from tellwhy.scoring import as_score

FIGURE = IMAGES / "anomaly-shapley-time.png"
ROWS = 60
TARGETS = {"thyroid": 0.7, "musk": 60.0, "arrhythmia": 250.0}
PEER_ROWS = {"thyroid": 60, "breastw": 60, "musk": 60, "arrhythmia": 8}
PARTS = ("times", "widths", "many", "shap")
LONG = 5.0  # seconds, after which a call is not repeated
FEW_ROWS = 12  # of networks with more than 12 columns
WIDTHS, MANY_ROWS = (5, 10, 12, 13, 30, 100, 300), (1, 10, 100, 1_000, 10_000)


def shortest(calls: dict[str, Callable[[], Any]], repeats: int, now: Callable[[], float]) -> dict[str, float]:
    """Shortest time of each call; all of them take turns, so that they meet the same machine, long ones fewer."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            if sum(times[name]) < LONG:
                started = now()
                call()
                times[name].append(now() - started)
    return {name: min(found) for name, found in times.items()}


def warmed(made: Any, X: np.ndarray) -> Callable[[], Any]:
    """The call to be timed, after a small one in which loops are compiled."""
    made.explain(X[:2])
    return partial(made.explain, X)


def rows_of(name: str, n: int) -> np.ndarray:
    return np.asarray(injected(name, 1)[0][:n])


def table_7(asked: argparse.Namespace) -> pd.DataFrame:
    """Milliseconds per row of each set and detector, with the defaults and with the paper's settings."""
    lines = json.loads(asked.cache.read_text()) if asked.cache and asked.cache.exists() else []
    for name in [name for name in asked.sets if name not in {line["set"] for line in lines}]:
        detectors = [d for d in asked.detectors if f"{name}:{d}" not in asked.skip]
        calls, taken = {}, {}
        for detector in detectors:
            model, X = fitted(name, detector, asked.models), rows_of(name, rows_for(name, detector))
            made = AnomalyShapley(model).fit(split(name).train)
            calls[detector] = warmed(made, X)
            taken[detector] = made.explain(X[:2]).params["characteristic_used"]
            papers = AnomalyShapley(model, gamma=0.01, characteristic="relaxed").fit(split(name).train)
            calls[f"{detector}, relaxed"] = warmed(papers, X)
        times = shortest(calls, asked.repeats, asked.now)
        lines += [line_7(name, detector, times, taken[detector]) for detector in detectors]
        if asked.cache:
            asked.cache.write_text(json.dumps(lines, indent=1))
    return pd.DataFrame(lines)


def rows_for(name: str, detector: str) -> int:
    return FEW_ROWS if name in WIDE and detector != "GMM" else ROWS


def line_7(name: str, detector: str, times: dict[str, float], taken: str) -> dict[str, Any]:
    n, paper = rows_for(name, detector), 1e3 * SECONDS[name, detector]
    ours, relaxed = 1e3 * times[detector] / n, 1e3 * times[f"{detector}, relaxed"] / n
    line = {"set": name, "d": split(name).train.shape[1], "detector": detector, "rows": n}
    line |= {"characteristic": taken, "ours, ms a row": ours, "relaxed, γ = 0.01, ms a row": relaxed}
    line |= {"paper, ms a row": paper, "times faster": round(paper / ours)}
    line["target, ms a row"] = TARGETS.get(name, "—") if detector == "GMM" else "—"
    print(line, flush=True)
    return line


def against_shap(name: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Our time and kernel SHAP's, on the same rows, with as many coalitions."""
    import shap

    mixture, train, X = fitted(name, "GMM", asked.models), split(name).train, rows_of(name, PEER_ROWS[name])
    made = AnomalyShapley(mixture).fit(train)
    n_coalitions = int(made.explain(X[:1]).params["coalitions_used"])
    ours = 1e3 * shortest({"": warmed(made, X)}, asked.repeats, asked.now)[""] / len(X)
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
            warmed(made, X),
        )
    times = shortest(calls, asked.repeats, asked.now)
    return pd.DataFrame(
        [{"d": int(d), "coalitions": used[d], "ms a row": 1e3 * times[d] / 20} for d in times]
    )


def by_rows(asked: argparse.Namespace) -> pd.DataFrame:
    """Thyroid's rows, drawn again and again."""
    made = AnomalyShapley(fitted("thyroid", "GMM", asked.models)).fit(split("thyroid").train)
    pool, rng = injected("thyroid", 1)[0], np.random.default_rng(0)
    calls = {str(n): warmed(made, pool[rng.integers(len(pool), size=n)]) for n in MANY_ROWS}
    times = shortest(calls, asked.repeats, asked.now)
    return pd.DataFrame(
        [{"rows": int(n), "ms": 1e3 * t, "ms a row": 1e3 * t / int(n)} for n, t in times.items()]
    )


def command_line() -> argparse.Namespace:
    asked = arguments(
        __doc__,
        "save",
        sets=list(SETS),
        detectors=option(list(DETECTORS), choices=DETECTORS),
        skip=option([], "pairs to leave out, e.g. arrhythmia:DAGMM", nargs="*"),
        parts=option(list(PARTS), choices=PARTS),
        kept=option(Path, "write the page of such figures", nargs="+"),
        models=option(Path, "folder of fitted networks"),
        cache=option(Path, "JSON file of times"),
        repeats=5,
        clock=option("wall", choices=("wall", "cpu")),
    )
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


def figures(asked: argparse.Namespace) -> dict[str, Any]:
    """Measure the parts asked for; each remembers the machine and the clock."""
    makers: dict[str, Callable[[], pd.DataFrame]] = {
        "times": lambda: table_7(asked),
        "widths": lambda: by_width(asked),
        "many": lambda: by_rows(asked),
        "shap": lambda: pd.DataFrame([against_shap(name, asked) for name in PEER_ROWS if name in asked.sets]),
    }
    found: dict[str, Any] = {}
    for part in asked.parts:
        lines = json.loads(makers[part]().to_json(orient="records"))
        found[part] = {"where": machine(), "clock": asked.clock, "lines": lines}
        print(part, json.dumps(lines), flush=True)
        if asked.save:
            asked.save.write_text(json.dumps(found, indent=1))
    return found


def words_7(asked: argparse.Namespace) -> str:
    skipped = f", but for {', '.join(asked.skip)}" if asked.skip else ""
    return (
        "Table 7: time per row with the defaults (`characteristic='auto'`, `gamma='auto'`), and with the paper's relaxed "
        "characteristic and γ = 0.01; all coalitions up to 12 columns and 2d + 2048 beyond; rows together as said, "
        f"shortest of {asked.repeats} (of fewer, where calls take longer than {LONG:g} s), detectors of a set in turns. "
        f"Detectors that were run: {', '.join(asked.detectors)}{skipped}."
    )


def write(found: dict[str, Any], asked: argparse.Namespace) -> None:
    words = {
        "times": words_7(asked),
        "shap": "Against shap.KernelExplainer: same mixture, same rows, as many coalitions; 1 and 8 reference rows.",
        "widths": "By number of columns: generated rows, mixture of two components, 20 rows together.",
        "many": "By number of rows explained together: thyroid, Gaussian mixture.",
    }
    tables = {part: pd.DataFrame(found[part]["lines"]) for part in words if part in found}
    parts = [
        (f"{words[p]} Measured on {found[p]['where']}.{CLOCKS[found[p]['clock']]}", table)
        for p, table in tables.items()
    ]
    if find_spec("matplotlib") and {"times", "widths", "many"} <= set(found):
        draw(tables["times"], tables["widths"], tables["many"])
    publish(
        "anomaly_shapley_speed", "Anomaly Shapley: time", parts, peers=("shap",) if "shap" in found else ()
    )


def main() -> None:
    asked = command_line()
    found: dict[str, Any] = {}
    for place in asked.kept or ():
        found |= json.loads(place.read_text())
    if not found:
        found = figures(asked)
    if not asked.save:
        write(found, asked)


if __name__ == "__main__":
    main()
