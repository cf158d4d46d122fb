"""Time of DMM-MEN: one local explanation, one class of MNIST, scaling in n, p and J."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.places import IMAGES
from benchmarks.shared.results import publish
from benchmarks.surrogate._work import KEPT, LOCAL, N_SEGMENTS, SAMPLES, Results, images, lime, trained
from tellwhy.explainers import DMMMEN, PRESETS, Priors
from tellwhy.explainers.surrogate.chains import design
from tellwhy.explainers.surrogate.sampler import Settings, sample

FIGURE = IMAGES / "dmm-men-scaling.png"
QUESTIONS = (SAMPLES, 4 * SAMPLES, 8 * SAMPLES)
CLASS = 3  # the digit whose images the global fit takes
SIZES = {"n": (250, 500, 1000, 2000, 4000), "p": (25, 50, 100, 200, 400), "J": (1, 2, 5, 10, 20)}
USUAL = {"n": 1000, "p": 50, "J": 5}
N_SWEEPS = 100  # of the fits that show scaling


def seconds_of(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds on the clock, and seconds that the processor worked, whatever else the machine was doing."""
    wall, busy = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - busy


def local_explainer(model: Any, seed: int, n_neighbours: int) -> DMMMEN:
    return DMMMEN(
        model,
        features="segments",
        baseline=0.0,
        n_segments=N_SEGMENTS,
        n_neighbors=n_neighbours,
        random_state=seed,
        **LOCAL,
    )


def local_seconds(model: Any, X: np.ndarray, results: Results) -> None:
    """Explain images one by one, with each number of questions."""
    for questions in QUESTIONS:
        key = f"local:{questions:05d}"
        if key in results:
            continue
        explainer = local_explainer(model, 0, questions).fit(X)
        explainer.explain(X[:1])
        mine = np.array([seconds_of(lambda row=row, e=explainer: e.explain(row[None])) for row in X])
        theirs = np.array(
            [seconds_of(lambda row=row, q=questions: lime(model, row[None], samples=q)) for row in X]
        )
        (wall, busy), (slowest, _) = np.median(mine, axis=0), mine.max(axis=0)
        lime_wall, lime_busy = np.median(theirs, axis=0)
        numbers = {
            "wall": wall,
            "slowest": slowest,
            "busy": busy,
            "lime_wall": lime_wall,
            "lime_busy": lime_busy,
        }
        results.add(key, questions=questions, **{name: float(value) for name, value in numbers.items()})


def global_seconds(model: Any, results: Results, sweeps: int) -> None:
    if "global" in results:
        return
    X = images("mnist")[0]
    with torch.no_grad():
        chosen = np.concatenate([model(torch.as_tensor(x)).argmax(1).numpy() for x in np.array_split(X, 60)])
    mine = X[chosen == CLASS].astype(np.float64)
    explainer = DMMMEN(model, scale="common", n_sweeps=sweeps, n_burn=sweeps, **PRESETS["mnist"])
    wall, busy = seconds_of(lambda: explainer.fit(mine))
    agreement = explainer.convergence_[str(CLASS)]
    columns = len(explainer.surrogates_[CLASS].columns.used)
    numbers = {"rows": len(mine), "columns": columns, "sweeps": 2 * sweeps, "r_hat": agreement.worst_r_hat}
    results.add("global", wall=wall, busy=busy, **numbers)


def scaling(results: Results) -> None:
    """Processor time of a sweep of one chain, over a whole short fit: its first sweeps move most rows."""
    sample(
        design(np.eye(4), np.arange(4.0)),
        Priors(),
        Settings(n_sweeps=8, n_burn=1),
        rng=np.random.default_rng(0),
    )
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
            settings = Settings(at["J"], 3, n_sweeps=N_SWEEPS // 2, n_burn=N_SWEEPS // 2, n_chains=1)
            _, busy = seconds_of(lambda d=data, s=settings, r=rng: sample(d, Priors(), s, rng=r, n_jobs=1))
            results.add(key, parameter=name, size=size, milliseconds=1_000.0 * busy / N_SWEEPS)


def time_table(results: Results) -> pd.DataFrame:
    columns = ["MNIST", "wall s", "processor s", "LIME, wall s", "LIME, processor s", "published"]
    lines: list[tuple[Any, ...]] = [
        (
            f"one local explanation, {line['questions']} questions (slowest)",
            f"{line['wall']:.2f} ({line['slowest']:.2f})",
            f"{line['busy']:.2f}",
            f"{line['lime_wall']:.2f}",
            f"{line['lime_busy']:.2f}",
            "37.5 s",
        )
        for line in results.starting("local:")
    ]
    if "global" in results:
        fit = results.found["global"]
        what = f"digit {CLASS}: {fit['rows']} images, {fit['columns']} pixels, {fit['sweeps']} sweeps"
        lines.append((what, f"{fit['wall']:.0f}", f"{fit['busy']:.0f}", "", "", "105 min (its fit)"))
    return pd.DataFrame(lines, columns=columns)


def report(results: Results) -> None:
    lines = results.starting("scaling:")
    scale = pd.DataFrame(
        [{"varied": x["parameter"], "value": x["size"], "ms a sweep": x["milliseconds"]} for x in lines]
    )
    agreement = f" (R̂ {results.found['global']['r_hat']:.2f})" if "global" in results else ""
    publish(
        "dmm_men_speed",
        "DMM-MEN: time",
        [
            (
                f"Two chains in two threads. Local: medians over images, about {N_SEGMENTS} segments, {LOCAL}. Global: "
                f"one class, half of the sweeps burn-in{agreement}.",
                time_table(results),
            ),
            (
                f"One chain, processor time, otherwise n = {USUAL['n']}, p = {USUAL['p']}, J = {USUAL['J']} "
                "([picture](../images/dmm-men-scaling.png)).",
                scale,
            ),
        ],
        peers=("torch",),
    )


def draw(results: Results) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(9, 2.8), sharey=True)
    for axis, name in zip(axes, SIZES, strict=True):
        lines = list(results.starting(f"scaling:{name}:"))
        axis.loglog(
            [line["size"] for line in lines], [line["milliseconds"] for line in lines], "o-", color="#c65307"
        )
        axis.set_xlabel({"n": "rows n", "p": "columns p", "J": "components J"}[name])
        axis.set_xticks(SIZES[name], [str(size) for size in SIZES[name]])
        axis.set_yticks([0.2, 0.5, 1, 2, 5, 10], ["0.2", "0.5", "1", "2", "5", "10"])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("ms a sweep")
    figure.tight_layout()
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=130)


if __name__ == "__main__":
    chosen = arguments(
        __doc__,
        "only_page",
        images=30,
        sweeps=option(500, "burn-in of the global fit, and as many more"),
        **KEPT,
    )
    warnings.simplefilter("ignore")
    stored = Results(chosen.results or chosen.cache / "speed.jsonl")
    if not chosen.only_page:
        torch.set_num_threads(1)
        network, _ = trained("mnist", chosen.cache)
        rows = images("mnist")[2][200 : 200 + chosen.images].astype(np.float64)
        scaling(stored)
        local_seconds(network, rows, stored)
        global_seconds(network, stored, chosen.sweeps)
    report(stored)
    draw(stored)
