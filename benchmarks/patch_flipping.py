"""Flipping of CIFAR-10 images through one-class models of their patches (figures 7 and C.9 of the paper).

Patches of 7 × 7 × 3, exponential and t-Student kernels with q = 1, 2, 4. Cells are taken away in the order of each
method, in 20 steps; the area below the curve is lower for a better order. Sizes are those of the call.
"""

from __future__ import annotations

import argparse
import time
import warnings

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
DRAWS = 2_000  # of the bootstrap


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


def main() -> None:
    """Write the tables."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--patches", type=int, default=800)
    asked.add_argument("--images", type=int, default=12)
    asked.add_argument("--data", help="an .npz file with X_train and X_test, in the place of the whole set")
    sizes = asked.parse_args()
    data = fetch("cifar10_12k") if sizes.data is None else dict(np.load(sizes.data))
    train = data["X_train"].astype(np.float64)
    X = data["X_test"][: sizes.images].astype(np.float64)
    lines, gaps = [], []
    started = time.perf_counter()
    width = _width(train, sizes.patches)
    for kernel, q in KERNELS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)  # q = 4: a local optimum, as the paper has it
            detector = OneClassSVM(kernel, q=q, bandwidth=width, nu=0.1, scale="one")
            model = PatchModel(detector, 7, n_train_patches=sizes.patches).fit(train[:2000])
        areas = {name: patch_flipping(model, e).areas for name, e in explanations(model, X).items()}
        name = f"{kernel}, q={q}"
        lines.append({"kernel": name, **{m: round(float(a.mean()), 4) for m, a in areas.items()}})
        lines[-1]["lowest"] = min(areas, key=lambda m: areas[m].mean())
        gaps.append(
            {"kernel": name, **{m: difference(areas["DTD"], a) for m, a in areas.items() if m != "DTD"}}
        )
        print(lines[-1], round(time.perf_counter() - started), "s", flush=True)
    words = f"{sizes.images} test images, {sizes.patches:,} training patches of 2,000 images, σ = {width:.0f} (of 0..255)"
    publish(
        "patch_flipping",
        "Flipping of CIFAR-10 images through models of their patches",
        [
            (f"Mean area below the flipping curve, lower is better; {words}.", pd.DataFrame(lines)),
            (
                "Area of each method minus that of DTD, with 95 % intervals over images: above 0, DTD is better.",
                pd.DataFrame(gaps),
            ),
        ],
    )


def _width(train: np.ndarray, n: int) -> float:
    """The 0.1 quantile of the distances between patches and their nearest neighbours."""
    chosen = np.random.default_rng(0).choice(2000 * 26 * 26, n, replace=False)
    return nearest_patch_distance(Windows((7, 7), 1).sample(train[:2000], chosen), 0.1)


if __name__ == "__main__":
    main()
