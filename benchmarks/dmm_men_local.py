"""Local explanations of images: what suffices and what is necessary, by LocalInsight, LIME and SHAP in one run."""

from __future__ import annotations

import argparse
import multiprocessing
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from _results import machine

from _dmm_men import N_SEGMENTS, Clock, Results, images, lime, probabilities, shap, trained
from _dmm_men_local_tables import report
from tellwhy.explainers import DMMMEN, LocalInsight
from tellwhy.explainers.surrogate.local.segments import neighbours

CHUNK = 10  # images
FIRST_IMAGE = 800  # earlier test images were looked at while the first version was written
COUNTS = (5, 10, 20)
MIXTURE = 6  # components of the mixture that is tried beside one: those of the published setting for MNIST
BLACK = {"replacement": 0.0, "n_segments": N_SEGMENTS, "n_jobs": 1}


def published(model: Any, X: np.ndarray, questions: int, seed: int) -> Any:
    """DMM-MEN with neighbours that keep three quarters of the segments, one component."""
    short = {"n_components": 1, "n_sweeps": 200, "n_burn": 100}
    explainer = DMMMEN(
        model, features="segments", n_neighbours=questions, random_state=seed, **short, **BLACK
    )
    return explainer.fit(X).explain(X)


METHODS: dict[str, Callable[..., Any]] = {
    "sufficiency": lambda m, X, q, s: (
        LocalInsight(m, n_questions=q, random_state=s, **BLACK).fit(X).explain(X)
    ),
    "necessity": lambda m, X, q, s: (
        LocalInsight(m, "necessity", n_questions=q, random_state=s, **BLACK).fit(X).explain(X)
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
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    return trained(name, Path(cache), device=device)[0]


def worth_of_segments(explanation: Any, X: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The value of each segment that is not black, and which segments these are."""
    found = []
    for values, label, x in zip(explanation.values, explanation.extras["segments"], X, strict=True):
        worth = np.bincount(label.ravel(), values.ravel())
        shown = np.flatnonzero(np.bincount(label.ravel(), (x != 0).ravel(), minlength=len(worth)))
        found.append((worth[shown], shown))
    return found


def changed(explanation: Any, X: np.ndarray, count: int, *, keep: bool) -> np.ndarray:
    """Images of which only the top segments are kept, or of which they are removed."""
    found = []
    for i, (worth, shown) in enumerate(worth_of_segments(explanation, X)):
        label = np.asarray(explanation.extras["segments"][i])
        top = shown[np.argsort(-worth, kind="stable")[:count]]
        mask = np.zeros(int(label.max()) + 1) if keep else np.ones(int(label.max()) + 1)
        mask[top] = 1.0 if keep else 0.0
        found.append(neighbours(X[i], np.zeros_like(X[i]), label, mask[None])[0])
    return np.array(found)


def judged(explanation: Any, model: Any, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Probability and decision for the network's own class and the true one, after keeping and removing."""
    ask = probabilities(model)
    own = ask(X).argmax(axis=1)
    rows = np.arange(len(X))
    found: dict[str, Any] = {}
    for way in ("keep", "remove"):
        for count in COUNTS:
            p = ask(changed(explanation, X, count, keep=way == "keep"))
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
    found = {**judged(explanation, model, X, y), **{k: v / len(X) for k, v in seconds.items()}}
    found["shown"] = [len(shown) for _, shown in worth_of_segments(explanation, X)]
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
    runs = []
    for seed in range(3):
        found = worth_of_segments(METHODS[method](model, X, questions, seed), X)
        runs.append([set(shown[np.argsort(-worth)[:10]].tolist()) for worth, shown in found])
    pairs = [(a, b) for one, two in combinations(runs, 2) for a, b in zip(one, two, strict=True)]
    return {"overlap": [len(a & b) / len(a) for a, b in pairs]}


def planned(settings: argparse.Namespace) -> list[tuple[str, Any, tuple[Any, ...]]]:
    """Pieces of work: chunk by chunk through the sets, so that a run that is cut off has some of each."""
    cache, device, questions = str(settings.cache), settings.device, settings.questions
    work = []
    few = set(settings.few)
    for start in range(FIRST_IMAGE, FIRST_IMAGE + settings.images, CHUNK):
        for name in settings.sets:
            for method in settings.methods:
                if method in few and start >= FIRST_IMAGE + settings.few_images:
                    continue
                key = f"local:{name}:{method}:{start:05d}"
                work.append((key, chunk, (name, cache, device, start, method, questions)))
            if start < FIRST_IMAGE + settings.stable:
                for method in ("sufficiency", "LIME"):
                    key = f"stability:{name}:{method}:{start:05d}"
                    work.append((key, stability, (name, cache, device, start, method, settings.default)))
    return work


def run(settings: argparse.Namespace, results: Results) -> None:
    clock, place = Clock(settings.minutes), machine()
    for name in settings.sets:
        right = trained(name, settings.cache, epochs=settings.epochs, device=settings.device)[1]
        results.add(f"network:{name}", right=right, machine=place, questions=settings.questions)
    # Compiled once here; the workers read it from the cache.
    chunk(settings.sets[0], str(settings.cache), settings.device, FIRST_IMAGE, "sufficiency", 64)
    waiting = [work for work in planned(settings) if work[0] not in results]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(settings.workers, mp_context=context) as pool:
        running: dict[Any, str] = {}
        while (waiting and not clock.is_over()) or running:
            while waiting and len(running) < settings.workers and not clock.is_over():
                key, function, arguments = waiting.pop(0)
                running[pool.submit(function, *arguments)] = key
            done = next(as_completed(running))
            key = running.pop(done)
            if failure := done.exception():
                print(f"{key} failed: {failure!r}", flush=True)
                continue
            results.add(key, machine=place, **done.result())
    print(f"{len(waiting)} pieces of work left for want of time", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("dmm-men-cache"), help="networks and results")
    parser.add_argument("--results", type=Path, help="file of results; by default local.jsonl in the cache")
    parser.add_argument("--sets", nargs="+", default=["mnist", "fashion", "cifar"])
    parser.add_argument(
        "--methods", nargs="+", default=["sufficiency", "necessity", "LIME", "SHAP", "mixture"]
    )
    parser.add_argument("--few", nargs="+", default=["mixture", "published"], help="methods of fewer images")
    parser.add_argument("--few-images", type=int, default=200)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--stable", type=int, default=50, help="images explained with three seeds")
    parser.add_argument("--questions", type=int, default=2048, help="to the network per image, every method")
    parser.add_argument("--default", type=int, default=4096, help="questions where stability is measured")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no new work after this time")
    parser.add_argument("--tables", action="store_true", help="write the page from stored results")
    parser.add_argument("--note", default="", help="a sentence on how the run was made, for the page")
    chosen = parser.parse_args()
    stored = Results(chosen.results or chosen.cache / "local.jsonl")
    if not chosen.tables:
        run(chosen, stored)
    report(stored, chosen.sets, note=chosen.note)


if __name__ == "__main__":
    main()
