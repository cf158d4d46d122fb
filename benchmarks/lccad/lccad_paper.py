"""Question: What does LCCAD find in the paper's own configuration, with its objective as printed and corrected?

The paper's: prior "crf", random Fourier features, loopy belief propagation, γ so that ‖v‖ = 1, ν = 1. Its θ is not
stated: every θ of a grid is reported, and none is chosen. Beside it `ClusterSVDD` and the defaults, on its toy.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score, roc_auc_score

from benchmarks.shared.arguments import arguments
from benchmarks.shared.results import publish
from tellwhy.bases import KernelBasis
from tellwhy.core.errors import TellwhyWarning
from tellwhy.data.generated import LatentClasses, latent_classes
from tellwhy.data.graphs import Grid, chain, grid
from tellwhy.detectors import LCCAD, ClusterSVDD

GRAPHS: dict[str, Grid] = {"chain": chain(1800), "grid 40×40": grid((40, 40))}
DISTANCES = (2.0, 4.0)
THETAS = (0.1, 0.5, 0.9, 0.99)
SHARE = 0.05
PAPER: dict[str, Any] = {"prior": "crf", "inference": "lbp", "gamma": "auto", "n_init": 3}


def fit(toy: LatentClasses, graph: Grid, **settings: Any) -> tuple[float, float]:
    """Adjusted Rand index with the true classes, and AUROC of the nodes that are most distorted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TellwhyWarning)
        model = LCCAD(2, **settings).fit(toy.X, graph)
    return judge(toy, model.labels_, model.outlierness())


def judge(toy: LatentClasses, labels: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    return adjusted_rand_score(toy.classes, labels), roc_auc_score(toy.anomalies(SHARE), scores)


def ways(toy: LatentClasses, graph: Grid, seed: int) -> Any:
    """Every way to find classes and anomalies: its name, θ, and what came of it."""
    yield "defaults", "auto", fit(toy, graph, random_state=seed)
    peer = ClusterSVDD(2, random_state=seed).fit(toy.X)
    yield "ClusterSVDD", "", judge(toy, peer.labels_, peer.outlierness(toy.X))
    for features in ("identity", KernelBasis(n_features=200, random_state=seed)):
        kind = "columns" if isinstance(features, str) else "random features"
        for normalised in (True, False):
            name = f"the paper's, {kind}, {'as printed' if normalised else 'corrected'}"
            for theta in THETAS:
                made = {"theta": theta, "features": features, "normalised": normalised, "random_state": seed}
                yield name, f"{theta:g}", fit(toy, graph, **PAPER, **made)


def measure(repeats: int) -> pd.DataFrame:
    lines = []
    for graph_name, graph in GRAPHS.items():
        for distance in DISTANCES:
            for seed in range(repeats):
                toy = latent_classes(graph, distance, random_state=2000 + seed)
                for name, theta, (ari, auroc) in ways(toy, graph, seed):
                    lines.append([graph_name, distance, name, theta, seed, ari, auroc])
            print(graph_name, distance, flush=True)
    columns = ["graph", "distance, σ", "model", "θ", "seed", "ARI", "AUROC"]
    return pd.DataFrame(lines, columns=columns)


def summarise(found: pd.DataFrame) -> pd.DataFrame:
    """Means over repetitions, and AUROC less that of ClusterSVDD on the same draws."""
    keys = ["graph", "distance, σ", "model", "θ"]
    peer = found[found["model"] == "ClusterSVDD"].set_index(["graph", "distance, σ", "seed"])["AUROC"]
    beside = peer.reindex(pd.MultiIndex.from_frame(found[["graph", "distance, σ", "seed"]])).to_numpy()
    found = found.assign(gain=found["AUROC"] - beside)
    told = found.groupby(keys, sort=False)[["ARI", "AUROC", "gain"]].mean().reset_index()
    spread = found.groupby(keys, sort=False)["gain"].std().to_numpy()
    told["± "] = spread
    return told.rename(columns={"gain": "AUROC − ClusterSVDD's"}).round(3)


def main() -> None:
    asked = arguments(__doc__, repeats=5)
    found = measure(asked.repeats)
    text = (
        f"Means of {asked.repeats} draws. AUROC: nodes among the {SHARE:.0%} whose distortion ‖x − μ_c‖²/2σ² is the "
        "largest. 'As printed': `normalised=True`, each loss divided by n_k ν. The last column is the standard deviation "
        "of the difference over draws."
    )
    publish("lccad_paper", "LCCAD in the paper's own configuration", [(text, summarise(found))])


if __name__ == "__main__":
    main()
