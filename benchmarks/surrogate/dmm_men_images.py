"""DMM-MEN on images: keep the top segments (with LIME and SHAP), and the fidelity of what it says was learned."""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import machine, publish
from benchmarks.surrogate._tables import few_kept_tables, fidelity_tables, segment_tables, stability_tables
from benchmarks.surrogate._work import (
    KEPT,
    LOCAL,
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
from tellwhy.evaluation import fidelity, keep_top
from tellwhy.explainers import DMMMEN, PRESETS

LOOKED_AT = 800  # earlier test images were looked at while the code was written: they are left out
CHUNK = 20
QUESTIONS = 4096  # to the network per explanation, for every method
STABILITY = (512, 1024, 2048, 4096)
SEEDS = 3
TOP = {"mnist": 20, "fashion": 20, "cifar": 10}
ABOUT = (
    f"Keep the top segments (of about {N_SEGMENTS}; the top 20, of CIFAR-10 the top 10), the rest black: mean "
    "probability of the network's own class (95 % bootstrap interval), and how often it stays the class. Every method "
    f"asks the network {QUESTIONS} times an image. Test images from number {LOOKED_AT} on: the settings of DMM-MEN "
    f"({LOCAL}) and the design of its neighbours were chosen on training images. LIME: its own regression and weights; "
    "SHAP: KernelExplainer; both over the same segments. Published: probability / accuracy with the authors' networks "
    "and segments. CIFAR-10 stands in for ImageNet, as no pretrained weights are at hand; its network saw 10,000 "
    "images only."
)


def ready(name: str, cache: str, device: str) -> Any:
    """Set up a worker, and return its network."""
    import torch

    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False
    warnings.simplefilter("ignore")
    return trained(name, Path(cache), device=device)[0]


def explained(
    method: str, model: Any, X: np.ndarray, *, seed: int = 0, questions: int = QUESTIONS, kept: float = 0.75
) -> Any:
    """Explain images by one method."""
    if method == "LIME":
        return lime(model, X, seed=seed, samples=questions)
    if method == "SHAP":
        return shap(model, X, seed=seed, samples=questions)
    mine = DMMMEN(
        model,
        features="segments",
        baseline=0.0,
        n_segments=N_SEGMENTS,
        n_neighbors=questions,
        kept=kept,
        n_jobs=1,
        random_state=seed,
        **LOCAL,
    )
    return mine.fit(X).explain(X)


def local_chunk(name: str, cache: str, device: str, start: int) -> dict[str, Any]:
    """Probability and accuracy of one chunk of test images by each method, and seconds per image."""
    model = ready(name, cache, device)
    X = images(name)[2][start : start + CHUNK].astype(np.float64)
    found: dict[str, Any] = {}
    for method in ("DMMMEN", "LIME", "SHAP"):
        try:
            begin = time.process_time()
            explanation = explained(method, model, X)
            seconds = (time.process_time() - begin) / len(X)
        except ImportError as error:
            found[method] = {"missing": str(error)}
            continue
        kept = keep_top(explanation, model, k=TOP[name])
        found[method] = {
            "probability": kept.probability.round(6).tolist(),
            "accuracy": kept.accuracy.tolist(),
            "seconds": seconds,
        }
        if method == "DMMMEN":
            found[method]["r_hat"] = explanation.extras["r_hat"].round(3).tolist()
    return found


def few_kept_chunk(name: str, cache: str, device: str, start: int) -> dict[str, Any]:
    """The same as `local_chunk` by DMM-MEN alone, with neighbours that keep a quarter of the segments."""
    model = ready(name, cache, device)
    X = images(name)[2][start : start + CHUNK].astype(np.float64)
    kept = keep_top(explained("DMMMEN", model, X, questions=QUESTIONS // 4, kept=0.25), model, k=TOP[name])
    return {"probability": kept.probability.round(6).tolist(), "accuracy": kept.accuracy.tolist()}


def stability_chunk(name: str, cache: str, device: str, questions: int, start: int) -> dict[str, Any]:
    """Share of the ten segments ranked first that two seeds have in common, of segments that are not black."""
    model = ready(name, cache, device)
    X = images(name)[2][start : start + CHUNK].astype(np.float64)
    found: dict[str, Any] = {"questions": questions}
    for method in ("DMMMEN", "LIME"):
        runs = [
            first_segments(explained(method, model, X, seed=s, questions=questions), X) for s in range(SEEDS)
        ]
        pairs = [(a, b) for one, two in combinations(runs, 2) for a, b in zip(one, two, strict=True)]
        found[method] = [len(a & b) / len(a) for a, b in pairs if a]
    return found


def first_segments(explanation: Any, X: np.ndarray, k: int = 10) -> list[set[int]]:
    """The top k segments of each image, of those that differ from black."""
    found = []
    for values, label, x in zip(explanation.values, explanation.extras["segments"], X, strict=True):
        worth = np.bincount(label.ravel(), values.ravel())
        black = np.bincount(label.ravel(), x.ravel()) == 0
        order = np.argsort(-worth, kind="stable")
        found.append(set(order[~black[order]][:k].tolist()))
    return found


def global_class(name: str, cache: str, device: str, target: int, sweeps: int) -> dict[str, Any]:
    """The average insight into one class, from the training images that the network puts into it."""
    model = ready(name, cache, device)
    X, ask = images(name)[0], probabilities(model)
    chosen = np.concatenate([ask(part).argmax(axis=1) for part in np.array_split(X, 60)])
    mine = X[chosen == target].astype(np.float64)
    preset = PRESETS["mnist" if name == "mnist" else "fashion-mnist"]
    explainer = DMMMEN(model, scale="common", n_sweeps=sweeps, n_burn=sweeps, n_jobs=1, **preset)
    begin = time.process_time()
    explainer.fit(mine)
    seconds = time.process_time() - begin
    agreement = explainer.convergence_[str(target)]
    insight = explainer.insights(150, per="target")[0]
    parts = explainer.insights(150)
    return {
        "seconds": seconds,
        "rows": len(mine),
        "r_hat": agreement.worst_r_hat,
        "ess": agreement.least_ess,
        "shares": [part.share for part in parts],
        "coefficients": insight.coefficients.round(5).ravel().tolist(),
        "low": insight.interval[..., 0].round(5).ravel().tolist(),
        "high": insight.interval[..., 1].round(5).ravel().tolist(),
        "centre": insight.centre.round(5).ravel().tolist(),
    }


class Ranked:
    """What `fidelity` needs of an insight, from the stored numbers."""

    def __init__(self, target: int, line: dict[str, Any], shape: tuple[int, ...]):
        self.target = str(target)
        self.coefficients = np.array(line["coefficients"]).reshape(shape)
        self.centre = np.array(line["centre"]).reshape(shape)

    def ranking(self, baseline: float = 0.0) -> np.ndarray:
        return np.argsort(-(self.coefficients * (self.centre - baseline)).ravel(), kind="stable")


def planned(settings: argparse.Namespace) -> list[Work]:
    """All pieces of work that do not wait for others, the longest first."""
    cache, device, parts = str(settings.cache), settings.device, settings.parts
    work: list[Work] = []
    for name in settings.sets:
        for target in range(settings.classes if name != "cifar" and "global" in parts else 0):
            work.append(
                (f"global:{name}:{target}", global_class, (name, cache, device, target, settings.sweeps))
            )
    starts = range(LOOKED_AT, LOOKED_AT + settings.images, CHUNK)
    for start in starts if "local" in parts else ():
        work += [
            (f"local:{name}:{start:05d}", local_chunk, (name, cache, device, start)) for name in settings.sets
        ]
    for start in starts if "few" in parts and "cifar" in settings.sets else ():
        work.append((f"few:cifar:{start:05d}", few_kept_chunk, ("cifar", cache, device, start)))
    for questions in STABILITY if "stability" in parts else ():
        for start in starts[: settings.stable // CHUNK]:
            for name in settings.sets:
                key = f"stability:{name}:{questions:05d}:{start:05d}"
                work.append((key, stability_chunk, (name, cache, device, questions, start)))
    return work


def measured_after(settings: argparse.Namespace, results: Results, key: str) -> list[Work]:
    """The fidelity of a fitted class."""
    if not key.startswith("global:") or "fidelity" not in settings.parts:
        return []
    after = "fidelity" + key.removeprefix("global")
    line = results.found[key]
    numbers = {name: line[name] for name in ("coefficients", "centre")}
    place = (str(settings.cache), settings.device)
    return [] if after in results else [(after, class_fidelity, (key, *place, numbers, settings.bootstraps))]


def run(settings: argparse.Namespace, results: Results) -> None:
    clock, place = Clock(settings.minutes), machine()
    for name in settings.sets:
        trained(name, settings.cache, epochs=settings.epochs, device=settings.device)
    waiting = [work for work in planned(settings) if work[0] not in results]
    for line in results.starting("global:"):
        if line["key"].split(":")[1] in settings.sets:
            waiting += measured_after(settings, results, line["key"])
    left = work_off(
        waiting,
        results,
        clock,
        workers=settings.workers,
        place=place,
        after=lambda key: measured_after(settings, results, key),
    )
    print(f"{left} pieces of work left for want of time", flush=True)


def class_fidelity(
    fitted: str, cache: str, device: str, numbers: dict[str, Any], bootstraps: int
) -> dict[str, Any]:
    """Curves of a fitted class, on bootstraps of the test images."""
    _, name, target = fitted.split(":")
    model = ready(name, cache, device)
    X = images(name)[2].astype(np.float64)
    insight = Ranked(int(target), numbers, X.shape[1:])
    found = fidelity(insight, model, X, n_bootstraps=bootstraps)  # type: ignore[arg-type]
    return {"table": found.to_frame().to_dict("records"), "bootstraps": bootstraps, "images": len(X)}


def whole_images(name: str, settings: argparse.Namespace, results: Results) -> np.ndarray:
    """Probability of the network's own class for the images that were explained, before anything is taken away."""
    ask = probabilities(trained(name, settings.cache)[0])
    starts = [int(line["key"].rpartition(":")[2]) for line in results.starting(f"local:{name}:")]
    return np.concatenate([np.zeros(0), *(ask(images(name)[2][s : s + CHUNK]).max(axis=1) for s in starts)])


def report(settings: argparse.Namespace, results: Results) -> None:
    rights = {name: trained(name, settings.cache)[1] for name in settings.sets}
    sure = {name: whole_images(name, settings, results) for name in settings.sets}
    parts = segment_tables(results, rights, sure, about=ABOUT) + few_kept_tables(results)
    parts += stability_tables(results, settings.sets)
    for name in settings.sets:
        parts += fidelity_tables(results, name)
    publish("dmm_men_images", "DMM-MEN on images", parts, peers=("torch",))


def main() -> None:
    chosen = arguments(
        __doc__,
        "only_page",
        "device",
        "minutes",
        sets=["mnist", "fashion", "cifar"],
        parts=["global", "local", "few", "stability", "fidelity"],
        images=1_000,
        stable=option(100, "images explained with several seeds"),
        classes=10,
        sweeps=option(250, "of each chain, after as many of burn-in"),
        bootstraps=50,
        epochs=int,
        workers=2,
        only_train=False,
        **KEPT,
    )
    stored = Results(chosen.results or chosen.cache / "results.jsonl")
    if chosen.only_train:
        for part in chosen.sets:
            print(
                part, trained(part, chosen.cache, epochs=chosen.epochs, device=chosen.device)[1], flush=True
            )
    else:
        if not chosen.only_page:
            run(chosen, stored)
        report(chosen, stored)


if __name__ == "__main__":
    main()
