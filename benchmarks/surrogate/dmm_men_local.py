"""Local explanations of images: what suffices and what is necessary, by LocalInsight, LIME and SHAP in one run."""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import machine
from benchmarks.surrogate._local_tables import report
from benchmarks.surrogate._work import (
    KEPT,
    N_SEGMENTS,
    Clock,
    Results,
    Work,
    images,
    lime,
    probabilities,
    shap,
    trained,
    work_off,
)
from tellwhy.data.pieces import neighbours
from tellwhy.explainers import DMMMEN, LocalInsight

CHUNK = 10  # images
FIRST_IMAGE = 800  # earlier test images were looked at while the first version was written
COUNTS = (5, 10, 20)
SEEDS = 5  # explanations of an image whose first segments are compared
MIXTURE = 6  # components of the mixture that is tried beside one: those of the published setting for MNIST
BLACK = {"baseline": 0.0, "n_segments": N_SEGMENTS, "n_jobs": 1}


def published(model: Any, X: np.ndarray, questions: int, seed: int) -> Any:
    """DMM-MEN with neighbours that keep three quarters of the segments, one component."""
    short = {"n_components": 1, "n_sweeps": 200, "n_burn": 100}
    explainer = DMMMEN(model, features="segments", n_neighbors=questions, random_state=seed, **short, **BLACK)
    return explainer.fit(X).explain(X)


METHODS: dict[str, Callable[..., Any]] = {
    "sufficiency": lambda m, X, q, s: (
        LocalInsight(m, n_questions=q, random_state=s, **BLACK).fit(X).explain(X)
    ),
    "necessity": lambda m, X, q, s: (
        LocalInsight(m, "necessity", n_questions=q, random_state=s, **BLACK).fit(X).explain(X)
    ),
    "drawn": lambda m, X, q, s: (
        LocalInsight(m, n_questions=q, design="drawn", random_state=s, **BLACK).fit(X).explain(X)
    ),
    "mixture": lambda m, X, q, s: (
        LocalInsight(m, n_questions=q, n_components=MIXTURE, random_state=s, **BLACK).fit(X).explain(X)
    ),
    "published": published,
    "LIME": lambda m, X, q, s: lime(m, X, seed=s, samples=q),
    "SHAP": lambda m, X, q, s: shap(m, X, seed=s, samples=q),
}


def ready(name: str, cache: str, device: str) -> Any:
    """Set up a worker, and return its network."""
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # answers must not depend on what else is in a batch
    warnings.simplefilter("ignore")
    return trained(name, Path(cache), device=device)[0]


def orders_of(explanation: Any, X: np.ndarray, by: str) -> list[np.ndarray]:
    """Segments of each image that are not black, the first first: by their values, or by their place."""
    found = []
    for i, (x, label) in enumerate(zip(X, explanation.extras["segments"], strict=True)):
        if by == "values":
            worth = np.bincount(label.ravel(), explanation.values[i].ravel())
        else:
            worth = np.zeros(int(label.max()) + 1)
            worth[label.ravel()] = -explanation.extras["place"][i].ravel()
        shown = np.flatnonzero(np.bincount(label.ravel(), (x != 0).ravel(), minlength=len(worth)))
        found.append(shown[np.argsort(-worth[shown], kind="stable")])
    return found


def ways_of(explanation: Any) -> tuple[str, ...]:
    """How an explanation orders segments; the first is the one that is compared with other methods."""
    return ("place", "values") if "place" in explanation.extras else ("values",)


def changed(explanation: Any, X: np.ndarray, count: int, *, keep: bool, by: str) -> np.ndarray:
    """Images of which only the top segments are kept, or of which they are removed."""
    found = []
    for i, order in enumerate(orders_of(explanation, X, by)):
        label = np.asarray(explanation.extras["segments"][i])
        mask = np.zeros(int(label.max()) + 1) if keep else np.ones(int(label.max()) + 1)
        mask[order[:count]] = 1.0 if keep else 0.0
        found.append(neighbours(X[i], np.zeros_like(X[i]), label, mask[None])[0])
    return np.array(found)


def judged(explanation: Any, model: Any, X: np.ndarray, y: np.ndarray, by: str) -> dict[str, Any]:
    """Probability and decision for the network's own class and the true one, after keeping and removing."""
    ask = probabilities(model)
    own = ask(X).argmax(axis=1)
    rows = np.arange(len(X))
    found: dict[str, Any] = {}
    for way in ("keep", "remove"):
        for count in COUNTS:
            p = ask(changed(explanation, X, count, keep=way == "keep", by=by))
            found[f"{way}:{count}"] = {
                "own": p[rows, own].round(6).tolist(),
                "own_right": (p.argmax(axis=1) == own).astype(int).tolist(),
                "true": p[rows, y].round(6).tolist(),
                "true_right": (p.argmax(axis=1) == y).astype(int).tolist(),
            }
    return found


def chunk(name: str, cache: str, device: str, start: int, method: str, questions: int) -> dict[str, Any]:
    """One chunk of test images by one method."""
    model = ready(name, cache, device)
    X = images(name)[2][start : start + CHUNK].astype(np.float64)
    y = images(name)[3][start : start + CHUNK]
    begin, busy = time.perf_counter(), time.process_time()
    explanation = METHODS[method](model, X, questions, 0)
    seconds = {"wall": time.perf_counter() - begin, "busy": time.process_time() - busy}
    ways = ways_of(explanation)
    found = {**judged(explanation, model, X, y, ways[0]), **{k: v / len(X) for k, v in seconds.items()}}
    if len(ways) > 1:
        found["by_values"] = judged(explanation, model, X, y, "values")
    found["shown"] = [len(order) for order in orders_of(explanation, X, "values")]
    p = probabilities(model)(X)
    found["whole"] = p.max(axis=1).round(6).tolist()
    found["whole_right"] = (p.argmax(axis=1) == y).astype(int).tolist()
    for extra in ("chosen_holds", "n_questions", "r_hat"):
        if extra in explanation.extras:
            found[extra] = np.asarray(explanation.extras[extra]).round(4).tolist()
    return found


def stability(name: str, cache: str, device: str, start: int, method: str, questions: int) -> dict[str, Any]:
    """Share of the ten segments ranked first that two seeds have in common, of those that are not black."""
    model = ready(name, cache, device)
    X = images(name)[2][start : start + CHUNK].astype(np.float64)
    runs = [METHODS[method](model, X, questions, seed) for seed in range(SEEDS)]
    found: dict[str, Any] = {}
    for by in ways_of(runs[0]):
        firsts = [[set(order[:10].tolist()) for order in orders_of(run, X, by)] for run in runs]
        pairs = [pair for one, two in combinations(firsts, 2) for pair in zip(one, two, strict=True)]
        same = np.array([len(a & b) / len(a) for a, b in pairs]).reshape(-1, len(X))
        found[by] = same.mean(axis=0).round(6).tolist()  # one number an image: its pairs are not independent
    return found


def alone(name: str, cache: str, n_images: int, questions: int) -> dict[str, Any]:
    """Seconds of one explanation after the other, on two cores, without a GPU."""
    model = ready(name, cache, "cpu")
    torch.set_num_threads(2)
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(cores)[:2]))
    X = images(name)[2][FIRST_IMAGE : FIRST_IMAGE + n_images].astype(np.float64)
    explainer = LocalInsight(model, n_questions=questions, **{**BLACK, "n_jobs": 2}).fit(X)
    ways: dict[str, Callable[[np.ndarray], Any]] = {
        "LocalInsight": explainer.explain,
        "LIME": lambda x: lime(model, x, samples=questions),
    }
    found: dict[str, Any] = {"questions": questions}
    for method, way in ways.items():
        way(X[:1])  # what is compiled or imported is read before the clock starts
        found[method], found[f"{method}, busy"] = [], []
        for x in X:
            begin, busy = time.perf_counter(), time.process_time()
            way(x[None])
            found[method].append(round(time.perf_counter() - begin, 4))
            found[f"{method}, busy"].append(round(time.process_time() - busy, 4))
    torch.set_num_threads(1)
    os.sched_setaffinity(0, cores)  # the process goes on with other work
    return found


def planned(settings: argparse.Namespace) -> list[Work]:
    """Pieces of work: chunk by chunk through the sets, so that a run that is cut off has some of each."""
    cache, device, questions = str(settings.cache), settings.device, settings.questions
    work: list[Work] = []
    few = set(settings.few)
    if settings.alone:
        timed = (settings.alone, settings.default)
        work += [(f"alone:{name}", alone, (name, cache, *timed)) for name in settings.sets]
    first = settings.first
    for start in range(first, first + settings.images, CHUNK):
        for name in settings.sets:
            for method in settings.methods:
                if method in few and start >= first + settings.few_images:
                    continue
                key = f"local:{name}:{method}:{start:05d}"
                work.append((key, chunk, (name, cache, device, start, method, questions)))
            if start < first + settings.stable:
                for method in ("sufficiency", "drawn", "LIME"):
                    key = f"stability:{name}:{method}:{start:05d}"
                    work.append((key, stability, (name, cache, device, start, method, settings.default)))
    return work


def run(settings: argparse.Namespace, results: Results) -> None:
    clock, place = Clock(settings.minutes), machine()
    for name in settings.sets:
        right = trained(name, settings.cache, epochs=settings.epochs, device=settings.device)[1]
        if f"network:{name}" not in results:
            results.add(f"network:{name}", right=right, machine=place, questions=settings.questions)
    # Compiled once here; the workers read it from the cache.
    chunk(settings.sets[0], str(settings.cache), settings.device, FIRST_IMAGE, "sufficiency", 64)
    waiting = [work for work in planned(settings) if work[0] not in results]
    left = work_off(waiting, results, clock, workers=settings.workers, place=place)
    print(f"{left} pieces of work left for want of time", flush=True)


def main() -> None:
    chosen = arguments(
        __doc__,
        "only_page",
        "device",
        "minutes",
        "note",
        sets=["mnist", "fashion", "cifar"],
        methods=["sufficiency", "necessity", "LIME", "SHAP", "mixture"],
        few=option(["mixture", "published"], "methods of fewer images"),
        few_images=200,
        images=1_000,
        first=option(FIRST_IMAGE, "number of the first test image"),
        stable=option(100, "images explained with five seeds"),
        alone=option(5, "images explained one by one, with a clock"),
        questions=option(4096, "to the network per image, every method"),
        default=option(4096, "questions where stability is measured"),
        epochs=int,
        workers=2,
        **KEPT,
    )
    stored = Results(chosen.results or chosen.cache / "local.jsonl")
    if not chosen.only_page:
        run(chosen, stored)
    report(stored, chosen.sets, note=chosen.note)


if __name__ == "__main__":
    main()
