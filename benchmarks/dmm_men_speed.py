"""Time of DMM-MEN (one local explanation, one class of MNIST, scaling in n, p and J) and stability between seeds."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import torch
from _results import publish

from _dmm_men import N_SEGMENTS, SAMPLES, Results, images, lime, trained
from tellwhy.core.explanation import Explanation
from tellwhy.explainers import DMMMEN, PRESETS, Priors
from tellwhy.explainers.surrogate.sampler import Settings, design, sample

mpl.use("Agg")
FIGURE = Path(__file__).parent.parent / "docs" / "images" / "dmm-men-scaling.png"
LOCAL = {"n_components": 3, "n_sweeps": 200, "n_burn": 300, "gating": "gaussian"}
SIZES = {"n": (250, 500, 1000, 2000, 4000), "p": (25, 50, 100, 200, 400), "J": (1, 2, 5, 10, 20)}
USUAL = {"n": 1000, "p": 50, "J": 5}


def seconds_of(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def busy_seconds_of(work: Callable[[], Any]) -> float:
    """Time that the processor worked, whatever else the machine was doing."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def local_explainer(model: Any, seed: int, n_neighbours: int = SAMPLES) -> DMMMEN:
    return DMMMEN(
        model,
        features="segments",
        background=0.0,
        n_segments=N_SEGMENTS,
        n_neighbours=n_neighbours,
        random_state=seed,
        **LOCAL,
    )


def local_seconds(model: Any, X: np.ndarray, results: Results) -> None:
    if "local" in results:
        return
    explainer = local_explainer(model, 0).fit(X)
    explainer.explain(X[:1])
    mine = [seconds_of(lambda row=row: explainer.explain(row[None])) for row in X]
    busy = [busy_seconds_of(lambda row=row: explainer.explain(row[None])) for row in X]
    theirs = [seconds_of(lambda row=row: lime(model, row[None])) for row in X]
    results.add(
        "local",
        mine=float(np.median(mine)),
        slowest=float(max(mine)),
        lime=float(np.median(theirs)),
        busy=float(np.median(busy)),
    )


def global_seconds(model: Any, results: Results, sweeps: int) -> None:
    if "global" in results:
        return
    X = images("mnist")[0]
    with torch.no_grad():
        chosen = np.concatenate([model(torch.as_tensor(x)).argmax(1).numpy() for x in np.array_split(X, 60)])
    mine = X[chosen == 3].astype(np.float64)
    explainer = DMMMEN(model, scale="common", n_sweeps=sweeps, n_burn=sweeps, **PRESETS["mnist"])
    begin = time.process_time()
    seconds = seconds_of(lambda: explainer.fit(mine))
    busy = time.process_time() - begin
    agreement = explainer.convergence_["3"]
    results.add("global", seconds=seconds, busy=busy, rows=len(mine), sweeps=2 * sweeps, r_hat=agreement.worst_r_hat)


def scaling(results: Results) -> None:
    """Processor seconds of 100 sweeps of one chain, the first of which move most rows."""
    sample(design(np.eye(4), np.arange(4.0)), Priors(), Settings(n_sweeps=8, n_burn=1), rng=np.random.default_rng(0))
    for name, sizes in SIZES.items():
        for size in sizes:
            key = f"scaling:{name}:{size:05d}"
            if key in results:
                continue
            at = {**USUAL, name: size}
            rng = np.random.default_rng(0)
            X = rng.normal(size=(at["n"], at["p"]))
            z = rng.integers(3, size=at["n"])
            y = (X * rng.normal(size=(3, at["p"]))[z]).sum(axis=1)
            data = design(X, (y - y.mean()) / y.std())
            settings = Settings(at["J"], 3, n_sweeps=60, n_burn=40, n_chains=1)
            seconds = busy_seconds_of(lambda d=data, s=settings, r=rng: sample(d, Priors(), s, rng=r, n_jobs=1))
            results.add(key, parameter=name, size=size, seconds=seconds)


def top_segments(explanation: Explanation, k: int = 10) -> list[set[int]]:
    found = []
    for values, label in zip(explanation.values, explanation.extras["segments"], strict=True):
        worth = np.bincount(label.ravel(), values.ravel())
        found.append(set(np.argsort(-worth)[:k].tolist()))
    return found


def overlap(runs: list[list[set[int]]], k: int = 10) -> float:
    """Mean share of the top k that two seeds have in common."""
    return float(np.mean([len(a & b) / k for one, two in combinations(runs, 2) for a, b in zip(one, two, strict=True)]))


def stability(model: Any, X: np.ndarray, results: Results, seeds: int) -> None:
    for questions in (SAMPLES, 4 * SAMPLES):
        key = f"stability:{questions}"
        if key in results:
            continue
        mine = [top_segments(local_explainer(model, s, questions).fit(X).explain(X)) for s in range(seeds)]
        import _dmm_men

        _dmm_men.SAMPLES = questions
        theirs = [top_segments(lime(model, X, seed=s)) for s in range(seeds)]
        _dmm_men.SAMPLES = SAMPLES
        results.add(key, questions=questions, mine=overlap(mine), lime=overlap(theirs), images=len(X), seeds=seeds)


def draw(results: Results) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(9, 2.8), sharey=True)
    for axis, name in zip(axes, SIZES, strict=True):
        lines = list(results.starting(f"scaling:{name}:"))
        axis.loglog([line["size"] for line in lines], [10 * line["seconds"] for line in lines], "o-", color="#c65307")
        axis.set_xlabel({"n": "rows n", "p": "columns p", "J": "components J"}[name])
        axis.set_xticks(SIZES[name], [str(size) for size in SIZES[name]])
        axis.set_yticks([0.2, 0.5, 1, 2, 5], ["0.2", "0.5", "1", "2", "5"])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("ms a sweep")
    figure.tight_layout()
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=130)


def report(results: Results) -> None:
    local, fit = results.found["local"], results.found["global"]
    times = pd.DataFrame(
        [
            ("one local explanation, median (slowest)", f"{local['mine']:.2f} s ({local['slowest']:.2f})", "37.5 s"),
            ("the same, processor time of both chains", f"{local['busy']:.2f} s", ""),
            ("the same by LIME, as many questions", f"{local['lime']:.2f} s", ""),
            (
                f"one class, {fit['rows']} images, {fit['sweeps']} sweeps",
                f"{fit['seconds']:.0f} s",
                "105 min (its fit)",
            ),
        ],
        columns=["MNIST", "here", "published"],
    )
    scale = pd.DataFrame(
        [
            {"varied": line["parameter"], "value": line["size"], "ms a sweep": 10 * line["seconds"]}
            for line in results.starting("scaling:")
        ]
    )
    stable = pd.DataFrame(
        [
            {
                "questions to the network": line["questions"],
                "DMM-MEN": line["mine"],
                "LIME": line["lime"],
                "images": line["images"],
                "seeds": line["seeds"],
            }
            for line in results.starting("stability:")
        ]
    )
    publish(
        "dmm_men_speed",
        "DMM-MEN: time and stability",
        [
            (f"Two chains in two threads; local: {SAMPLES} neighbours, about {N_SEGMENTS} segments, {LOCAL}.", times),
            (f"One chain, processor time, otherwise n = {USUAL['n']}, p = {USUAL['p']}, J = {USUAL['J']}.", scale),
            (
                "Share of the top 10 segments that two seeds have in common (mean over images and pairs of seeds).",
                stable,
            ),
        ],
        peers=("torch",),
    )
    draw(results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("dmm-men-cache"), help="networks and results")
    parser.add_argument("--images", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sweeps", type=int, default=250)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    network, _ = trained("mnist", chosen.cache)
    rows = images("mnist")[2][200 : 200 + chosen.images].astype(np.float64)
    stored = Results(chosen.cache / "speed.jsonl")
    scaling(stored)
    local_seconds(network, rows, stored)
    stability(network, rows, stored, chosen.seeds)
    global_seconds(network, stored, chosen.sweeps)
    report(stored)
