"""Time and memory of LCCAD on implicit grids up to the paper's volume; `--small` leaves out the volumes."""

from __future__ import annotations

import json
import resource
import subprocess
import time
from typing import Any

import numpy as np
import pandas as pd
from scipy.ndimage import gaussian_filter
from sklearn.metrics import adjusted_rand_score

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.places import IMAGES, started_again
from benchmarks.shared.results import publish
from tellwhy.data.graphs import grid
from tellwhy.detectors import LCCAD

SIZES = [((150, 200), 2, 5.0), ((313, 549), 3, 30.0)]
VOLUMES = [((313, 549, 5), 3, None), ((313, 549, 74), 3, 900.0)]
THETA = 1 / 3  # the right weight for classes of variance 1
COMPARED = 1_000_000  # nodes up to which a second fit has it given
FIGURE = IMAGES / "lccad-scale.png"


def generated(shape: tuple[int, ...], n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Smooth classes of equal size, means 3σ apart along a line, two float32 columns."""
    rng = np.random.default_rng(0)
    smooth = gaussian_filter(rng.standard_normal(shape, dtype=np.float32), 3.0, mode="wrap")
    cuts = np.quantile(smooth.ravel()[:: max(1, smooth.size // 100_000)], np.arange(1, n_classes) / n_classes)
    classes = np.digitize(smooth, cuts).ravel().astype(np.int8)
    X = rng.standard_normal((smooth.size, 2), dtype=np.float32)
    X += (3.0 / np.sqrt(2)) * classes[:, None]
    return X, classes


def model(n_classes: int, theta: float | str = "auto") -> LCCAD:
    return LCCAD(
        n_classes, theta, prior="mrf", gamma=1.0, n_init=1, max_iter=10, inference="trws", random_state=0
    )


def measure(shape: tuple[int, ...], n_classes: int) -> dict[str, Any]:
    """In a process of its own: seconds of `fit` after compilation, peak memory, how good the labels are."""
    graph = grid(shape, 4 if len(shape) == 2 else 6)
    small = tuple(min(n, 6) for n in shape)
    for theta in (THETA, "auto"):  # compiles
        model(n_classes, theta).fit(generated(small, n_classes)[0], grid(small, graph.neighbours))
    X, classes = generated(shape, n_classes)
    started, busy = time.perf_counter(), time.process_time()
    fitted = model(n_classes).fit(X, graph)
    elapsed, busy = time.perf_counter() - started, time.process_time() - busy
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    energy = abs(fitted.field(X, graph).energy(fitted.labels_))
    some = np.random.default_rng(0).choice(graph.n_nodes, min(graph.n_nodes, 200_000), replace=False)
    return {
        "nodes": graph.n_nodes,
        "seconds": elapsed,
        "peak, GB": peak,
        "iterations": fitted.n_iter_,
        "θ found": fitted.theta_,
        "gap, %": 100 * fitted.gap_ / energy,
        "ARI": adjusted_rand_score(classes[some], fitted.labels_[some]),
        "processor seconds": busy,
    } | with_given_theta(X, graph, n_classes, busy)


def with_given_theta(X: np.ndarray, graph: Any, n_classes: int, busy: float) -> dict[str, Any]:
    """The same fit with the right θ given: what finding it costs. Left out of large volumes, where that is nothing."""
    if graph.n_nodes > COMPARED:
        return {"processor seconds with θ given": "–", "times as long as with it": "–"}
    started = time.process_time()
    model(n_classes, THETA).fit(X, graph)
    given = time.process_time() - started
    return {"processor seconds with θ given": given, "times as long as with it": busy / given}


def in_child(shape: tuple[int, ...], n_classes: int) -> dict[str, Any]:
    command = started_again("--child", json.dumps([shape, n_classes]))
    child = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(child.stdout.splitlines()[-1]))


def sizes(*, with_volumes: bool) -> pd.DataFrame:
    lines = []
    for shape, n_classes, target in SIZES + (VOLUMES if with_volumes else []):
        found = in_child(shape, n_classes)
        head = {"shape": "×".join(map(str, shape)), "classes": n_classes, "target, s": target or "–"}
        lines.append(
            head | found | {"processor µs a node": 1e6 * found["processor seconds"] / found["nodes"]}
        )
        print(lines[-1], flush=True)
    return pd.DataFrame(lines)


def draw(table: pd.DataFrame) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 4.5), constrained_layout=True)
    axis.loglog(
        table["nodes"], table["seconds"], "o--", color="#c65307", alpha=0.5, label="elapsed (shared machine)"
    )
    axis.loglog(table["nodes"], table["processor seconds"], "o-", color="#c65307", label="processor time")
    last = table.iloc[-1]
    line = last["processor seconds"] * table["nodes"] / last["nodes"]
    axis.loglog(table["nodes"], line, ":", color="#2f6ea8", label="proportional to the number of nodes")
    axis.set(xlabel="nodes", ylabel="seconds", title="Time to fit grids and volumes")
    axis.legend()
    figure.savefig(FIGURE, dpi=80)


if __name__ == "__main__":
    asked = arguments(
        __doc__,
        small=option(False, "no volumes"),
        child=option(str, "for a child process: shape and classes"),
    )
    if asked.child:
        shape, n_classes = json.loads(asked.child)
        print(json.dumps(measure(tuple(shape), n_classes)))
    else:
        found = sizes(with_volumes=not asked.small)
        draw(found)
        publish(
            "lccad_scale",
            "LCCAD on large grids",
            [
                (
                    "Fit on implicit grids (4 neighbours in planes, 6 in volumes), float32, one start, at most 10 "
                    "iterations, TRW-S; one processor is used. θ is found by the fit, as by default; the last columns "
                    "are a fit with the right one, 1/3, given. Seconds are elapsed, and many more where other programs "
                    "run beside it (as on 2026-11-18; on a free machine the largest took 119 s on 2026-11-16): "
                    "processor seconds tell.",
                    found,
                ),
            ],
        )
