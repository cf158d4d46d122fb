"""Time and memory of LCCAD on implicit grids up to the paper's volume, and its labelling beside PyMaxflow.

Arguments: `--small` leaves out the volumes; `--peers FOLDER` is a folder that holds PyMaxflow (GPL: not a dependency).
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _results import publish
from scipy.ndimage import gaussian_filter
from sklearn.metrics import adjusted_rand_score

from tellwhy.core.errors import TellwhyWarning
from tellwhy.data.graphs import Grid, grid
from tellwhy.detectors import LCCAD
from tellwhy.detectors.map_inference import Field, icm, loopy_bp, min_cut, trw_s

SIZES = [((150, 200), 2, 5.0), ((313, 549), 3, 30.0)]
VOLUMES = [((313, 549, 5), 3, None), ((313, 549, 20), 3, None), ((313, 549, 74), 3, 900.0)]
FIGURE = Path(__file__).parent.parent / "docs" / "images" / "lccad-scale.png"


def generated(shape: tuple[int, ...], n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Smooth classes of equal size, means 3σ apart along a line, two float32 columns."""
    rng = np.random.default_rng(0)
    smooth = gaussian_filter(rng.standard_normal(shape, dtype=np.float32), 3.0, mode="wrap")
    cuts = np.quantile(smooth.ravel()[:: max(1, smooth.size // 100_000)], np.arange(1, n_classes) / n_classes)
    classes = np.digitize(smooth, cuts).ravel().astype(np.int8)
    X = rng.standard_normal((smooth.size, 2), dtype=np.float32)
    X += (3.0 / np.sqrt(2)) * classes[:, None]
    return X, classes


def model(n_classes: int) -> LCCAD:
    return LCCAD(n_classes, 1 / 3, model="mrf", gamma=1.0, n_init=1, max_iter=10, inference="trws", random_state=0)


def measure(shape: tuple[int, ...], n_classes: int) -> dict[str, Any]:
    """In a process of its own: seconds of `fit` after compilation, peak memory, how good the labels are."""
    graph = grid(shape, 4 if len(shape) == 2 else 6)
    small = tuple(min(n, 6) for n in shape)
    model(n_classes).fit(generated(small, n_classes)[0], grid(small, graph.neighbours))
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
        "gap, %": 100 * fitted.gap_ / energy,
        "ARI": adjusted_rand_score(classes[some], fitted.labels_[some]),
        "processor seconds": busy,
    }


def in_child(shape: tuple[int, ...], n_classes: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", json.dumps([shape, n_classes])]
    child = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(child.stdout.splitlines()[-1]))


def sizes(*, with_volumes: bool) -> pd.DataFrame:
    lines = []
    for shape, n_classes, target in SIZES + (VOLUMES if with_volumes else []):
        found = in_child(shape, n_classes)
        head = {"shape": "×".join(map(str, shape)), "classes": n_classes, "target, s": target or "–"}
        lines.append(head | found | {"processor µs a node": 1e6 * found["processor seconds"] / found["nodes"]})
        print(lines[-1], flush=True)
    return pd.DataFrame(lines)


def labelling(peers: str | None) -> pd.DataFrame:
    """Two classes on 512×512: energies, bounds and times of every algorithm, float64."""
    X, _ = generated((512, 512), 2)
    distances = ((X[:, None].astype(np.float64) - np.array([[0.0, 0.0], [2.12, 2.12]])) ** 2).sum(axis=2)
    field = Field(distances / 2, 0.9 * (1 - np.eye(2)), grid((512, 512)))
    calls = {"TRW-S": trw_s, "TRW-S, 5 sweeps": lambda f: trw_s(f, max_sweeps=5), "loopy BP": loopy_bp, "ICM": icm}
    calls["minimum cut (SciPy)"] = min_cut
    lines = []
    for name, call in calls.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TellwhyWarning)
            call(Field(field.unary[:36], field.pair, grid((6, 6))))
            started = time.perf_counter()
            found = call(field)
        lines.append({"algorithm": name, "seconds": time.perf_counter() - started, "energy": found.energy})
        lines[-1]["bound"] = found.bound
    if peers is not None:
        lines.append(pymaxflow(field, peers))
    table = pd.DataFrame(lines)
    least = table["energy"].min()
    table["energy above the least, %"] = 100 * (table["energy"] / least - 1)
    if peers is not None:
        table["time ÷ PyMaxflow"] = table["seconds"] / table["seconds"].iloc[-1]
    table["energy"], table["bound"] = table["energy"].round(2).astype(str), table["bound"].round(2).astype(str)
    return table


def pymaxflow(field: Field, folder: str) -> dict[str, Any]:
    sys.path.append(folder)
    import maxflow

    assert isinstance(field.graph, Grid)
    started = time.perf_counter()
    graph = maxflow.GraphFloat()
    nodes = graph.add_grid_nodes(field.graph.shape)
    graph.add_grid_edges(nodes, field.pair[0, 1])
    costs = field.unary.reshape(*field.graph.shape, 2)
    graph.add_grid_tedges(nodes, costs[..., 1], costs[..., 0])
    graph.maxflow()
    labels = graph.get_grid_segments(nodes).ravel().astype(np.int32)
    elapsed = time.perf_counter() - started
    energy = field.energy(labels)
    return {"algorithm": "PyMaxflow", "seconds": elapsed, "energy": energy, "bound": energy}


def draw(table: pd.DataFrame) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 4.5), constrained_layout=True)
    axis.loglog(table["nodes"], table["seconds"], "o--", color="#c65307", alpha=0.5, label="elapsed (shared machine)")
    axis.loglog(table["nodes"], table["processor seconds"], "o-", color="#c65307", label="processor time")
    last = table.iloc[-1]
    line = last["processor seconds"] * table["nodes"] / last["nodes"]
    axis.loglog(table["nodes"], line, ":", color="#2f6ea8", label="proportional to the number of nodes")
    axis.set(xlabel="nodes", ylabel="seconds", title="Time to fit grids and volumes")
    axis.legend()
    figure.savefig(FIGURE, dpi=80)


if __name__ == "__main__":
    if "--child" in sys.argv:
        shape, n_classes = json.loads(sys.argv[-1])
        print(json.dumps(measure(tuple(shape), n_classes)))
    else:
        folder = sys.argv[sys.argv.index("--peers") + 1] if "--peers" in sys.argv else None
        found = sizes(with_volumes="--small" not in sys.argv)
        draw(found)
        publish(
            "lccad_scale",
            "LCCAD on large grids",
            [
                (
                    "Fit on implicit grids (4 neighbours in planes, 6 in volumes), float32, one start, at most 10 "
                    "iterations, TRW-S; one processor is used. The machine was shared with other work: the elapsed "
                    "time is an upper limit, and the processor time tells what an idle machine would need.",
                    found,
                ),
                ("One labelling of 512×512 nodes, two classes, float64.", labelling(folder)),
            ],
        )
