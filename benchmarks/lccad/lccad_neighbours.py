"""Question: Are odd nodes of graphs and grids ever found worse than by a local median?

Generated fields and classes, and public grids and places (volcano's heights, earthquakes, a map of impedances). Some nodes
of each are moved: "local" by six times the spread around the neighbours in one column, "swapped" with another node. The
scores are those of `tellwhy.fit(…, kind="graph")`; beside them LCCAD alone and a local median: Σ_j of squared distances
from the middle of the neighbours in robust spreads, and the largest of them. AUROC, means over repetitions.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.ndimage import gaussian_filter
from sklearn.metrics import average_precision_score, roc_auc_score

from benchmarks.lccad._varied import KINDS, varied
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from tellwhy.core.errors import TellwhyWarning
from tellwhy.data import fetch
from tellwhy.data.graphs import Grid, grid, knn_graph
from tellwhy.kinds.beside_neighbours import find_middle_of_neighbours
from tellwhy.kinds.graph import GraphModel, explain_graph, learn
from tellwhy.kinds.graph_input import GraphRequest, read_nodes

N_ODD = 8
STEP = 6.0


@dataclass(frozen=True)
class Field:
    """Nodes as they are, and how they are put into a file."""

    name: str
    X: np.ndarray
    graph: Any
    shape: tuple[int, ...] | None


def smooth_fields(rng: np.random.Generator) -> Iterator[Field]:
    for noise in (0.05, 0.3):
        field = gaussian_filter(rng.normal(size=(40, 50)), 4)
        X = np.column_stack([(field / field.std()).ravel(), 3 * noise * rng.normal(size=2000)])
        X[:, 0] += noise * rng.normal(size=2000)
        yield Field(f"smooth grid, noise {noise}", X, grid((40, 50)), (40, 50))
        places = rng.random((600, 2))
        waves = np.column_stack([np.sin(5 * places[:, 0]) + places[:, 1], np.cos(4 * places[:, 1])])
        yield Field(
            f"smooth places, noise {noise}",
            waves + noise * rng.normal(size=(600, 2)),
            knn_graph(places, 6),
            None,
        )


def public_fields(folder: Path | None) -> Iterator[Field]:
    found = fetch("geo_impedance_facies")
    arrays = {name: found[name] for name in found if np.shape(found[name]) == (100, 100)}
    chosen = [name for name in arrays if name.lower() in ("ai", "por", "porosity")]
    yield Field(
        "impedance and porosity, grid",
        np.column_stack([np.asarray(arrays[name], float).ravel() for name in chosen]), grid((100, 100)), (100, 100),
    )  # fmt: skip
    if folder is None:
        return
    heights = pd.read_csv(folder / "volcano.csv").drop(columns="rownames", errors="ignore").to_numpy(float)
    yield Field("volcano, grid", heights.reshape(-1, 1), grid(heights.shape), heights.shape)
    quakes = pd.read_csv(folder / "quakes.csv")
    places = quakes[["lat", "long"]].to_numpy(float)
    yield Field(
        "earthquakes, places",
        quakes[["depth", "mag", "stations"]].to_numpy(float),
        knn_graph(places, 6),
        None,
    )


def plant(field: Field, how: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = field.X.copy()
    odd = rng.choice(len(X), N_ODD, replace=False)
    if how == "swapped":
        X[odd] = field.X[np.roll(odd, 1)]
        return X, odd
    columns = rng.integers(X.shape[1], size=N_ODD)
    spreads = np.array([robust_spread(x - find_middle_of_neighbours(x, field.graph)) for x in field.X.T])
    X[odd, columns] += STEP * spreads[columns] * rng.choice([-1, 1], N_ODD)
    return X, odd


def robust_spread(error: np.ndarray) -> float:
    return max(1.4826 * float(np.nanmedian(np.abs(error - np.nanmedian(error)))), 1e-12)


def judge(field: Field, X: np.ndarray) -> dict[str, np.ndarray]:
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore", TellwhyWarning)
        model = fit(field, X, Path(place))
    errors = np.column_stack([x - find_middle_of_neighbours(x, field.graph) for x in X.T])
    errors = np.nan_to_num(errors / [robust_spread(error) for error in errors.T])
    return {
        "tellwhy": model.ordinary(),
        "LCCAD": model.classes.outlierness(),
        "local median": (errors**2).sum(axis=1),
        "local median, largest": np.abs(errors).max(axis=1),
    }


def fit(field: Field, X: np.ndarray, place: Path) -> GraphModel:
    if field.shape is not None and isinstance(field.graph, Grid) and len(field.shape) > 1:
        arrays = {f"x{j}": X[:, j].reshape(field.shape) for j in range(X.shape[1])}
        np.savez(place / "grid.npz", **arrays)
        request = GraphRequest(neighbours=field.graph.neighbours)
        return learn(read_nodes(place / "grid.npz", request), request)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    edges = pd.DataFrame(field.graph.edges(), columns=["one", "other"])
    edges.to_csv(place / "edges.csv", index=False)
    request = GraphRequest(edges=str(place / "edges.csv"))
    return learn(read_nodes(frame, request), request)


def rate(name: str, how: str, scores: dict[str, np.ndarray], odd: np.ndarray) -> dict[str, Any]:
    is_odd = np.isin(np.arange(len(next(iter(scores.values())))), odd)
    line: dict[str, Any] = {"nodes": name, "moved": how}
    for method, each in scores.items():
        line[method] = roc_auc_score(is_odd, each)
        line[f"{method}, AP"] = average_precision_score(is_odd, each)
    return line


def measure(repeats: int, folder: Path | None) -> pd.DataFrame:
    lines = []
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        for field in [*smooth_fields(rng), *public_fields(folder)]:
            for how in ("local", "swapped"):
                X, odd = plant(field, how, rng)
                lines.append(rate(field.name, how, judge(field, X), odd))
                print(lines[-1], flush=True)
        for kind in KINDS:
            for gap in (4.0, 8.0):
                case = varied(kind, gap, rng)
                scores = judge(Field("", case.X, case.graph, case.shape), case.X)
                lines.append(rate(f"classes, {kind}, {gap:g} σ", "into another class", scores, case.odd))
                print(lines[-1], flush=True)
    return pd.DataFrame(lines).groupby(["nodes", "moved"], sort=False).mean().reset_index().round(3)


def million(side: int) -> pd.DataFrame:
    """Time of a grid of a million nodes, and the most memory of this process."""
    import resource

    rng = np.random.default_rng(0)
    field = gaussian_filter(rng.normal(size=(side, side)).astype(np.float32), 12, mode="wrap")
    level = field / field.std() + 0.05 * rng.normal(size=(side, side)).astype(np.float32)
    level[side // 2, side // 3] += 1.0
    with tempfile.TemporaryDirectory() as place:
        np.savez(
            Path(place) / "grid.npz",
            level=level.astype(np.float32),
            other=rng.normal(size=(side, side)).astype(np.float32),
        )
        start, used = time.perf_counter(), time.process_time()
        found = explain_graph(Path(place) / "grid.npz").run
    elapsed, used = time.perf_counter() - start, time.process_time() - used
    first = found.anomalies[0].row == (side // 2) * side + side // 3
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return pd.DataFrame(
        [
            {
                "nodes": side * side,
                "seconds": elapsed,
                "CPU s": used,
                "most memory, GB": memory,
                "planted is first": first,
            }
        ]
    )


def main() -> None:
    asked = arguments(
        __doc__,
        repeats=option(3, "of every kind of nodes; 0 leaves these out"),
        side=option(1000, "of the large grid; 0 leaves it out"),
        folder=option(Path, "folder with volcano.csv (a table of heights) and quakes.csv, as R has them"),
    )
    title = "Nodes beside a local median"
    if asked.repeats:
        text = f"AUROC and average precision (AP), means of {asked.repeats} draws."
        publish("lccad_neighbours", title, [(text, measure(asked.repeats, asked.folder))])
    if asked.side:
        text = "From the file to the explained anomalies; the planted node is off its neighbours alone."
        publish("lccad_neighbours", title, [(text, million(asked.side))], section="A large grid")


if __name__ == "__main__":
    main()
