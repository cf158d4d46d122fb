"""Pictures of the size that people have: time and memory, on two cores and on a device.

One grey picture of 512 × 512 pixels and 1,000 CIFAR-10 images, every pixel explained through 3,000 support points of 7 × 7
patches. On a device the same numbers are computed by PyTorch; the largest difference is told.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import machine, publish
from tellwhy.data import fetch
from tellwhy.data.benchmarks import data_folder
from tellwhy.data.images import read_picture
from tellwhy.detectors import KernelDensity, PatchModel
from tellwhy.explainers import PatchRelevance

POINTS = 3_000


def timed(work: Callable[[], Any]) -> dict:
    """Seconds on the clock, seconds of all cores, and the most memory of the process so far."""
    clock, cores = time.perf_counter(), time.process_time()
    work()
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    spent = {"seconds": time.perf_counter() - clock, "core seconds": time.process_time() - cores}
    return {**{name: round(value, 2) for name, value in spent.items()}, "most memory, GB": round(used, 2)}


def given(asked: argparse.Namespace) -> list[tuple[str, np.ndarray]]:
    """What is explained: one large picture, and many small ones."""
    if asked.data is None:
        large = read_picture(data_folder() / "texture_brick.png", side=512).pixels
        images = fetch("cifar10_12k")["X_test"]
    else:
        # a texture of 256 pixels, four times: as many patches as one of 512 has
        large = np.tile(np.load(Path(asked.data) / "textures.npz")["brick"], (2, 2))
        images = np.load(Path(asked.data) / "cifar10.npz")["X_test"]
    many = images[: asked.images].astype(np.float64)
    return [
        ("one picture of 512 × 512", large[None].astype(np.float64)),
        (f"{len(many):,} CIFAR-10 images", many),
    ]


def measured(asked: argparse.Namespace) -> list[dict]:
    """Explain every pixel on the cores there are, or on the device."""
    lines = []
    where = (
        f"{asked.device}, {asked.dtype}" if asked.device != "cpu" else f"{len(os.sched_getaffinity(0))} cores"
    )
    for name, X in given(asked):
        model = PatchModel(
            KernelDensity(bandwidth=100.0),
            (7, 7),
            1,
            n_train_patches=POINTS,
            device=asked.device,
            dtype=asked.dtype,
        ).fit(X[:50])
        # compiled loops are loaded, and a device is woken, before the clock starts
        PatchRelevance(model).explain(X[:2, :32, :32])
        PatchRelevance(model).explain(X[:40])
        n_patches = len(X) * int(np.prod(model.patch_rows_.windows.grid(X.shape[1:])))
        spent = timed(lambda X=X, m=model: PatchRelevance(m).explain(X))
        line = {"what": name, "where": where, "patches": n_patches, **spent}
        if asked.device != "cpu":
            line["largest difference"] = difference(model, X[:20])
        lines.append(line)
        print(line, flush=True)
    return lines


def difference(model: PatchModel, X: np.ndarray) -> float:
    """Largest difference to what threads find, as a share of the largest relevance."""
    there = PatchRelevance(model).explain(X).values
    model.device = "cpu"
    here = PatchRelevance(model).explain(X).values
    return float(f"{np.abs(there - here).max() / np.abs(here).max():.1e}")


def page(lines: list[dict], told: str) -> None:
    """Write the table."""
    publish(
        "patch_speed",
        "Pictures: time and memory",
        [
            (
                f"Every pixel explained through {POINTS:,} support points, patches of 7 × 7, stride 1. Core seconds count "
                f"all threads. {told}",
                pd.DataFrame(lines).astype(object).fillna(""),
            )
        ],
    )


def main() -> None:
    """Measure, or write the page from what was measured elsewhere."""
    asked = arguments(
        __doc__,
        "device",
        "save",
        images=1_000,
        dtype="float64",
        data=option(str, "a folder with cifar10.npz and textures.npz"),
        told=option([], "sentences on the machine for the page", nargs="*"),
        kept=option(Path, "figures that were kept: write the page from them", nargs="+"),
    )
    if asked.kept:
        parts = [json.loads(name.read_text(encoding="utf-8")) for name in asked.kept]
        lines = [line for part in parts for line in part["lines"]]
        told = " ".join([*dict.fromkeys(part["told"] for part in parts), *asked.told])
        page(lines, told + _ratio(lines))
        return
    found = {"lines": measured(asked), "told": f"Measured on {machine()}."}
    if asked.save:
        asked.save.write_text(json.dumps(found), encoding="utf-8")
    else:
        page(found["lines"], found["told"])


def _ratio(lines: list[dict]) -> str:
    """How many times faster the device is."""
    told = ""
    for what in dict.fromkeys(line["what"] for line in lines):
        own = {line["where"]: line["seconds"] for line in lines if line["what"] == what}
        slow = [seconds for where, seconds in own.items() if "cores" in where]
        for where, seconds in own.items():
            if slow and "cores" not in where:
                told += (
                    f" {what[0].upper()}{what[1:]}: {where} takes 1/{min(slow) / seconds:.0f} of the time."
                )
    return told


if __name__ == "__main__":
    main()
