"""One labelling of 512×512 nodes by every algorithm, beside PyMaxflow."""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from tellwhy.core.errors import TellwhyWarning
from tellwhy.data.generated import latent_classes
from tellwhy.data.graphs import Grid, grid
from tellwhy.detectors.map_inference import Field, icm, loopy_bp, min_cut, trw_s


def labelling(peers: str | None) -> pd.DataFrame:
    """Energies, bounds and processor seconds of every algorithm, float64."""
    X = latent_classes(grid((512, 512)), 3.0, random_state=0).X
    distances = ((X[:, None] - np.array([[0.0, 0.0], [2.12, 2.12]])) ** 2).sum(axis=2)
    field = Field(distances / 2, 0.9 * (1 - np.eye(2)), grid((512, 512)))
    calls = {
        "TRW-S": trw_s,
        "TRW-S, 5 sweeps": lambda f: trw_s(f, max_sweeps=5),
        "loopy BP": loopy_bp,
        "ICM": icm,
    }
    calls["minimum cut (SciPy)"] = min_cut
    lines = []
    for name, call in calls.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TellwhyWarning)
            call(Field(field.unary[:36], field.pair, grid((6, 6))))
            started = time.process_time()
            found = call(field)
        lines.append({"algorithm": name, "seconds": time.process_time() - started, "energy": found.energy})
        lines[-1]["bound"] = found.bound
    if peers is not None:
        lines.append(pymaxflow(field, peers))
    table = pd.DataFrame(lines)
    least = table["energy"].min()
    table["energy above the least, %"] = 100 * (table["energy"] / least - 1)
    if peers is not None:
        table["time ÷ PyMaxflow"] = table["seconds"] / table["seconds"].iloc[-1]
    table["energy"], table["bound"] = (
        table["energy"].round(2).astype(str),
        table["bound"].round(2).astype(str),
    )
    return table


def pymaxflow(field: Field, folder: str) -> dict[str, Any]:
    sys.path.append(folder)
    import maxflow

    assert isinstance(field.graph, Grid)
    started = time.process_time()
    graph = maxflow.GraphFloat()
    nodes = graph.add_grid_nodes(field.graph.shape)
    graph.add_grid_edges(nodes, field.pair[0, 1])
    costs = field.unary.reshape(*field.graph.shape, 2)
    graph.add_grid_tedges(nodes, costs[..., 1], costs[..., 0])
    graph.maxflow()
    labels = graph.get_grid_segments(nodes).ravel().astype(np.int32)
    elapsed = time.process_time() - started
    energy = field.energy(labels)
    return {"algorithm": "PyMaxflow", "seconds": elapsed, "energy": energy, "bound": energy}


if __name__ == "__main__":
    folder = arguments(
        __doc__, peers=option(str, "a folder that holds PyMaxflow (GPL: not a dependency)")
    ).peers
    publish(
        "lccad_labelling",
        "Labels of least energy, beside PyMaxflow",
        [
            (
                "Two classes on a 512×512 grid, 4 neighbours, the same energy for all. PyMaxflow's time includes "
                "building its graph. Processor seconds, one thread each.",
                labelling(folder),
            )
        ],
    )
