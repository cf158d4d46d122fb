"""Do global fits of image classes converge: four chains that go on until they agree, or until a time limit.

`--full mnist:3` fits a class with all of its images in two threads, for its time; the others take `--rows` images in
one thread each, in `--workers` processes. `--tables` writes the page from stored results.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from _results import machine, publish

from _dmm_men import Clock, Results, Work, images, probabilities, trained, work_off
from _dmm_men_tables import converged_tables, fidelity_tables
from dmm_men_images import class_fidelity, ready
from tellwhy.explainers import DMMMEN, PRESETS

N_CHAINS = 4
ALL = 10**9  # rows
ABOUT = (
    f"Training images that the network puts into a class; {N_CHAINS} chains with the published setting, rounds of growing "
    "length until the rank-normalised split-R̂ of what is reported (the ten largest effects, which pixels these are, the "
    "mean variance) is at most 1.05, or until the time limit. R̂ of the 150 main coefficients is that of the insight into "
    "the class as a whole. Effective draws: the fewest, of the bulk or of the tails. Splits and merges: accepted of tried. "
    "Fits with all images of a class ran in two threads, the others in one, with as many images and pixels as the table "
    "says (the pixels most correlated with the output): the machine's time was shared, so that seconds of processor time, "
    "and not those on the wall, tell what a fit costs."
)


def warm() -> None:
    """Compile, or load what was compiled, before a clock runs."""
    X = np.random.default_rng(0).normal(size=(12, 2))
    DMMMEN(lambda X: X[:, 0], n_components=2, n_sweeps=8, n_burn=0).fit(X)


def fit(
    name: str, cache: str, target: int, rows: int, features: int | None, sweeps: int, seconds: float
) -> dict[str, Any]:
    """Fit one class, and say how far its chains agree; with all rows in two threads."""
    model = ready(name, cache, "cpu")
    warm()
    X = images(name)[0]
    ask = probabilities(model)
    chosen = np.concatenate([ask(part).argmax(axis=1) for part in np.array_split(X, 60)])
    mine = X[chosen == target][:rows].astype(np.float64)
    explainer = DMMMEN(
        model,
        scale="common",
        features=features,
        n_sweeps=sweeps,
        n_burn=sweeps,
        n_chains=N_CHAINS,
        max_seconds=seconds,
        n_jobs=2 if rows == ALL else 1,
        **PRESETS["mnist" if name == "mnist" else "fashion-mnist"],
    )
    begin, busy = time.perf_counter(), time.process_time()
    explainer.fit(mine)
    found = {"wall": time.perf_counter() - begin, "busy": time.process_time() - busy, "limit": seconds}
    return {**found, "rows": len(mine), **told(explainer, target)}


def told(explainer: DMMMEN, target: int) -> dict[str, Any]:
    """What is reported of a fit, and how far its chains agree on it."""
    posterior = explainer.surrogates_[target].posterior
    agreement = posterior.convergence
    whole = explainer.insights(150, per="target")[0]
    return {
        "pixels": len(explainer.surrogates_[target].columns.used),
        "r_hat": agreement.worst_r_hat,
        "r_hats": agreement.r_hat,
        "ess": agreement.least_ess,
        "ended": agreement.ended,
        "moves": posterior.moves.tolist(),
        "r_hat_150": whole.r_hat,
        "shares": [round(part.share, 3) for part in explainer.insights(10)],
        "coefficients": whole.coefficients.round(5).ravel().tolist(),
        "centre": whole.centre.round(5).ravel().tolist(),
    }


def planned(settings: argparse.Namespace) -> list[Work]:
    """Fits of single classes with all rows first: they take longest."""
    cache, sweeps = str(settings.cache), settings.sweeps
    work: list[Work] = []
    for one in settings.full:
        name, _, target = one.partition(":")
        asked = (name, cache, int(target), ALL, None, sweeps, settings.full_seconds)
        work.append((f"full:{one}", fit, asked))
    for name in settings.sets:
        for target in settings.classes:
            asked = (name, cache, target, settings.rows, settings.features, sweeps, settings.seconds)
            work.append((f"global:{name}:{target}", fit, asked))
    return work


def measured_after(settings: argparse.Namespace, results: Results, key: str) -> list[Work]:
    """The fidelity of a fitted class."""
    after = "fidelity" + key.removeprefix("global")
    if not settings.bootstraps or not key.startswith("global:") or after in results:
        return []
    numbers = {name: results.found[key][name] for name in ("coefficients", "centre")}
    asked = (key, str(settings.cache), settings.device, numbers, settings.bootstraps)
    return [(after, class_fidelity, asked)]


def run(settings: argparse.Namespace, results: Results) -> None:
    for name in settings.sets:
        trained(name, settings.cache, device=settings.device)
    waiting = [work for work in planned(settings) if work[0] not in results]
    for line in results.starting("global:"):
        waiting += measured_after(settings, results, line["key"])
    left = work_off(
        waiting,
        results,
        Clock(settings.minutes),
        workers=settings.workers,
        place=machine(),
        after=lambda key: measured_after(settings, results, key),
    )
    print(f"{left} pieces of work left for want of time", flush=True)


def report(results: Results, settings: argparse.Namespace) -> None:
    """Write the page."""
    parts = converged_tables(results, about=ABOUT)
    for name in settings.sets:
        parts += fidelity_tables(results, name, stem="dmm-men-converged")
    publish("dmm_men_converged", "DMM-MEN: do global fits converge?", parts, peers=("torch",))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("dmm-men-cache"), help="networks and results")
    parser.add_argument(
        "--results", type=Path, help="file of results; by default converged.jsonl in the cache"
    )
    parser.add_argument("--sets", nargs="*", default=["mnist", "fashion", "cifar"])
    parser.add_argument("--classes", nargs="*", type=int, default=list(range(10)))
    parser.add_argument("--full", nargs="*", default=[], help="classes fitted with all images, as mnist:3")
    parser.add_argument("--rows", type=int, default=1500, help="the most images of a class")
    parser.add_argument("--features", type=int, help="the most pixels, those most correlated with the output")
    parser.add_argument("--sweeps", type=int, default=200, help="of burn-in, and of the first round")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--full-seconds", type=float, default=300.0)
    parser.add_argument("--bootstraps", type=int, default=50, help="of fidelity; 0: fits only")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="where fidelity is measured")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no new work after this time")
    parser.add_argument("--tables", action="store_true", help="write the page from stored results")
    chosen = parser.parse_args()
    stored = Results(chosen.results or chosen.cache / "converged.jsonl")
    if not chosen.tables:
        run(chosen, stored)
    report(stored, chosen)


if __name__ == "__main__":
    main()
