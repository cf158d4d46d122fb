"""Pictures and series of the size that people have: time, memory, and what is found.

One grey picture of 512 × 512 pixels and 1,000 CIFAR-10 images, explained through 3,000 support points of 7 × 7
patches; a planted motif in a series of 100,000 steps and three channels.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from _results import publish

from tellwhy.data import fetch
from tellwhy.data.benchmarks import data_folder
from tellwhy.data.images import read_picture
from tellwhy.detectors import KernelDensity, PatchModel
from tellwhy.explainers import PatchRelevance
from tellwhy.workflow import explain_series

POINTS = 3_000


def timed(work: Callable[[], Any]) -> dict:
    """Seconds on the clock, seconds of all cores, and the most memory of the process so far."""
    clock, cores = time.perf_counter(), time.process_time()
    work()
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    spent = {"seconds": time.perf_counter() - clock, "core seconds": time.process_time() - cores}
    return {**{name: round(value, 1) for name, value in spent.items()}, "most memory, GB": round(used, 2)}


def pictures(n_images: int) -> list[dict]:
    """Explain one large picture, and many small ones."""
    large = read_picture(data_folder() / "texture_brick.png", side=512).pixels
    images = fetch("cifar10_12k")["X_test"][:n_images].astype(np.float64)
    lines = []
    for name, X in (("one picture of 512 × 512", large[None]), (f"{n_images:,} CIFAR-10 images", images)):
        model = PatchModel(KernelDensity(bandwidth=100.0), (7, 7), 1, POINTS).fit(X[:50])
        PatchRelevance(model).explain(X[:1, :32, :32])  # compiled loops are loaded before the clock starts
        n_patches = len(X) * int(np.prod(model.patch_rows_.windows.grid(X.shape[1:])))
        lines.append(
            {"what": name, "patches": n_patches, **timed(lambda X=X, m=model: PatchRelevance(m).explain(X))}
        )
        print(lines[-1], flush=True)
    return lines


def motif(seed: int) -> dict:
    """A motif that one channel has nowhere else, in a long series."""
    rng = np.random.default_rng(seed)
    t = np.arange(100_000) + 1
    waves = [np.sin(t / 7 + rng.uniform(0, 6)), np.sin(t / 11) * np.cos(t / 93), np.sign(np.sin(t / 17))]
    X = np.stack(waves, axis=1) + 0.1 * rng.normal(size=(len(t), 3))
    at, channel = int(rng.integers(1000, 99_000)), int(seed % 3)
    X[at : at + 40, channel] = 1.2 * np.sin(np.arange(40) * (0.9, 0.7, 0.33)[channel]) + 0.1 * rng.normal(
        size=40
    )
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(t=t)
    spent: dict = {}
    spent |= timed(lambda: spent.update(run=explain_series(frame, time="t", window=40, top=3)))
    first = spent.pop("run").items[0]
    start = first.places[0].box[0]
    low = first.start - start  # first row that is shown
    inside = np.zeros(first.relevance.shape, dtype=bool)
    inside[max(0, at - low) : at + 40 - low, channel] = True
    around = first.relevance[max(0, at - low - 20) : at + 60 - low]
    share = first.relevance[inside].sum() / around.sum()
    return {
        "seed": seed,
        "is the top anomaly": abs(first.start - at) < 40,
        "channel named": first.places[0].text == "abc"[channel],
        "share of the named channel": round(first.places[0].share, 3),
        "relevance on the right channel and time": round(float(share), 3),
        **spent,
    }


def main() -> None:
    """Write the tables."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--images", type=int, default=1000)
    asked.add_argument("--seeds", type=int, default=3)
    sizes = asked.parse_args()
    found = pictures(sizes.images)
    motifs = [motif(seed) for seed in range(sizes.seeds)]
    publish(
        "patch_speed",
        "Pictures and series: time, memory, and a planted motif",
        [
            (
                f"Every pixel explained through {POINTS:,} support points, patches of 7 × 7, stride 1. Core seconds count "
                "all threads; seconds on the clock are those of a machine that others were using too.",
                pd.DataFrame(found),
            ),
            (
                "A motif of 40 samples planted in one of three channels of a series of 100,000 steps. The named channel's "
                "share is of what is beyond its usual relevance; the last share is of all relevance within 20 samples of "
                "the motif.",
                pd.DataFrame(motifs),
            ),
        ],
    )


if __name__ == "__main__":
    main()
