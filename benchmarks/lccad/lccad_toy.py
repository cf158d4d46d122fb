"""The paper's toy: classes by LCCAD and k-means, anomalies by LCCAD and detectors that do not see the graph.

Nothing is tuned on the truth: all detectors run with their defaults, the number of classes (2) is given to every
method that has one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import matplotlib

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.places import IMAGES

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from pyod.models.loda import LODA
from sklearn.cluster import KMeans
from sklearn.ensemble import IsolationForest
from sklearn.metrics import adjusted_rand_score, roc_auc_score
from sklearn.svm import OneClassSVM

from benchmarks.shared.results import publish
from tellwhy.core.errors import TellwhyWarning
from tellwhy.data.generated import LatentClasses, latent_classes
from tellwhy.data.graphs import Grid, chain, grid
from tellwhy.detectors import LCCAD, SVDD, ClusterSVDD
from tellwhy.explainers import LatentClassDTD

GRAPHS: dict[str, Grid] = {"chain": chain(3600), "grid 60×60": grid((60, 60))}
DISTANCES = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
CONTAMINATIONS = (0.01, 0.02, 0.05, 0.1, 0.2)
FIGURE = IMAGES / "lccad-toy.png"
EXPLAINED = FIGURE.with_name("lccad-toy-explained.png")
HIGHEST = 60  # scores that are explained
OURS = "LCCAD"


def fitted(toy: LatentClasses, graph: Grid, seed: int) -> LCCAD:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", TellwhyWarning
        )  # overlapping classes collapse into one: that is an answer
        return LCCAD(2, random_state=seed).fit(toy.X, graph)


def scores(toy: LatentClasses, graph: Grid, seed: int) -> Iterator[tuple[str, np.ndarray]]:
    X = toy.X
    yield OURS, fitted(toy, graph, seed).outlierness()
    yield "ClusterSVDD", ClusterSVDD(2, random_state=seed).fit(X).outlierness(X)
    yield "SVDD", SVDD("linear").fit(X).outlierness(X)
    yield "one-class SVM", -OneClassSVM(nu=0.1).fit(X).score_samples(X)
    yield "isolation forest", -IsolationForest(random_state=seed).fit(X).score_samples(X)
    np.random.seed(seed)  # noqa: NPY002  (LODA draws from numpy's global generator)
    yield "LODA", LODA().fit(X).decision_scores_


def clustering(repeats: int) -> pd.DataFrame:
    lines = []
    for name, graph in GRAPHS.items():
        for distance in DISTANCES:
            for seed in range(repeats):
                toy = latent_classes(graph, distance, random_state=1000 + seed)
                peer = KMeans(2, n_init=10, random_state=seed).fit(toy.X).labels_
                for method, labels in ((OURS, fitted(toy, graph, seed).labels_), ("k-means", peer)):
                    ari = adjusted_rand_score(toy.classes, labels)
                    lines.append({"graph": name, "distance": distance, "method": method, "ARI": ari})
    return pd.DataFrame(lines)


def detection(repeats: int) -> pd.DataFrame:
    lines = []
    for name, graph in GRAPHS.items():
        for distance in (2.0, 4.0):
            for seed in range(repeats):
                toy = latent_classes(graph, distance, random_state=seed)
                for method, score in scores(toy, graph, seed):
                    for share in CONTAMINATIONS:
                        auroc = roc_auc_score(toy.anomalies(share), score)
                        lines.append([name, distance, share, method, seed, auroc])
    return pd.DataFrame(lines, columns=["graph", "distance", "contamination", "method", "seed", "AUROC"])


def clustering_table(found: pd.DataFrame) -> pd.DataFrame:
    mean = found.groupby(["graph", "distance", "method"])["ARI"].agg(["mean", "std"]).reset_index()
    mean["ARI"] = [f"{m:.3f} ± {s:.3f}" for m, s in zip(mean["mean"], mean["std"], strict=True)]
    table = mean.pivot(index=["graph", "distance"], columns="method", values="ARI").reset_index()
    return table.rename(columns={"distance": "distance, σ"})


def detection_table(found: pd.DataFrame, repeats: int) -> pd.DataFrame:
    keys = ["graph", "distance", "contamination"]
    table = found.pivot_table(index=keys, columns="method", values="AUROC", aggfunc="mean")
    others = table.drop(columns=OURS)
    table = table[[OURS, *others.mean().sort_values(ascending=False).index]]
    table["margin to the best other"] = table[OURS] - others.max(axis=1)
    table["best other"] = others.idxmax(axis=1)
    each = found.pivot_table(index=[*keys, "seed"], columns="method", values="AUROC")
    wins = each[OURS] > each.drop(columns=OURS).max(axis=1)
    table["repetitions won"] = [f"{int(n)} of {repeats}" for n in wins.groupby(level=[0, 1, 2]).sum()]
    return table.reset_index().rename(columns={"distance": "distance, σ"}).round(4)


def draw(found_classes: pd.DataFrame, found: pd.DataFrame) -> None:
    figure, axes = plt.subplots(2, 4, figsize=(19, 8.6), constrained_layout=True)
    for line, (name, graph) in zip(axes, GRAPHS.items(), strict=True):
        draw_example(line[0], name, graph)
        draw_clustering(line[1], found_classes[found_classes["graph"] == name])
        for axis, distance in zip(line[2:], (2.0, 4.0), strict=True):
            chosen = found[(found["graph"] == name) & (found["distance"] == distance)]
            draw_detection(axis, chosen, distance)
    figure.savefig(FIGURE, dpi=80)


def draw_example(axis: plt.Axes, name: str, graph: Grid) -> None:
    toy = latent_classes(graph, 4.0, random_state=0)
    odd = toy.anomalies(0.05)
    for k, color in enumerate(("#2f6ea8", "#c65307")):
        own = toy.classes == k
        axis.scatter(*toy.X[own & ~odd].T, s=4, color=color, alpha=0.35, label=f"class {k + 1}")
        axis.scatter(*toy.X[own & odd].T, s=22, facecolor="none", edgecolor=color, linewidth=1.2)
    axis.set(title=f"{name}, 4σ; circles: 5 % most distorted", aspect="equal")
    axis.legend(loc="upper left")


def draw_explained() -> None:
    """The highest scores, each with the relevance of its two features as the arms of a cross (figure 2)."""
    figure, axes = plt.subplots(1, 2, figsize=(14, 6.2), constrained_layout=True)
    for axis, (name, graph) in zip(axes, GRAPHS.items(), strict=True):
        toy = latent_classes(graph, 4.0, random_state=0)
        model = fitted(toy, graph, 0)
        found = LatentClassDTD(model, neighbour_pull=False).explain().top(HIGHEST)
        for k, color in enumerate(("#2f6ea8", "#c65307")):
            own = model.labels_ == k
            axis.scatter(*toy.X[own].T, s=4, color=color, alpha=0.25, label=f"class {k + 1}, as found")
            axis.plot(*model.centres_[k], marker="*", color=color, markersize=16, markeredgecolor="white")
        by_context = found.extras["context_share"] > 0.5
        for words, chosen, color in (
            ("by value", ~by_context, "black"),
            ("by context", by_context, "#b0006d"),
        ):
            draw_crosses(axis, toy.X[found.extras["row"][chosen]], found.shares()[chosen], color, words)
        axis.set(
            title=f"{name}: the {HIGHEST} highest scores",
            xlabel="feature 1",
            ylabel="feature 2",
            aspect="equal",
        )
        axis.legend(loc="upper left")
    figure.suptitle(
        "Arms of a cross: the share that feature 1 (across) and feature 2 (upright) have in the score"
    )
    figure.savefig(EXPLAINED, dpi=80)


def draw_crosses(axis: plt.Axes, X: np.ndarray, shares: np.ndarray, color: str, words: str) -> None:
    arm = 0.35 * shares
    axis.hlines(
        X[:, 1], X[:, 0] - arm[:, 0], X[:, 0] + arm[:, 0], color=color, linewidth=1.6, label=f"odd {words}"
    )
    axis.vlines(X[:, 0], X[:, 1] - arm[:, 1], X[:, 1] + arm[:, 1], color=color, linewidth=1.6)


def draw_clustering(axis: plt.Axes, found: pd.DataFrame) -> None:
    for method, color in ((OURS, "#c65307"), ("k-means", "#2f6ea8")):
        group = found[found["method"] == method].groupby("distance")["ARI"]
        axis.errorbar(DISTANCES, group.mean(), group.std(), label=method, color=color, marker="o", capsize=3)
    axis.set(
        title="classes found",
        xlabel="distance of the means, σ",
        ylabel="adjusted Rand index",
        ylim=(-0.05, 1.05),
    )
    axis.legend(loc="lower right")


def draw_detection(axis: plt.Axes, found: pd.DataFrame, distance: float) -> None:
    colors = dict(
        zip(sorted(set(found["method"]) - {OURS}), plt.cm.Blues(np.linspace(0.35, 1, 5)), strict=True)
    )
    for method, part in found.groupby("method"):
        group = part.groupby("contamination")["AUROC"]
        style = {"color": "#c65307", "linewidth": 2.5} if method == OURS else {"color": colors[method]}
        axis.errorbar(
            group.mean().index, group.mean(), group.std(), label=method, marker="o", capsize=3, **style
        )
    axis.set(title=f"anomalies found, means {distance:g}σ apart", xlabel="share of anomalies", ylabel="AUROC")
    axis.legend(fontsize=8)


if __name__ == "__main__":
    asked = arguments(__doc__, repeats=10, explained=option(False, "draw the explanations alone"))
    draw_explained()
    if asked.explained:
        raise SystemExit
    repeats = asked.repeats
    classes, anomalies = clustering(repeats), detection(repeats)
    draw(classes, anomalies)
    publish(
        "lccad_toy",
        "LCCAD on the paper's toy",
        [
            (
                f"Adjusted Rand index with the true classes, mean ± standard deviation of {repeats} repetitions. θ is "
                "estimated from the data, as by default; k-means has ten starts.",
                clustering_table(classes),
            ),
            (
                "AUROC for the nodes whose distortion ‖x − μ_c‖²/2σ² is above its (1 − contamination) quantile, mean "
                f"of {repeats} repetitions. All methods are unsupervised; those with classes are given their number.",
                detection_table(anomalies, repeats),
            ),
        ],
        peers=("pyod",),
    )
