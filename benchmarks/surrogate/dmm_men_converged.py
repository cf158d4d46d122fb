"""Do global fits of image classes converge: four chains that go on until they agree, or until a time limit.

Classes are fitted to `--rows` images and `--features` pixels, those of `--full mnist:3` to all; `--workers` fits run at
once, with `--threads` each. What a fit needs is written to the cache first, so that fits can run on a machine without
images. `--only-page` writes the page from stored results.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import machine, publish
from benchmarks.surrogate._tables import TITLES, converged_tables, fidelity_tables
from benchmarks.surrogate._work import KEPT, Clock, Results, Work, images, trained, work_off
from benchmarks.surrogate.dmm_men_images import class_fidelity, ready
from tellwhy.explainers import DMMMEN, PRESETS
from tellwhy.explainers.surrogate.chains import design, rank_r_hat
from tellwhy.explainers.surrogate.mixture import DIGITS, choose_columns
from tellwhy.explainers.surrogate.sampler import Posterior, Settings, sample
from tellwhy.scoring.class_scores import as_class_scores, as_outputs, learn_outputs

N_CHAINS = 4
ALL = 10**9  # rows
ABOUT = (
    f"Training images that the network puts into a class; {N_CHAINS} chains with the published setting (6 components of "
    "digits, 10 of the others), as many sweeps of annealed burn-in as of the first round, then rounds of growing length "
    "until the rank-normalised split-R̂ of what is reported (mean coefficients of the ten largest effects, which pixels "
    "these are) is at most 1.05, or until the time limit. Beside it, the largest R̂ of the 150 coefficients with the "
    "largest effects, and that of the rows' mean variance, which is not reported: it tells whether components still "
    "change. Pixels: those most correlated with the output. Effective draws: the fewest, of the bulk or of the "
    "tails. Splits and merges: accepted of tried. Shares of the components are sorted in every draw."
)


def warm() -> None:
    """Compile, or load what was compiled, before a clock runs."""
    X = np.random.default_rng(0).normal(size=(12, 2))
    DMMMEN(lambda X: X[:, 0], n_components=2, n_sweeps=8, n_burn=0).fit(X)


def path_of(cache: str, name: str, target: int, rows: int, features: int | None) -> Path:
    """File of what one class is fitted to."""
    return Path(cache) / f"{name}-{target}-{rows}-{features}.npz"


def prepare(
    name: str, settings: argparse.Namespace, *, targets: list[int], rows: int, features: int | None
) -> None:
    """Write what classes are fitted to, as `DMMMEN(network, features=…, scale="common")` chooses it.

    The rest of a fit needs neither images nor network, and may run on a machine that has none.
    """
    paths = {t: path_of(str(settings.cache), name, t, rows, features) for t in targets}
    if all(path.exists() for path in paths.values()):
        return
    model = ready(name, str(settings.cache), settings.device)
    X = images(name)[0]
    outputs = as_outputs(learn_outputs(as_class_scores(model), X[:2].astype(np.float64)))
    answers = np.concatenate([outputs.outputs(part.astype(np.float64)) for part in np.array_split(X, 60)])
    for target, path in paths.items():
        mine = np.flatnonzero(answers.argmax(axis=1) == target)[:rows]
        save_class(path, X[mine].reshape(len(mine), -1).astype(np.float64), answers[mine, target], features)


def save_class(path: Path, X: np.ndarray, y: np.ndarray, features: int | None) -> None:
    """Write the chosen pixels of one class, and the scaled outputs of its network."""
    scaled = np.round((y - y.mean()) / y.std(), DIGITS)
    columns = choose_columns(X, scaled, n_used=features, scale="common")
    np.savez_compressed(
        path,
        pixels=(255.0 * X[:, columns.used]).round().astype(np.uint8),
        y=scaled,
        used=columns.used,
        column_centre=columns.centre,
        column_unit=columns.unit,
        unit=y.std(),
        mean=X.mean(axis=0),
    )


def fit(
    name: str, cache: str, target: int, rows: int, features: int | None, how: dict[str, Any]
) -> dict[str, Any]:
    """Fit one class, and say how far its chains agree."""
    with np.load(path_of(cache, name, target, rows, features), allow_pickle=False) as stored:
        given = dict(stored)
    warm()
    preset = PRESETS["mnist" if name == "mnist" else "fashion-mnist"]
    X = (given["pixels"] / 255.0 - given["column_centre"]) / given["column_unit"]
    settings = Settings(
        preset["n_components"],
        preset["n_elastic_nets"],
        how["sweeps"],
        how["sweeps"],
        N_CHAINS,
        how["seconds"],
    )
    rng = np.random.default_rng(0).spawn(10)[target]  # as DMMMEN gives each class its own
    begin, busy = time.perf_counter(), time.process_time()
    posterior = sample(design(X, given["y"]), preset["priors"], settings, rng=rng, n_jobs=how["threads"])
    found = {"wall": time.perf_counter() - begin, "busy": time.process_time() - busy, "limit": how["seconds"]}
    return {**found, "rows": len(X), "threads": how["threads"], **told(posterior, given)}


def told(posterior: Posterior, given: dict[str, np.ndarray]) -> dict[str, Any]:
    """What is reported of a fit, and how far its chains agree on it."""
    agreement = posterior.convergence
    J = posterior.coef.shape[1]
    shares = np.array([(posterior.z == j).mean(axis=1) for j in range(J)]).T
    slopes = np.einsum("dj,djk->dk", shares, posterior.coef)[:, 1:] * (given["unit"] / given["column_unit"])
    mean = slopes.mean(axis=0)
    top = np.argsort(-np.abs(mean * given["pixels"].std(axis=0)))[:150]
    coefficients = np.zeros(given["mean"].size)
    coefficients[given["used"]] = mean
    return {
        "pixels": len(given["used"]),
        "r_hat": agreement.worst_r_hat,
        "r_hats": agreement.r_hat,
        "ess": agreement.least_ess,
        "ended": agreement.ended,
        "moves": posterior.moves.tolist(),
        "r_hat_150": float(rank_r_hat(posterior.by_chain(slopes[:, top])).max()),
        "shares": np.sort(shares, axis=1)[:, ::-1].mean(axis=0).round(3).tolist(),
        "coefficients": coefficients.round(5).tolist(),
        "centre": given["mean"].round(5).tolist(),
    }


def planned(settings: argparse.Namespace) -> list[Work]:
    """Fits of single classes with all rows first: they take longest."""
    cache = str(settings.cache)
    how = {"sweeps": settings.sweeps, "seconds": settings.seconds, "threads": settings.threads}
    work: list[Work] = []
    for one in settings.full:
        name, _, target = one.partition(":")
        work.append((f"full:{one}", fit, (name, cache, int(target), ALL, None, how)))
    for name in settings.sets:
        for target in settings.classes:
            asked = (name, cache, target, settings.rows, settings.features, how)
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
        prepare(name, settings, targets=settings.classes, rows=settings.rows, features=settings.features)
    for one in settings.full:
        name, _, target = one.partition(":")
        prepare(name, settings, targets=[int(target)], rows=ALL, features=None)
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
    right = {name: trained(name, settings.cache)[1] for name in settings.sets}
    networks = ", ".join(f"{TITLES[name]} {100 * accuracy:.1f} %" for name, accuracy in right.items())
    about = f"{ABOUT} Test accuracy of the networks: {networks}."
    lacking = [TITLES[name] for name in settings.sets if not list(results.starting(f"fidelity:{name}:"))]
    if lacking:
        about += f" Fidelity of converged fits has not been measured for {' and '.join(lacking)}."
    parts = converged_tables(results, about=about)
    for name in settings.sets:
        parts += fidelity_tables(results, name, stem="dmm-men-converged")
    publish("dmm_men_converged", "DMM-MEN: do global fits converge?", parts, peers=("torch",))


def main() -> None:
    chosen = arguments(
        __doc__,
        "only_page",
        "workers",
        "device",
        "minutes",
        sets=option(["mnist", "fashion", "cifar"], nargs="*"),
        classes=option(list(range(10)), nargs="*"),
        full=option([], "classes fitted with all images, as mnist:3", nargs="*"),
        rows=option(1_000, "the most images of a class"),
        features=option(200, "the most pixels, those most correlated with the output"),
        sweeps=option(200, "of burn-in, and of the first round"),
        seconds=300.0,
        threads=option(2, "that run the chains of one fit"),
        bootstraps=option(50, "of fidelity; 0: fits only"),
        **KEPT,
    )
    stored = Results(chosen.results or chosen.cache / "converged.jsonl")
    if not chosen.only_page:
        run(chosen, stored)
    report(stored, chosen)


if __name__ == "__main__":
    main()
