"""Claim: Hadamard features of 10,000 × 1,024 rows take a quarter of the time of scikit-learn's RBFSampler on 2 cores.

`--device cuda` measures dense and Hadamard features on a graphics card instead (NumPy, SciPy and PyTorch suffice there)
and writes its numbers to a file, which `--from` turns into a page.
"""

from __future__ import annotations

import json
import resource
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.places import started_again

ROWS, COLUMNS, FEATURES, WIDTH = 10_000, 1_024, 16_384, 45.0
REPEATS, BATCH = 2, 500
CARD_COLUMNS = (256, 1_024, 4_096)


def rows(dtype: str) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(ROWS, COLUMNS)).astype(dtype)


def fitted(name: str, X: np.ndarray) -> Any:
    from sklearn.kernel_approximation import RBFSampler

    from tellwhy.bases import KernelBasis

    if name == "RBFSampler":
        return RBFSampler(gamma=1 / (2 * WIDTH**2), n_components=FEATURES, random_state=0).fit(X[:2])
    structure = "hadamard" if name == "Hadamard" else "orthogonal"
    return KernelBasis(
        "gaussian", "random", FEATURES, bandwidth=WIDTH, structure=structure, random_state=0
    ).fit(X)


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
    done = subprocess.run(started_again("--one", name, dtype, how), capture_output=True, check=True)
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


def seconds_of(act: Any, device: str, repeats: int = 20) -> float:
    """Mean seconds of an action on a device, after three for warming up."""
    import torch

    settle = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    for _ in range(3):
        act()
    settle()
    started = time.perf_counter()
    for _ in range(repeats):
        act()
    settle()
    return (time.perf_counter() - started) / repeats


def peak_of(act: Any, device: str) -> float:
    """Bytes that an action needs at most beyond what is there already."""
    import torch

    if device != "cuda":
        return float("nan")
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    act()
    return float(torch.cuda.max_memory_allocated() - before)


def card_stack(structure: str, d: int, device: str) -> tuple[Any, Any]:
    """A basis on the card and its map."""
    from tellwhy.bases.projections import FeatureMap, draw_projection
    from tellwhy.bases.torch_features import BasisStack

    layer = draw_projection(structure, d, FEATURES // 2, np.random.default_rng(0))
    fitted = FeatureMap("gaussian", 1.0, np.zeros(d), (layer,))
    return BasisStack.of([fitted], device), fitted


def moved_bytes(how: str, n: int, d: int) -> int:
    """Bytes that the operations read and write, counting each operand once per operation."""
    m, passes = n * FEATURES // 2, 6
    waves = 2 * (m + m) + 2 * 2 * m  # sine and cosine, each read and written; then the gain in place
    numbers = {
        "dense": n * d + d * FEATURES // 2 + m + waves,
        "Hadamard, products": n * d + m + passes * 2 * m + waves,
        "Hadamard, one kernel": n * d + 2 * m,
    }
    return 4 * numbers[how]


def exact_errors(features: Any, fitted: Any, Z: Any) -> float:
    """Largest error of features, times √(D/2) as if their amplitude were 1, against double precision."""
    from tellwhy.bases.projections import DenseProjection

    layer, rows = fitted.layers[0], Z[:50].double().cpu().numpy()
    if isinstance(layer, DenseProjection):
        products = rows @ layer.matrix
    else:
        from scipy.linalg import hadamard

        p = layer.diagonals.shape[-1]
        H, found = hadamard(p) / np.sqrt(p), []
        for blocks in layer.diagonals:
            v = np.sqrt(p) * np.pad(rows, ((0, 0), (0, p - rows.shape[1])))
            for diagonal in blocks[::-1]:
                v = (v * diagonal) @ H
            found.append(v)
        products = np.hstack(found)[:, : layer.n_directions]
    exact = np.hstack([np.sin(products), np.cos(products)])
    return float(np.abs(features[:50].double().cpu().numpy() * np.sqrt(FEATURES / 2) - exact).max())


def card_line(how: str, d: int, n: int, device: str, copy: float) -> dict[str, Any]:
    """Time, traffic, memory and precision of one way to compute features."""
    import torch

    from tellwhy.bases import torch_features

    if how == "Hadamard, products":
        torch_features._works = lambda _: False
    stack, fitted = card_stack("dense" if how.startswith("dense") else "hadamard", d, device)
    Z = torch.tensor(
        np.random.default_rng(0).normal(size=(n, d)) / np.sqrt(2 * d), dtype=torch.float32, device=device
    )
    torch.set_float32_matmul_precision("high" if how.endswith("TF32") else "highest")
    with torch.no_grad():
        error = exact_errors(stack.features(Z)[0], fitted, Z)
        took, peak = seconds_of(lambda: stack.features(Z), device), peak_of(lambda: stack.features(Z), device)
    least, moved = 4 * (n * d + n * FEATURES), moved_bytes(how.removesuffix(", TF32"), n, d)
    told = {"columns": d, "features": how, "ms": 1e3 * took, "GB moved": moved / 1e9}
    told |= {"GB/s moved": moved / took / 1e9, "share of the copy's": moved / took / copy}
    told |= {"share, rows and features alone": least / took / copy}
    told |= {"peak GB beyond rows and features": (peak - 4 * n * FEATURES) / 1e9, "largest error": error}
    return told | {"ms of a step of training, 1,000 rows": 1e3 * training_seconds(stack, Z[:1000], device)}


def training_seconds(stack: Any, Z: Any, device: str) -> float:
    """Seconds of features and their gradients in the projections."""
    import torch

    upstream = torch.ones((1, len(Z), FEATURES), device=device)
    return seconds_of(lambda: torch.autograd.grad(stack.features(Z), stack.layers, upstream), device)


def copy_bandwidth(n: int, device: str) -> float:
    """Bytes a second of a plain copy of all features."""
    import torch

    source = torch.ones((n, FEATURES), device=device)
    target = torch.empty_like(source)
    return 2 * 4 * source.numel() / seconds_of(lambda: target.copy_(source), device)


def nominal_bandwidth() -> float:
    """Bytes a second that the memory's clock and width make: two transfers a tick."""
    import torch

    found = torch.cuda.get_device_properties(0)
    return 2e3 * getattr(found, "memory_clock_rate", float("nan")) * getattr(found, "memory_bus_width", 0) / 8


def on_card(device: str, n: int = ROWS, columns: tuple[int, ...] = CARD_COLUMNS) -> dict[str, Any]:
    """Every way to compute features, for rows of several widths."""
    import torch

    from tellwhy.bases import torch_features

    cuda = device == "cuda"
    told = {"device": torch.cuda.get_device_name() if cuda else "processor", "torch": torch.__version__}
    told |= {
        "rows": n,
        "copy": copy_bandwidth(n, device),
        "nominal": nominal_bandwidth() if cuda else float("nan"),
    }
    works = torch_features._works
    ways = ["dense", "dense, TF32", "Hadamard, products"]
    if cuda and works("cuda:0"):
        ways.append("Hadamard, one kernel")
    lines = []
    for d in columns:
        for how in ways:
            torch_features._works = works
            lines.append(card_line(how, d, n, device, told["copy"]))
            print(lines[-1], flush=True)
    return told | {"lines": lines}


TITLE = "Speed of kernel features"


def publish_card(path: Path) -> None:
    import pandas as pd

    from benchmarks.shared.results import publish

    found = json.loads(path.read_text())
    text = (
        f"{found['device']}, PyTorch {found['torch']}, single precision, {found['rows']:,} rows to {FEATURES:,} "
        f"Gaussian features. In the same run a plain copy moves {found['copy'] / 1e9:.0f} GB/s, "
        f"{found['copy'] / found['nominal']:.0%} of the {found['nominal'] / 1e9:.0f} GB/s that the memory's clock and "
        "width make. 'GB moved' counts what the operations read and write, each operand once; 'rows and features "
        "alone' is what cannot be saved. Errors are those of sines and cosines against double precision; TF32 is "
        "PyTorch's 'high' precision, everything else its default. A step of training is features and their gradients, "
        "operations launched one by one (a basis is trained by playing a recorded step again, without that cost); both "
        "Hadamard rows train through products."
    )
    parts = [(text, pd.DataFrame(found["lines"]))]
    publish("kernel_bases_speed", TITLE, parts, section="On a graphics card")


def publish_here() -> None:
    import pandas as pd

    from benchmarks.shared.results import publish

    text = (
        f"{ROWS:,} × {COLUMNS:,} rows to {FEATURES:,} features of the Gaussian kernel, best of {REPEATS} (target: at "
        "least 4 times faster in double precision, the sampler's own). 'whole': one result for all rows, whose memory "
        f"both need; 'batches': {BATCH} rows at a time. Core-seconds add up what all cores did; they suffer less from "
        "other work on the machine."
    )
    lines = [
        entry for how in ("whole", "batches") for t in ("float64", "float32") for entry in compare(t, how)
    ]
    publish("kernel_bases_speed", TITLE, [(text, pd.DataFrame(lines))])


if __name__ == "__main__":
    options = arguments(
        __doc__,
        "save",
        one=option(str, "for a child process: features, precision, result", nargs=3),
        device=option("cpu", choices=["cpu", "cuda"]),
        kept=option(Path, "file that --device cuda wrote"),
    )
    if options.one:
        measure(*options.one)
    elif options.device == "cuda":
        options.save.write_text(json.dumps(on_card("cuda")))
    elif options.kept:
        publish_card(options.kept)
    else:
        publish_here()
