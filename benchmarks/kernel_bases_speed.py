"""Claim: Hadamard features of 10,000 × 1,024 rows take a quarter of the time of scikit-learn's RBFSampler on 2 cores.

`--device cuda` measures dense and Hadamard features on a graphics card instead (NumPy and PyTorch suffice there) and
writes its numbers to a file, which `--publish` turns into a page.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROWS, COLUMNS, FEATURES, WIDTH = 10_000, 1_024, 16_384, 45.0
REPEATS, BATCH = 2, 500


def rows(dtype: str) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(ROWS, COLUMNS)).astype(dtype)


def fitted(name: str, X: np.ndarray) -> Any:
    from sklearn.kernel_approximation import RBFSampler

    from tellwhy.bases import KernelBasis

    if name == "RBFSampler":
        return RBFSampler(gamma=1 / (2 * WIDTH**2), n_components=FEATURES, random_state=0).fit(X[:2])
    structure = "hadamard" if name == "Hadamard" else "orthogonal"
    return KernelBasis("gaussian", "random", FEATURES, WIDTH, structure, random_state=0).fit(X)


def measure(name: str, dtype: str, how: str) -> None:
    """Child process: print the best time, the extra memory and the kernel's error as JSON."""
    from scipy.spatial.distance import cdist

    X = rows(dtype)
    model = fitted(name, X)
    head = model.transform(X[:300]).astype(np.float64)  # compiles
    squared = cdist(X[:300], X[:300], "sqeuclidean")
    error = float((0.5 * (np.exp(-squared / (2 * WIDTH**2)) - head @ head.T) ** 2).mean())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    parts = [slice(0, ROWS)] if how == "whole" else [slice(i, i + BATCH) for i in range(0, ROWS, BATCH)]
    seconds, busy = [], []
    for _ in range(REPEATS):
        started, used = time.perf_counter(), time.process_time()
        for part in parts:
            model.transform(X[part])
        seconds.append(time.perf_counter() - started)
        busy.append(time.process_time() - used)
    extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    print(json.dumps({"seconds": min(seconds), "busy": min(busy), "GB": extra, "error": error}))


def line(name: str, dtype: str, how: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, __file__, "--one", name, dtype, how], capture_output=True, check=True)
    found = json.loads(done.stdout)
    told = {"seconds": found["seconds"], "core-seconds": found["busy"], "extra GB": found["GB"]}
    return {"features": name, "precision": dtype, "result": how, **told, "kernel error": found["error"]}


def compare(dtype: str, how: str) -> list[dict[str, Any]]:
    names = ("Hadamard", "orthogonal", "RBFSampler") if how == "whole" else ("Hadamard", "RBFSampler")
    lines = [line(name, dtype, how) for name in names]
    for entry in lines:
        for unit in ("seconds", "core-seconds"):
            entry[f"RBFSampler, times the {unit}"] = lines[-1][unit] / entry[unit]
    return lines


def on_card() -> dict[str, Any]:
    """Seconds and bytes of features in PyTorch, and the bandwidth of a plain copy."""
    import torch

    from tellwhy.bases.feature_map import FeatureMap
    from tellwhy.bases.projections import draw_projection
    from tellwhy.bases.torch_stack import BasisStack

    def seconds(act: Any) -> float:
        for _ in range(3):
            act()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(10):
            act()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / 1e4

    X = torch.tensor(rows("float32") / WIDTH, device="cuda")
    out = torch.empty((ROWS, FEATURES), device="cuda")
    copy = seconds(lambda: out.copy_(out.clone()))
    bandwidth = 4 * out.numel() * 4 / copy  # clone and copy: each reads and writes
    lines = []
    for structure in ("dense", "hadamard"):
        layer = draw_projection(structure, COLUMNS, FEATURES // 2, np.random.default_rng(0))
        stack = BasisStack.of([FeatureMap("gaussian", WIDTH, np.zeros(COLUMNS), (layer,))], "cuda")
        with torch.no_grad():
            took = seconds(lambda stack=stack: stack.features(X))
        least = 4 * (X.numel() + out.numel())
        lines.append({"features": structure, "ms": 1e3 * took, "GB/s of rows and features": least / took / 1e9})
        lines[-1]["share of the copy's bandwidth"] = least / took / bandwidth
    return {"device": torch.cuda.get_device_name(), "copy, GB/s": bandwidth / 1e9, "lines": lines}


def publish_card(path: Path) -> None:
    import pandas as pd
    from _results import publish

    found = json.loads(path.read_text())
    text = (
        f"{found['device']}, PyTorch, single precision, {ROWS:,} × {COLUMNS:,} rows to {FEATURES:,} features; a plain "
        f"copy moves {found['copy, GB/s']:.0f} GB/s there."
    )
    publish("kernel_bases_gpu", "Kernel features on a graphics card", [(text, pd.DataFrame(found["lines"]))])


def publish_here() -> None:
    import pandas as pd
    from _results import publish

    text = (
        f"{ROWS:,} × {COLUMNS:,} rows to {FEATURES:,} features of the Gaussian kernel, best of {REPEATS} (target: at "
        "least 4 times faster in double precision, the sampler's own). 'whole': one result for all rows, whose memory "
        f"both need; 'batches': {BATCH} rows at a time. Core-seconds add up what all cores did; they suffer less from "
        "other work on the machine."
    )
    lines = [entry for how in ("whole", "batches") for t in ("float64", "float32") for entry in compare(t, how)]
    publish("kernel_bases_speed", "Speed of kernel features", [(text, pd.DataFrame(lines))])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=3, help="for a child process: features, precision, result")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--save", type=Path, help="file for the numbers of --device cuda")
    parser.add_argument("--publish", type=Path, help="file that --device cuda wrote")
    options = parser.parse_args()
    if options.one:
        measure(*options.one)
    elif options.device == "cuda":
        options.save.write_text(json.dumps(on_card()))
    elif options.publish:
        publish_card(options.publish)
    else:
        publish_here()
