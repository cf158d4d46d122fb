"""Which cell is to blame: the corruption posterior beside the methods that share a score, with 1 to 3 moved cells.

The six sets of the Anomaly Shapley paper with its splits, and sets of ADBench (half of the ordinary rows to learn from,
ordinary rows of the other half to move cells of). Nothing was chosen on them here but what the page says.
"""

from __future__ import annotations

import argparse
import os
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import IsolationForest

from benchmarks.shapley._detectors_and_methods import split
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.places import running
from benchmarks.shared.results import publish
from tellwhy.detectors import GaussianMixture, MixedMarginals, NearestNeighbours, OneClassSVM
from tellwhy.evaluation import inject_anomalies, localisation
from tellwhy.explainers import (
    AnomalyShapley,
    CorruptionPosterior,
    KernelShap,
    Occlusion,
    OneClassDTD,
    Sensitivity,
    TreeShapley,
)

PAPERS = ("thyroid", "breastw", "U2R", "lympho", "musk", "arrhythmia")
OTHERS = ("44_Wilt", "14_glass", "22_magic.gamma", "2_annthyroid")
OTHERS += ("42_WBC", "46_WPBC", "30_satellite", "20_letter")
DETECTORS: dict[str, Callable[[], Any]] = {
    "mixture": lambda: GaussianMixture(regularisation="auto"),
    "one-class SVM": lambda: OneClassSVM(nu=0.1),
    "neighbours": NearestNeighbours,
    "marginals": MixedMarginals,
    "forest": lambda: IsolationForest(random_state=0),
}
METHODS: dict[str, Callable[[Any], Any]] = {
    "posterior": CorruptionPosterior,
    "ASH": AnomalyShapley,
    "wKSH": lambda model: KernelShap(model, baseline="neighbours"),
    "DTD": OneClassDTD,
    "trees": TreeShapley,
    "sensitivity": Sensitivity,
    "occlusion": Occlusion,
}
ONLY = {"DTD": ("one-class SVM", "neighbours"), "trees": ("forest",)}
WITHOUT = {"sensitivity": ("forest", "marginals")}
WIDEST = 40  # columns, but for mixtures


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows to learn from and ordinary rows to move cells of, in standard deviations of the first."""
    if name in PAPERS:
        data = split(name)
        return np.vstack([data.train, data.valid]), data.normal
    path = Path(os.environ.get("TELLWHY_DATA", ".")) / "adbench" / f"{name}.npz"
    with np.load(path, allow_pickle=False) as data:
        normal = np.asarray(data["X"], dtype=float)[np.asarray(data["y"]) == 0]
    normal = normal[np.random.default_rng(zlib.crc32(name.encode())).permutation(len(normal))]
    half = min(len(normal) // 2, 1500)
    train, rest = normal[:half], normal[half:]
    kept = train.std(axis=0) > 0
    scale = train[:, kept].std(axis=0)
    return train[:, kept] / scale, rest[:, kept] / scale


def applicable(detector: str) -> list[str]:
    return [
        name
        for name in METHODS
        if detector in ONLY.get(name, (detector,)) and detector not in WITHOUT.get(name, ())
    ]


def measured(name: str, detector: str, asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Lines of one set and detector: by number of moved cells, what each method finds."""
    train, normal = rows_of(name)
    if train.shape[1] > WIDEST and detector != "mixture":
        return
    model = DETECTORS[detector]().fit(train)
    binary = np.full(train.shape[1], name == "lympho")
    made = {}
    for method in applicable(detector):
        one = METHODS[method](model)
        made[method] = one.fit(train) if hasattr(one, "fit") else one
    for n_moved in asked.moved:
        odd = inject_anomalies(
            normal[: asked.rows], n_moved, random_state=n_moved, scale=train.std(axis=0), binary=binary
        )
        line: dict[str, Any] = {
            "set": name.removeprefix(""),
            "columns": train.shape[1],
            "detector": detector,
        }
        line["moved"] = n_moved
        values = {}
        for method, one in made.items():
            started = time.perf_counter()
            explanation = one.explain(odd.X)
            if method == "posterior":
                line["ms a row"] = 1000 * (time.perf_counter() - started) / len(odd.X)
                line["_P"] = explanation.values
                line["_wrong"] = odd.truth
            values[method] = explanation
            line[method] = share_found(explanation.values, odd.truth, n_moved)
        both = (ranks(values["ASH"].values) + ranks(values["wKSH"].values)) / 2
        line["ASH and wKSH"] = share_found(both, odd.truth, n_moved)
        yield line


def ranks(values: np.ndarray) -> np.ndarray:
    return values.argsort(axis=1).argsort(axis=1) / values.shape[1]


def share_found(values: np.ndarray, truth: np.ndarray, n_moved: int) -> float:
    """Mean reciprocal rank of one moved cell; of several, how many of them are among as many first ones."""
    if n_moved == 1:
        from tellwhy.core.explanation import Explanation

        told = Explanation(values=values, scores=np.zeros(len(values)), method="ranks", kind="ranking")
        return float(localisation(told, truth).mrr)
    first = values.argsort(axis=1)[:, ::-1][:, :n_moved]
    return float(np.take_along_axis(truth, first, axis=1).mean())


def reliability(lines: list[dict[str, Any]]) -> pd.DataFrame:
    """Of cells with a probability between two bounds, how many were moved."""
    found = []
    for detector in dict.fromkeys(line["detector"] for line in lines):
        mine = [line for line in lines if line["detector"] == detector and line["moved"] == 1]
        P = np.concatenate([line["_P"].ravel() for line in mine])
        wrong = np.concatenate([line["_wrong"].ravel() for line in mine])
        for low, high in ((0.0, 0.1), (0.1, 0.3), (0.3, 0.5), (0.5, 0.7), (0.7, 0.9), (0.9, 1.01)):
            inside = (low <= P) & (high > P)
            if inside.sum() >= 20:
                found.append(
                    {
                        "detector": detector,
                        "P": f"{low:g}–{min(high, 1):g}",
                        "cells": int(inside.sum()),
                        "mean P": P[inside].mean().round(3),
                        "moved": wrong[inside].mean().round(3),
                    }
                )
    return pd.DataFrame(found)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Means by detector and number of moved cells, and in how many sets the posterior is first or within .01."""
    methods = [*METHODS, "ASH and wKSH"]
    lines = []
    for (detector, moved), part in table.groupby(["detector", "moved"], sort=False):
        means = part[methods].mean().round(3)
        best = part[methods].max(axis=1)
        tied = int((part["posterior"] >= best - 0.01).sum())
        lines.append(
            {
                "detector": detector,
                "moved": moved,
                "sets": len(part),
                **means.to_dict(),
                "posterior first or tied": tied,
            }
        )
    return pd.DataFrame(lines)


def main() -> None:
    asked = arguments(
        __doc__,
        "minutes",
        rows=option(40, "whose cells are moved, of each set"),
        moved=option([1, 2, 3], "how many cells"),
        sets=option([*PAPERS, *OTHERS]),
        detectors=option(list(DETECTORS)),
    )
    started = time.perf_counter()
    lines = []
    for name in asked.sets:
        for detector in asked.detectors:
            if time.perf_counter() - started > 60 * asked.minutes:
                print("no time is left for", name, detector, flush=True)
                continue
            for line in measured(name, detector, asked):
                lines.append(line)
                shown = {
                    k: round(v, 3) if isinstance(v, float) else v for k, v in line.items() if k[0] != "_"
                }
                print(shown, flush=True)
    table = pd.DataFrame([{k: v for k, v in line.items() if k[0] != "_"} for line in lines])
    shown = table.drop(columns="ms a row").assign(**{"ms a row": table["ms a row"]}).astype(object)
    shown = shown.where(shown.notna(), "")
    words = (
        f"{asked.rows} ordinary rows of each set, of which 1, 2 or 3 cells are moved by one to two standard deviations "
        "(flipped in lympho). One cell: mean reciprocal rank; several: the share of the moved cells that are among as "
        "many first ones. Signed values rank. ASH: AnomalyShapley, wKSH: KernelShap beside the eight nearest rows, DTD: "
        "OneClassDTD, trees: TreeShapley; 'ASH and wKSH': the mean of their ranks."
    )
    publish(
        running().rsplit(".", 1)[-1],
        "Which cell is to blame",
        [
            (words + " Means over the sets.", summary(table).astype(object).fillna("")),
            ("Probabilities beside how often they came true (one moved cell a row).", reliability(lines)),
            ("Each set.", shown),
        ],
    )


if __name__ == "__main__":
    main()
