"""Flipping of CIFAR-10 images through one-class models of their patches (figures 7 and C.9 of the paper).

Patches of 7 × 7 × 3, exponential and t-Student kernels with q = 1, 2, 4. Cells are taken away in the order of each
method, in 20 steps; the area below the curve is lower for a better order. Sizes are those of the call.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from _results import publish

from tellwhy.core.errors import NotConverged
from tellwhy.core.explanation import Explanation
from tellwhy.data import fetch
from tellwhy.data.patches import Windows
from tellwhy.detectors import OneClassSVM, PatchModel
from tellwhy.detectors.patches.bandwidth import nearest_patch_distance
from tellwhy.evaluation import patch_flipping
from tellwhy.explainers import PatchRelevance, Sobel

KERNELS = [(kernel, q) for kernel in ("exponential", "student_t") for q in (1, 2, 4)]
BY = {"DTD": "OneClassDTD", "NN": "NearestSupport", "SA": "Sensitivity", "EV": "ExpectedValue"}
SLOWEST_FIRST = [(kernel, q) for q in (4, 2, 1) for kernel in ("exponential", "student_t")]
DRAWS = 2_000  # of the bootstrap
IMAGES_AT_ONCE = 10
ON_DEVICE = "Measured on a machine with an NVIDIA H200, where SVMs were fitted, too."


def explanations(model: PatchModel, X: np.ndarray) -> dict[str, Explanation]:
    """One explanation per method."""
    found = {name: PatchRelevance(model, by=by).explain(X) for name, by in BY.items()}
    found["Sobel"] = Sobel(model).explain(X)
    values = np.random.default_rng(0).random(X.shape)
    found["random"] = Explanation(
        values=values, scores=np.zeros(len(X)), method="random", data=X, kind="ranking"
    )
    return found


def difference(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Mean of their area minus ours, with a 95 % bootstrap interval over images."""
    gap = theirs - ours
    draws = np.random.default_rng(0).integers(0, len(gap), size=(DRAWS, len(gap)))
    low, high = np.quantile(gap[draws].mean(axis=1), [0.025, 0.975])
    return f"{gap.mean():+.4f} [{low:+.4f}, {high:+.4f}]"


def data_of(asked: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Pictures to learn from, and pictures whose cells are taken away."""
    data = fetch("cifar10_12k") if asked.data is None else dict(np.load(asked.data))
    return data["X_train"][:2000].astype(np.float64), data["X_test"][: asked.images].astype(np.float64)


def fitted(kernel: str, q: int, train: np.ndarray, asked: argparse.Namespace) -> PatchModel:
    """A model of patches; on a device, its SVM is fitted there, too."""
    settings = {"q": q, "bandwidth": _width(train, asked.patches), "nu": 0.1, "scale": "one"}
    if asked.device == "cpu":
        detector = OneClassSVM(kernel, **settings)
    else:
        from _device_svm import DeviceOneClassSVM

        detector = DeviceOneClassSVM(kernel, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # q = 4: a local optimum, as the paper has it
        return PatchModel(detector, 7, asked.stride, asked.patches, device=asked.device).fit(train)


def one_kernel(kernel_and_q: tuple[str, int], asked: argparse.Namespace) -> dict:
    """Areas of every method on every image, for one kernel; some images at a time are kept as soon as they are there."""
    kernel, q = kernel_and_q
    train, X = data_of(asked)
    started = time.perf_counter()
    model = fitted(kernel, q, train, asked)
    detector = model.detectors_[0]
    found = {"kernel": f"{kernel}, q={q}", "width": detector.bandwidth_, "areas": {}}
    found |= {"points": len(detector.expansion_.weights), "violation": float(detector.violation_)}
    found["seconds of the fit"] = round(time.perf_counter() - started)
    for some in np.array_split(X, max(1, len(X) // IMAGES_AT_ONCE)):
        for name, e in explanations(model, some).items():
            found["areas"].setdefault(name, []).extend(patch_flipping(model, e).areas.tolist())
        found["seconds"] = round(time.perf_counter() - started)
        print(found["kernel"], len(found["areas"]["DTD"]), "images,", found["seconds"], "s", flush=True)
        if asked.json:
            sizes = {"patches": asked.patches, "images": len(found["areas"]["DTD"]), "stride": asked.stride}
            kept = {**sizes, "device": asked.device, "kernels": [found]}
            Path(f"{asked.json}_{kernel}_{q}.json").write_text(json.dumps(kept), encoding="utf-8")
    return found


def measured(asked: argparse.Namespace) -> dict:
    """Areas of all kernels, several at a time; those that take longest begin first."""
    work = partial(one_kernel, asked=asked)
    with ProcessPoolExecutor(asked.workers, multiprocessing.get_context("spawn")) as pool:
        kernels = list(pool.map(work, [k for k in SLOWEST_FIRST if f"{k[0]}_{k[1]}" in asked.kernels]))
    sizes = {"patches": asked.patches, "images": asked.images, "stride": asked.stride}
    return {**sizes, "device": asked.device, "kernels": kernels}


def page(found: dict) -> None:
    """Write the tables from what was measured."""
    order = [f"{kernel}, q={q}" for kernel, q in KERNELS]
    lines, gaps = [], []
    for kernel in sorted(found["kernels"], key=lambda k: order.index(k["kernel"])):
        areas = {method: np.array(each) for method, each in kernel["areas"].items()}
        line = {"kernel": kernel["kernel"], "images": len(areas["DTD"]), "support points": kernel["points"]}
        line |= {method: round(float(each.mean()), 4) for method, each in areas.items()}
        lines.append({**line, "lowest": min(areas, key=lambda method: areas[method].mean())})
        others = {method: difference(areas["DTD"], each) for method, each in areas.items() if method != "DTD"}
        gaps.append({"kernel": kernel["kernel"], **others})
    words = f"{found['patches']:,} training patches of 2,000 images"
    words += f", patches at every {found['stride']} pixels" if found["stride"] > 1 else ""
    width = found["kernels"][0]["width"]
    where = "" if found["device"] == "cpu" else " " + ON_DEVICE
    publish(
        "patch_flipping",
        "Flipping of CIFAR-10 images through models of their patches",
        [
            (
                f"Mean area below the flipping curve, lower is better; test images, {words}, σ = {width:.0f} (of "
                f"0..255), ν = 0.1.{where}",
                pd.DataFrame(lines),
            ),
            (
                "Area of each method minus that of DTD, with 95 % intervals over images: above 0, DTD is better.",
                pd.DataFrame(gaps),
            ),
        ],
    )


def merged(parts: list[dict]) -> dict:
    """Kernels that were kept one by one."""
    sizes = {(part["patches"], part["stride"], part["device"]) for part in parts}
    if len(sizes) != 1:
        raise ValueError(f"figures of different runs: {sorted(sizes)}")
    return {**parts[0], "kernels": [kernel for part in parts for kernel in part["kernels"]]}


def main() -> None:
    """Measure, or write the tables from what was measured elsewhere."""
    options = argparse.ArgumentParser()
    options.add_argument("--patches", type=int, default=800)
    options.add_argument("--images", type=int, default=12)
    options.add_argument("--stride", type=int, default=1)
    options.add_argument("--kernels", nargs="+", default=[f"{kernel}_{q}" for kernel, q in KERNELS])
    options.add_argument("--data", help="an .npz file with X_train and X_test, in the place of the whole set")
    options.add_argument("--device", default="cpu")
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--json", help="where to keep figures: the first part of a name for each kernel")
    told = "figures that were kept, of one kernel or several: write the page from them"
    options.add_argument("--from", dest="kept", nargs="+", help=told)
    asked = options.parse_args()
    if asked.kept:
        kept = [json.loads(Path(name).read_text(encoding="utf-8")) for name in asked.kept]
        page(merged(kept))
        return
    found = measured(asked)
    if not asked.json:
        page(found)


def _width(train: np.ndarray, n: int) -> float:
    """The 0.1 quantile of the distances between patches and their nearest neighbours."""
    chosen = np.random.default_rng(0).choice(len(train) * 26 * 26, n, replace=False)
    return nearest_patch_distance(Windows((7, 7), 1).sample(train, chosen), 0.1)


if __name__ == "__main__":
    main()
