"""Nodes that only their neighbours give away, planted into series, grids and graphs of two classes, gap by gap.

Two nodes have values of the other class, one is 16 σ off in a column that does not tell the classes apart. LCCAD runs
with its defaults, given the number of classes, and as the command line runs it (which finds that number). A second
table swaps 120 of 3,600 nodes of a grid. A third has cases with other numbers of classes and columns, and the same
without planted nodes. Arguments: number of repetitions (default 5), and of cases for each kind and gap (default 8).
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from benchmarks.lccad._varied import KINDS, varied
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from tellwhy.core.errors import TellwhyWarning
from tellwhy.data.graphs import chain, grid, knn_graph
from tellwhy.detectors import LCCAD
from tellwhy.workflow import explain_graph

GAPS = (3, 4, 5, 6, 8, 10, 12, 16, 20)
OTHER_GAPS = (4, 6, 10, 16, 20)
SHAPE = (30, 40)


def places(kind, rng):
    """A graph, the class of each node, and nodes whose surroundings are of one class."""
    if kind == "series":
        classes = np.repeat([0, 1, 0, 1], 100)
        graph = chain(400)
    elif kind == "grid":
        classes = np.repeat([[0, 1]], SHAPE[0], axis=0).repeat(SHAPE[1] // 2, axis=1).ravel()
        graph = grid(SHAPE)
    else:
        points = rng.random((600, 2))
        graph = knn_graph(points, 6)
        classes = (points[:, 0] + 0.2 * np.sin(6 * points[:, 1]) > 0.5).astype(np.int64)
    beside = [[] for _ in classes]
    for one, other in graph.edges().tolist():
        beside[one].append(other)
        beside[other].append(one)
    # Every node is in the class of most of its neighbours: none but the planted ones is odd in its context.
    for _ in range(20):
        votes = np.array([np.mean(classes[near]) for near in beside])
        classes = np.where(votes > 0.5, 1, np.where(votes < 0.5, 0, classes))
    wide = [{second for first in near for second in beside[first]} for near in beside]
    inside = [i for i, near in enumerate(wide) if len(set(classes[list(near)])) == 1]
    return graph, classes, np.array(inside)


def planted(kind, gap, seed):
    rng = np.random.default_rng(seed)
    graph, classes, inside = places(kind, rng)
    X = rng.normal(size=(len(classes), 2))
    X[:, 0] += gap * classes
    odd = rng.choice(inside, 3, replace=False)
    X[odd[:2], 0] = gap * (1 - classes[odd[:2]]) + rng.normal(size=2)
    X[odd[2], 1] = 16.0
    return X, graph, odd, (X[:, 0] - gap * classes) ** 2 + X[:, 1] ** 2


def by_command(X, kind, graph, shape=SHAPE):
    """Scores, number of classes and number of alarms of the command line's run, which finds all of them."""
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    if kind == "series":
        run = explain_graph(frame.assign(at=np.arange(len(X))), time="at", columns=list(frame)).run
    elif kind == "grid":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "cube.npz"
            np.savez(path, **{name: frame[name].to_numpy().reshape(shape) for name in frame})
            run = explain_graph(path).run
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "edges.csv"
            pd.DataFrame(graph.edges(), columns=["one", "other"]).to_csv(path, index=False)
            run = explain_graph(frame, edges=path).run
    scores = np.empty(len(X))
    scores[run.rows] = run.scores
    return scores, run.settings["n_classes"], run.alarms.n_flagged


def gaps_of(kind, repeats):
    for gap in GAPS:
        top = {"LCCAD(2)": 0, "command line": 0, "true classes": 0, "isolation forest": 0}
        areas = []
        n_right = 0
        for seed in range(repeats):
            X, graph, odd, known = planted(kind, gap, seed)
            found, n_classes, _ = by_command(X, kind, graph)
            scores = {
                "LCCAD(2)": LCCAD(2, random_state=0).fit(X, graph).outlierness(),
                "command line": found,
                "true classes": known,
                "isolation forest": -IsolationForest(random_state=0).fit(X).score_samples(X),
            }
            n_right += n_classes == 2
            for name, values in scores.items():
                top[name] += len(set(np.argsort(-values)[:3]) & set(odd))
            areas.append(roc_auc_score(np.isin(np.arange(len(X)), odd), scores["LCCAD(2)"]))
        found = {f"{name}: of the top 3": f"{n} of {3 * repeats}" for name, n in top.items()}
        line = {"graph": kind, "gap, σ": gap, **found, "LCCAD(2): AUROC": np.mean(areas)}
        yield line | {"two classes found": f"{n_right} of {repeats}"}


def swapped(repeats):
    for gap in GAPS:
        areas = {"LCCAD(2)": [], "true classes": [], "isolation forest": []}
        for seed in range(repeats):
            rng = np.random.default_rng(seed)
            classes = np.repeat([[0, 1]], 60, axis=0).repeat(30, axis=1).ravel()
            odd = np.zeros(3600, dtype=bool)
            odd[rng.choice(3600, 120, replace=False)] = True
            X = rng.normal(size=(3600, 2))
            X[:, 0] += gap * (classes ^ odd)
            known = (X[:, 0] - gap * classes) ** 2 + X[:, 1] ** 2
            areas["LCCAD(2)"].append(
                roc_auc_score(odd, LCCAD(2, random_state=0).fit(X, grid((60, 60))).outlierness())
            )
            areas["true classes"].append(roc_auc_score(odd, known))
            forest = IsolationForest(random_state=0).fit(X)
            areas["isolation forest"].append(roc_auc_score(odd, -forest.score_samples(X)))
        yield {"gap, σ": gap, **{name: np.mean(values) for name, values in areas.items()}}


def others(n_cases):
    for kind in KINDS:
        for gap in OTHER_GAPS:
            line = {
                "of the top 3": 0,
                "true classes: of the top 3": 0,
                "classes found": 0,
                "clean: alarms": 0,
            }
            n_nodes = 0
            for seed in range(n_cases):
                case = varied(kind, gap, np.random.default_rng([seed, gap, KINDS.index(kind)]))
                scores, n_classes, _ = by_command(case.X, kind, case.graph, case.shape)
                line["of the top 3"] += len(set(np.argsort(-scores)[:3]) & set(case.odd))
                line["true classes: of the top 3"] += len(set(np.argsort(-case.known)[:3]) & set(case.odd))
                line["classes found"] += n_classes == case.n_classes
                line["clean: alarms"] += by_command(case.clean, kind, case.graph, case.shape)[2]
                n_nodes += len(case.X)
            print(kind, gap, line, flush=True)
            yield {
                "graph": kind,
                "gap, σ": gap,
                "command line: of the top 3": f"{line['of the top 3']} of {3 * n_cases}",
                "true classes: of the top 3": f"{line['true classes: of the top 3']} of {3 * n_cases}",
                "as many classes as there are": f"{line['classes found']} of {n_cases}",
                "nodes": n_nodes,
                "alarms without planted nodes": line["clean: alarms"],
            }


if __name__ == "__main__":
    asked = arguments(__doc__, repeats=5, cases=option(8, "of each kind"))
    repeats, n_cases = asked.repeats, asked.cases
    warnings.simplefilter("ignore", TellwhyWarning)
    lines = [line for kind in ("series", "grid", "graph") for line in gaps_of(kind, repeats)]
    publish(
        "lccad_gaps",
        "LCCAD at its defaults: planted nodes at every gap between the classes",
        [
            (
                f"Two nodes with values of the other class and one 16 σ off in another column, {repeats} repetitions: how "
                "many of the three are the three highest scores. 'true classes' knows classes and centres: below 5 σ, "
                "ordinary nodes are as far from their own class as planted ones. The command line finds the number of "
                "classes itself.",
                pd.DataFrame(lines),
            ),
            (
                "AUROC for 120 swapped nodes of a 60×60 grid of two halves; 'true classes' knows classes and centres.",
                pd.DataFrame(swapped(repeats)),
            ),
            (
                f"Other cases, {n_cases} of each kind: 2 to 4 classes of at least a tenth of the nodes (in a series, "
                "three visits each, of 25 to 119 rows), the nearest two so far apart as is said, in 2 to 5 columns that "
                "tell them and up to three that tell nothing, in half of the cases correlated (.5), in any units. The "
                "command line finds the number of classes. The same nodes without the planted ones should have no alarms.",
                pd.DataFrame(others(n_cases)),
            ),
        ],
    )
