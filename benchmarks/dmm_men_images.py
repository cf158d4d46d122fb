"""DMM-MEN on images: keep the top segments (with LIME and SHAP), and the fidelity of what it says was learned."""

from __future__ import annotations

import argparse
import multiprocessing
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _results import publish

from _dmm_men import N_SEGMENTS, SAMPLES, Clock, Results, images, lime, shap, trained
from tellwhy.evaluation import fidelity, keep_top
from tellwhy.explainers import DMMMEN, PRESETS

LOOKED_AT = 300  # earlier test images were looked at while the code was written: they are left out
CHUNK = 20
LOCAL = {"n_components": 3, "n_sweeps": 200, "n_burn": 300, "gating": "gaussian", "n_neighbours": SAMPLES}
TOP = {"mnist": 20, "fashion": 20, "cifar": 10}
PUBLISHED = {
    "mnist": {"DMMMEN": "99.89 / 100", "LIME": "99.84 / 99.95", "SHAP": "94.01 / 94.10"},
    "fashion": {"DMMMEN": "97.59 / 100", "LIME": "93.49 / 98.32", "SHAP": "86.03 / 90.10"},
    "cifar": {},
}


def local_chunk(name: str, cache: str, start: int) -> dict[str, Any]:
    """Probability and accuracy of one chunk of test images by each method, and seconds per image."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    model, _ = trained(name, Path(cache))
    X = images(name)[2][start : start + CHUNK].astype(np.float64)
    explainer = DMMMEN(model, features="segments", background=0.0, n_segments=N_SEGMENTS, n_jobs=1, **LOCAL)
    explainer.fit(X)
    found: dict[str, Any] = {}
    for method, explain in (
        ("DMMMEN", explainer.explain),
        ("LIME", lambda rows: lime(model, rows)),
        ("SHAP", lambda rows: shap(model, rows)),
    ):
        try:
            begin = time.process_time()
            explanation = explain(X)
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


def global_class(name: str, cache: str, target: int, sweeps: int) -> dict[str, Any]:
    """The average insight into one class, from the training images that the network puts into it."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    model, _ = trained(name, Path(cache))
    X = images(name)[0]
    with torch.no_grad():
        chosen = np.concatenate([model(torch.as_tensor(x)).argmax(1).numpy() for x in np.array_split(X, 60)])
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


def run(settings: argparse.Namespace, results: Results) -> None:
    clock = Clock(settings.minutes)
    cache = str(settings.cache)
    for name in settings.sets:
        trained(name, settings.cache, epochs=settings.epochs, device=settings.device)
    jobs: list[tuple[str, Any, tuple[Any, ...]]] = []
    for name in settings.sets:
        for target in range(settings.classes if name != "cifar" else 0):
            jobs.append((f"global:{name}:{target}", global_class, (name, cache, target, settings.sweeps)))
    for start in range(LOOKED_AT, LOOKED_AT + settings.images, CHUNK):
        for name in settings.sets:
            jobs.append((f"local:{name}:{start:05d}", local_chunk, (name, cache, start)))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(settings.workers, mp_context=context) as pool:
        waiting = [job for job in jobs if job[0] not in results]
        running: dict[Any, str] = {}
        while (waiting and not clock.is_over()) or running:
            while waiting and len(running) < 2 * settings.workers and not clock.is_over():
                key, function, arguments = waiting.pop(0)
                running[pool.submit(function, *arguments)] = key
            if not running:
                break
            done = next(as_completed(running))
            key = running.pop(done)
            results.add(key, **done.result())
            print(key, flush=True)
            if key.startswith("global"):
                measure_fidelity(key, settings, results)
    for line in list(results.starting("global:")):
        if not clock.is_over():
            measure_fidelity(line["key"], settings, results)


def measure_fidelity(fitted: str, settings: argparse.Namespace, results: Results) -> None:
    """Curves of a fitted class, on bootstraps of the test images."""
    _, name, target = fitted.split(":")
    key = f"fidelity:{name}:{target}"
    if key in results:
        return
    model, _ = trained(name, settings.cache, device=settings.device)
    X = images(name)[2].astype(np.float64)
    insight = Ranked(int(target), results.found[fitted], X.shape[1:])
    found = fidelity(insight, model, X, n_bootstraps=settings.bootstraps)  # type: ignore[arg-type]
    results.add(key, table=found.to_frame().to_dict("records"))
    print(key, flush=True)


def table_of_segments(results: Results, name: str, right: float) -> pd.DataFrame:
    lines = []
    chunks = list(results.starting(f"local:{name}:"))
    for method in ("DMMMEN", "LIME", "SHAP"):
        parts = [chunk[method] for chunk in chunks if "probability" in chunk[method]]
        if not parts:
            continue
        p = np.concatenate([part["probability"] for part in parts])
        a = np.concatenate([part["accuracy"] for part in parts])
        drawn = np.random.default_rng(0).integers(len(p), size=(1000, len(p)))
        low, high = np.quantile(p[drawn].mean(axis=1), [0.025, 0.975])
        lines.append(
            {
                "network": f"{name} ({100 * right:.2f} %)",
                "method": method,
                "images": len(p),
                "probability %": f"{100 * p.mean():.2f} ({100 * low:.2f}, {100 * high:.2f})",
                "accuracy %": f"{100 * a.mean():.2f}",
                "published": PUBLISHED[name].get(method, "–"),
                "processor s an image": float(np.mean([part["seconds"] for part in parts])),
            }
        )
    return pd.DataFrame(lines)


def report(settings: argparse.Namespace, results: Results) -> None:
    parts = []
    tables = []
    for name in settings.sets:
        _, right = trained(name, settings.cache)
        if any(results.starting(f"local:{name}:")):
            tables.append(table_of_segments(results, name, right))
    if tables:
        text = (
            f"Keep the top segments (of about {N_SEGMENTS}; the top 20, of CIFAR-10 the top 10), the rest black: "
            "mean probability of the network's own class (95 % bootstrap interval), and how often it stays the class. "
            f"Every method asks the network {SAMPLES} times an image. Test images from number {LOOKED_AT} on: the "
            f"settings of DMM-MEN ({LOCAL}) were last compared on 50 training images, after others had been tried on "
            "test images below 200. LIME: its own regression and weights; "
            "SHAP: KernelExplainer; both over the same segments. Published: probability / accuracy with the authors' "
            "networks and segments. CIFAR-10 stands in for ImageNet, as no pretrained weights are at hand; its network "
            "saw 10,000 images only."
        )
        parts.append((text, pd.concat(tables, ignore_index=True)))
    for name in settings.sets:
        parts += curves(results, name)
    publish("dmm_men_images", "DMM-MEN on images", parts, peers=("torch",))


def curves(results: Results, name: str) -> list[tuple[str, pd.DataFrame]]:
    lines = [record for line in results.starting(f"fidelity:{name}:") for record in line["table"]]
    if not lines:
        return []
    table = pd.DataFrame(lines)
    classes = table["target"].nunique()
    mean = table.groupby(["procedure", "chosen", "features"])["rate"].mean().unstack("features").reset_index()
    each = table[table["features"] == 100].copy()
    each["rate"] = [f"{r:.2f} ({a:.2f}, {b:.2f})" for r, a, b in zip(each.rate, each.low, each.high, strict=True)]
    wide = each.pivot(index="target", columns=["procedure", "chosen"], values="rate")
    wide.columns = [f"{procedure}, {chosen}" for procedure, chosen in wide.columns]
    fits = pd.DataFrame(
        [
            {
                "class": int(line["key"].rpartition(":")[2]),
                "training images": line["rows"],
                "fit, processor s": line["seconds"],
                "R̂": line["r_hat"],
                "effective draws": line["ess"],
                "components": len(line["shares"]),
            }
            for line in results.starting(f"global:{name}:")
        ]
    )
    about = (
        f"{name}, mean over {classes} classes: share of inputs that the network puts into the class after the top (or "
        "random) pixels of the class were set to 0 in its own images (nullified), to the class's mean in other images "
        "(replaced), or alone kept from an image of the class while every other pixel is drawn at random (crafted); by "
        "number of pixels. 30 % bootstraps of the test images."
    )
    return [
        (about, mean),
        (f"{name}, every class, 100 pixels: mean and 95 % limits over the bootstraps.", wide.reset_index()),
        (f"{name}: the fits, two chains one after the other.", fits),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("dmm-men-cache"), help="networks and results")
    parser.add_argument("--results", type=Path, help="file of results; by default results.jsonl in the cache")
    parser.add_argument("--sets", nargs="+", default=["mnist", "fashion", "cifar"])
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--sweeps", type=int, default=250, help="of each chain, after as many of burn-in")
    parser.add_argument("--bootstraps", type=int, default=50)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no new work after this time")
    parser.add_argument("--only-train", action="store_true")
    parser.add_argument("--tables", action="store_true", help="write the page from stored results")
    chosen = parser.parse_args()
    stored = Results(chosen.results or chosen.cache / "results.jsonl")
    if chosen.only_train:
        for part in chosen.sets:
            print(part, trained(part, chosen.cache, epochs=chosen.epochs, device=chosen.device)[1], flush=True)
    else:
        if not chosen.tables:
            run(chosen, stored)
        report(chosen, stored)
