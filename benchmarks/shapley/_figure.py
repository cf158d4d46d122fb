"""Figure 2 of Takeishi and Kawahara (TMLR 2023): anomalies of thyroid, and what each method says of four of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shapley._cells import classifier_values
from benchmarks.shapley._detectors_and_methods import METHODS, explainer, fitted, split
from benchmarks.shared.places import IMAGES
from tellwhy.data import fetch

FIGURE = IMAGES / "anomaly-shapley-thyroid.png"
MARKERS = "os^X"


def shown_rows(values: np.ndarray) -> np.ndarray:
    """Four anomalies: for each of the columns that the classifier names most often, the row it is surest of."""
    top, share = values.argmax(axis=1), values.max(axis=1) / values.sum(axis=1)
    columns = np.argsort(-np.bincount(top, minlength=values.shape[1]), kind="stable")
    rows = [int(np.flatnonzero(top == c)[share[top == c].argmax()]) for c in columns if (top == c).any()]
    rest = [int(r) for r in np.argsort(-share) if r not in rows]
    return np.array((rows + rest)[: len(MARKERS)])


def scatter_matrix(axes: Any, rows: np.ndarray, names: list[str]) -> None:
    """Normal and anomalous test rows, column against column, the four rows marked."""
    data, d = split("thyroid"), len(names)
    for i in range(d):
        for j in range(d):
            ax = axes[i][j]
            ax.set(xticks=[], yticks=[])
            if i == j:
                ax.text(0.5, 0.5, names[i], ha="center", va="center", transform=ax.transAxes, fontsize=9)
                continue
            ax.scatter(data.normal[:, j], data.normal[:, i], s=2, color="C0")
            ax.scatter(data.anomalous[:, j], data.anomalous[:, i], s=2, color="C1")
            for row, marker in zip(rows, MARKERS, strict=True):
                ax.scatter(*data.anomalous[row, [j, i]], s=24, color="k", marker=marker, facecolor="none")


def bars(axes: Any, rows: np.ndarray, found: dict[str, np.ndarray], names: list[str]) -> None:
    """Shares of the absolute attributions, one line of bars per row, one panel per method."""
    for line, row, marker in zip(axes, rows, MARKERS, strict=True):
        for ax, (method, values) in zip(line, found.items(), strict=True):
            shares = np.abs(values[row]) / np.abs(values[row]).sum()
            ax.bar(range(len(names)), shares, color="0.35")
            ax.set(
                ylim=(0, 1), yticks=[], xticks=range(len(names)), xticklabels=names if row == rows[-1] else []
            )
            ax.tick_params(axis="x", labelrotation=90, labelsize=7, length=0)
            ax.spines[["top", "right", "left"]].set_visible(False)
            if row == rows[0]:
                ax.set_title(method, fontsize=9)
        line[0].scatter(
            -0.12, 0.5, marker=marker, color="k", s=40, transform=line[0].transAxes, clip_on=False
        )


def draw(models: Path) -> None:
    """Write the picture; `models` is the folder of what was fitted."""
    import matplotlib.pyplot as plt

    data, model = split("thyroid"), fitted("thyroid", "GMM", models)
    names = [str(name) for name in fetch("odds_thyroid")["feature_names"]]
    found = {"classifier": classifier_values("thyroid", models)}
    for method in METHODS:
        found[method] = explainer(method, model, data.train).explain(data.anomalous).values
    rows = shown_rows(found["classifier"])
    figure = plt.figure(figsize=(15, 6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.4))
    scatter_matrix(left.subplots(len(names), len(names)), rows, names)
    bars(right.subplots(len(rows), len(found)), rows, found, names)
    figure.savefig(FIGURE, dpi=100)
    print(f"wrote {FIGURE.name}; rows {rows.tolist()} of the anomalous test rows")
