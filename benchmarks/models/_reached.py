"""What a method reaches when it runs: files, by the functions that were called in them.

Run as a script in a Python whose path begins with the tree to measure: `python _reached.py OneClassDTD`. Works
for versions before and after files were joined, so it imports nothing of the benchmarks.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
ODD = rng.normal(size=(3, 4)) * 3
ELSEWHERE = ("core/", "storage/", "data/")  # what every method stands on


def one_class_dtd() -> Callable[[], Any]:
    from tellwhy.detectors import OneClassSVM
    from tellwhy.explainers import OneClassDTD

    model = OneClassSVM(nu=0.2).fit(X)
    return lambda: OneClassDTD(model).explain(ODD)


def anomaly_shapley() -> Callable[[], Any]:
    from tellwhy.detectors import GaussianMixture
    from tellwhy.explainers import AnomalyShapley

    model = GaussianMixture().fit(X)
    return lambda: AnomalyShapley(model).fit(X).explain(ODD)


def tree_shapley() -> Callable[[], Any]:
    from sklearn.ensemble import IsolationForest

    from tellwhy.explainers import TreeShapley

    model = IsolationForest(n_estimators=5, random_state=0).fit(X)
    return lambda: TreeShapley(model).explain(ODD)


def lccad() -> Callable[[], Any]:
    from tellwhy.data.graphs import chain
    from tellwhy.detectors import LCCAD

    graph = chain(len(X))
    return lambda: LCCAD(n_classes=2, random_state=0).fit(X, graph=graph)


def dmm_men() -> Callable[[], Any]:
    from sklearn.linear_model import LogisticRegression

    from tellwhy.explainers import DMMMEN

    model = LogisticRegression().fit(X, X[:, 0] > 0)
    return lambda: DMMMEN(model, n_sweeps=20, n_burn=10).fit(X).explain(ODD)


def weston_watkins_svm() -> Callable[[], Any]:
    from tellwhy.classifiers import WestonWatkinsSVM

    labels = rng.integers(3, size=len(X))
    return lambda: WestonWatkinsSVM(n_jobs=1).fit(X, labels).predict(X)


def lrp() -> Callable[[], Any]:
    import torch

    from tellwhy.explainers import LRP

    layers = (torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    network = torch.nn.Sequential(*layers).eval()
    return lambda: LRP(network).explain(ODD.astype("float32"))


RUNS = {
    "OneClassDTD": one_class_dtd,
    "AnomalyShapley": anomaly_shapley,
    "LCCAD": lccad,
    "DMMMEN": dmm_men,
    "WestonWatkinsSVM": weston_watkins_svm,
    "TreeShapley": tree_shapley,
    "LRP": lrp,
}


class Watch:
    """Functions of the package that were called, by file; of compiled ones, those that a called one names."""

    def __init__(self, root: str):
        self.root = root
        self.called: dict[Any, dict[str, Any]] = {}

    def see(self, frame: Any, event: str, _argument: Any) -> None:
        """Note a call; bodies of modules and classes, which run when they are loaded, are no functions."""
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(self.root) and code.co_flags & 1:
            self.called[code] = frame.f_globals

    def functions(self) -> dict[str, set[str]]:
        """Names of the functions, by file."""
        found: dict[str, set[str]] = {}
        todo = list(self.called.items())
        met = set()
        while todo:
            code, names = todo.pop()
            if code in met or not code.co_filename.startswith(self.root):
                continue
            met.add(code)
            found.setdefault(code.co_filename[len(self.root) :], set()).add(code.co_qualname)
            for name in code.co_names:
                plain = _uncompiled(names.get(name))
                if plain is not None:
                    todo.append((plain.__code__, plain.__globals__))
        return {path: own for path, own in found.items() if not path.startswith(ELSEWHERE)}


def _uncompiled(thing: Any) -> Any:
    """The function that a compiled loop was made from."""
    held = getattr(thing, "__dict__", {})
    return held.get("_function") or held.get("py_func")


def lines_of(path: str, names: set[str]) -> int:
    """Lines of some functions of a file."""
    found = 0

    def look(node: ast.AST, prefix: str) -> None:
        nonlocal found
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found += (child.end_lineno - child.lineno + 1) * (prefix + child.name in names)
                look(child, f"{prefix}{child.name}.<locals>.")
            else:
                look(child, f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix)

    with open(path, encoding="utf-8") as file:
        look(ast.parse(file.read()), "")
    return found


def main() -> None:
    """Load a method, run it twice, and print what the second run reached as JSON."""
    warnings.simplefilter("ignore")
    name = sys.argv[1]
    import tellwhy

    root = os.path.dirname(str(tellwhy.__file__)) + os.sep
    from tellwhy import classifiers, detectors, explainers

    next(getattr(folder, name) for folder in (explainers, detectors, classifiers) if hasattr(folder, name))
    loaded = [m for m in sys.modules if m.startswith("tellwhy.")]
    run = RUNS[name]()
    run()
    watch = Watch(root)
    threading.setprofile(watch.see)
    sys.setprofile(watch.see)
    run()
    sys.setprofile(None)
    reached = {path: lines_of(root + path, own) for path, own in watch.functions().items()}
    print(json.dumps({"loaded": loaded, "reached": reached}))


if __name__ == "__main__":
    main()
