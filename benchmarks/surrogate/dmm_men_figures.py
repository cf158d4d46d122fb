"""The published figures of DMM-MEN on images: patterns of classes and components, inputs made from them, segments.

Three parts, each with results of its own in the cache: `fits` (a mixture for each class), `curves` (the network's
answers to inputs that were changed by what the fits say), `local` (single images beside LIME and SHAP).
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import machine
from benchmarks.surrogate._figures import Sample, draw_curves, draw_local, draw_patterns, draw_samples, greyed
from benchmarks.surrogate._figures_page import report
from benchmarks.surrogate._patterns import ClassFit, file_of, fit_class, read_fit
from benchmarks.surrogate._work import (
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
from tellwhy.evaluation.fidelity import InputSample
from tellwhy.explainers import DMMMEN, LocalInsight

COUNTS = (50, 75, 100, 125, 150)  # of features, as published
BOOTSTRAPS = 10
SHARE = 0.3  # of the images that a bootstrap draws, as published
OTHERS = 100  # images of other classes in a bootstrap, at most: there are nine times as many
PICTURED = 100  # features that are changed in the pictures of inputs
KEPT = 10  # segments in the pictures of single images
QUESTIONS = 512


def fits(settings: argparse.Namespace, results: Results) -> None:
    """Fit the classes that have no file yet, for as long as there is time."""
    for name in settings.sets:
        trained(name, settings.cache)
    how = (settings.rows, settings.pixels, settings.sweeps, settings.chains)
    waiting: list[Work] = []
    for target in range(settings.classes):
        for name in settings.sets:
            if not file_of(settings.cache, name, target).exists():
                arguments = (name, str(settings.cache), target, *how)
                waiting.append((f"fit:{name}:{target}", fit_class, arguments))
    if waiting:
        _compile()
    clock = Clock(settings.minutes)
    left = work_off(waiting, results, clock, workers=settings.workers, place=machine())
    print(f"{left} classes left for want of time", flush=True)


def _compile() -> None:
    """Compile what fits need, once: the workers read it."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    DMMMEN(lambda rows: rows[:, 0], n_components=2, n_sweeps=8, n_burn=8, n_jobs=1).fit(X)


def fitted(settings: argparse.Namespace, name: str) -> list[ClassFit]:
    """The classes of a set that have been fitted."""
    targets = [t for t in range(settings.classes) if file_of(settings.cache, name, t).exists()]
    return [read_fit(settings.cache, name, target) for target in targets]


def curves(settings: argparse.Namespace, results: Results) -> None:
    """Probability and decision for a class after its top pixels, or as many random ones, were changed."""
    for name in settings.sets:
        model = trained(name, settings.cache)[0]
        X = images(name)[2][: settings.images].astype(np.float64)
        says = probabilities(model)(X).argmax(axis=1)
        for fit in fitted(settings, name):
            key = f"curves:{name}:{fit.target}"
            if key not in results:
                lines = class_curves(fit, model, X, says == fit.target)
                results.add(key, machine=machine(), lines=lines)
                print(key, flush=True)


def class_curves(fit: ClassFit, model: Any, X: np.ndarray, is_mine: np.ndarray) -> list[dict[str, Any]]:
    """One line per procedure, number and choice of pixels: means over bootstraps, and 95 % limits."""
    rng = np.random.default_rng(fit.target)
    ask = probabilities(model)
    ranking = fit.whole.ranking()
    found: dict[tuple[str, int, str], list[tuple[float, float]]] = {}
    for _ in range(BOOTSTRAPS):
        mine = rng.choice(np.flatnonzero(is_mine), max(2, round(SHARE * is_mine.sum())))
        others = rng.choice(np.flatnonzero(~is_mine), min(OTHERS, round(SHARE * (~is_mine).sum())))
        drawn = np.concatenate([mine, others])
        sample = InputSample.of(X[drawn], is_mine[drawn], X, baseline=0.0, rng=rng)
        shuffled = rng.permutation(len(ranking))
        for chosen, order in (("top", ranking), ("random", shuffled)):
            for count in COUNTS:
                for procedure, made in sample.changed(order[:count]).by_procedure().items():
                    p = ask(made)
                    rate = float((p.argmax(axis=1) == fit.target).mean())
                    found.setdefault((procedure, count, chosen), []).append(
                        (float(p[:, fit.target].mean()), rate)
                    )
    return [_summary(*key, np.array(values)) for key, values in found.items()]


def _summary(procedure: str, count: int, chosen: str, values: np.ndarray) -> dict[str, Any]:
    low, high = np.quantile(values, [0.025, 0.975], axis=0).round(4).tolist()
    probability, rate = values.mean(axis=0).round(4).tolist()
    line = {
        "procedure": procedure,
        "features": count,
        "chosen": chosen,
        "probability": probability,
        "rate": rate,
    }
    return {**line, "low": low[1], "high": high[1]}


def samples(settings: argparse.Namespace, name: str) -> dict[str, list[Sample]]:
    """For each class the first image that is drawn, none chosen for its result, and what is made of it."""
    model = trained(name, settings.cache)[0]
    X = images(name)[2][: settings.images].astype(np.float64)
    ask = probabilities(model)
    says = ask(X).argmax(axis=1)
    rows: dict[str, list[Sample]] = {}
    for fit in fitted(settings, name):
        rng = np.random.default_rng(fit.target)
        mine = rng.choice(np.flatnonzero(says == fit.target), 40)
        other = rng.choice(np.flatnonzero(says != fit.target), 1)
        drawn = np.concatenate([mine, other])
        sample = InputSample.of(X[drawn], says[drawn] == fit.target, X, baseline=0.0, rng=rng)
        made = sample.changed(fit.whole.ranking()[:PICTURED])
        inputs = {
            "own image": (X[mine[0]], None),
            "top pixels\nblack": (made.nullified[0], False),
            "other image": (X[other[0]], None),
            "top pixels\nof the class": (made.replaced[0], True),
            "new, others\ndrawn": (made.crafted[0], True),
            "new, others\nblack": (made.alone[0], True),
        }
        for words, (image, is_wanted) in inputs.items():
            p = ask(image[None])[0]
            inside = int(p.argmax()) == fit.target
            works = is_wanted is not None and inside == is_wanted
            rows.setdefault(words, []).append(Sample(image, int(p.argmax()), float(p.max()), works))
    return rows


def order_of(explanation: Any, x: np.ndarray) -> np.ndarray:
    """Segments of one image that are not black, the first first."""
    label = np.asarray(explanation.extras["segments"][0])
    if "place" in explanation.extras:
        worth = np.zeros(int(label.max()) + 1)
        worth[label.ravel()] = -explanation.extras["place"][0].ravel()
    else:
        worth = np.bincount(label.ravel(), explanation.values[0].ravel())
    shown = np.flatnonzero(np.bincount(label.ravel(), (x != 0).ravel(), minlength=len(worth)))
    return shown[np.argsort(-worth[shown], kind="stable")]


def local(settings: argparse.Namespace, name: str) -> list[dict[str, tuple[np.ndarray, float]]]:
    """The first test image of each class from number 800 on: what each method keeps, and what is left."""
    model = trained(name, settings.cache)[0]
    ask = probabilities(model)
    _, _, X, y = images(name)
    found = []
    for target in range(settings.classes):
        x = X[800 + int(np.argmax(y[800:] == target))].astype(np.float64)
        whole = ask(x[None])[0]
        own = int(whole.argmax())
        mine = (
            LocalInsight(model, baseline=0.0, n_questions=QUESTIONS, n_jobs=1).fit(x[None]).explain(x[None])
        )
        ways = {"LocalInsight": mine}
        ways["LIME"] = lime(model, x[None], samples=QUESTIONS)
        ways["SHAP"] = shap(model, x[None], samples=QUESTIONS)
        column = {"image": (greyed(x, np.ones(x.shape, dtype=bool)), float(whole[own]))}
        for method, explanation in ways.items():
            label = np.asarray(explanation.extras["segments"][0])
            is_kept = np.isin(label, order_of(explanation, x)[:KEPT])
            mask = np.zeros(int(label.max()) + 1)
            mask[np.unique(label[is_kept])] = 1.0
            left = ask(neighbours(x, np.zeros_like(x), label, mask[None]))[0, own]
            column[method] = (greyed(x, is_kept), float(left))
        found.append(column)
    return found


def draw(settings: argparse.Namespace, results: Results) -> None:
    """Draw every picture for which there are results."""
    for name in settings.sets:
        if "patterns" in settings.pictures:
            draw_patterns(fitted(settings, name), name)
        if "curves" in settings.pictures:
            draw_curves(results_table(results, name), name)
        if "samples" in settings.pictures:
            draw_samples(samples(settings, name), name)
        if "local" in settings.pictures:
            columns = local(settings, name)
            left = [{way: p for way, (_, p) in column.items()} for column in columns]
            results.add(f"pictured:{name}", left=left, machine=machine())
            draw_local(columns, f"dmm-men-local-{name}.png")


def results_table(results: Results, name: str) -> Any:
    """All lines of the curves of a set."""
    import pandas as pd

    found = results.starting(f"curves:{name}:")
    lines = [{"target": line["key"].rpartition(":")[2], **each} for line in found for each in line["lines"]]
    return pd.DataFrame(lines)


def main() -> None:
    chosen = arguments(
        __doc__,
        "minutes",
        cache=option(Path("dmm-men-cache"), "networks and results"),
        sets=["mnist", "fashion"],
        parts=option(["fits", "curves", "draw", "page"], nargs="*"),
        pictures=option(["patterns", "curves", "samples", "local"], nargs="*"),
        classes=10,
        rows=option(500, "the most images of a class"),
        pixels=option(int, "use only so many pixels, the most correlated; default: all"),
        sweeps=option(200, "of each chain, after as many of burn-in"),
        chains=2,
        images=option(1_000, "test images that inputs are made from"),
        workers=2,
    )
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    stored = Results(chosen.cache / "figures.jsonl")
    if "fits" in chosen.parts:
        fits(chosen, stored)
    if "curves" in chosen.parts:
        curves(chosen, stored)
    if "draw" in chosen.parts:
        draw(chosen, stored)
    if "page" in chosen.parts:
        report(
            {name: fitted(chosen, name) for name in chosen.sets},
            {name: results_table(stored, name) for name in chosen.sets},
            stored,
        )


if __name__ == "__main__":
    main()
