"""Does it help to choose between explainers on altered ordinary rows, as `tellwhy.explain` does with `method="tried"`?

Ten public sets that nothing was settled on, and four detectors each: the one-liner's choice beside each method alone.
New normal rows, one cell of each moved by one to two standard deviations.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.covariance import EllipticEnvelope
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import LocalOutlierFactor

import tellwhy
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from benchmarks.shared.units import finished
from tellwhy.evaluation import inject_anomalies, localisation

SETS = {
    "annthyroid": 2,
    "cover": 10,
    "fault": 12,
    "glass": 14,
    "letter": 20,
    "magic.gamma": 22,
    "satellite": 30,
    "WBC": 42,
    "Wilt": 44,
    "WPBC": 46,
}
DETECTORS: dict[str, Callable[[], Any]] = {
    "GaussianMixture": lambda: GaussianMixture(3, reg_covar=1e-3, random_state=0),
    "PCA": lambda: PCA(0.8, svd_solver="full"),
    "EllipticEnvelope": lambda: EllipticEnvelope(support_fraction=0.9, random_state=0),
    "LocalOutlierFactor": lambda: LocalOutlierFactor(novelty=True),
}
ALONE: dict[str, tuple[str, dict[str, str]]] = {
    "AnomalyShapley": ("AnomalyShapley", {}),
    "KernelShap(baseline='neighbours')": ("KernelShap", {"baseline": "neighbours"}),
    "KernelShap": ("KernelShap", {"baseline": "kmeans"}),
}
MOVED = 60
MOST_COLUMNS = {"LocalOutlierFactor": 10}  # it scores a row in a tenth of a millisecond and more


def rows_of(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Normal rows to fit to and new ones, in the training rows' standard deviations."""
    data = np.load(folder / f"{SETS[name]}_{name}.npz")
    X = data["X"][data["y"] == 0].astype(float)
    X = X[np.random.default_rng(0).permutation(len(X))][:1_600]
    n_new = min(MOVED, len(X) // 4)
    train = X[n_new:]
    kept = train.std(axis=0) > 0
    train, new = train[:, kept], X[:n_new, kept]
    return (train - train.mean(axis=0)) / train.std(axis=0), (new - train.mean(axis=0)) / train.std(axis=0)


def columns(folder: Path, name: str) -> int:
    return int(rows_of(folder, name)[0].shape[1])


def measured(unit: dict[str, Any]) -> dict[str, Any]:
    """Mean reciprocal ranks of the choice and of each method alone."""
    warnings.simplefilter("ignore")  # of detectors that do not converge, which is not the matter here
    train, new = rows_of(unit["folder"], unit["set"])
    model = DETECTORS[unit["detector"]]().fit(train)
    odd = inject_anomalies(new, 1, random_state=1, scale=1.0)
    auto = tellwhy.explain(model, odd.X, "tried", background=train)
    line = {"set": unit["set"], "d": train.shape[1], "detector": unit["detector"], "rows": len(new)}
    references = auto.params.get("baseline") == "neighbours"
    line["chosen"] = auto.method + ("(baseline='neighbours')" if references else "")
    line["choice"] = localisation(auto, odd.truth).mrr
    for name, (method, own) in ALONE.items():
        found = tellwhy.explain(model, odd.X, method, background=train, **own)
        line[name] = localisation(found, odd.truth).mrr
    return line


def write(lines: list[dict[str, Any]]) -> None:
    order = [(s, d) for s in SETS for d in DETECTORS]
    table = pd.DataFrame(sorted(lines, key=lambda line: order.index((line["set"], line["detector"]))))
    best = table[list(ALONE)].max(axis=1)
    taken = table[table["chosen"] != "AnomalyShapley"]
    summary = {"pairs": len(table), "another method chosen": len(taken), "choice": table["choice"].mean()}
    summary |= {name: table[name].mean() for name in ALONE} | {"the best of each pair": best.mean()}
    gains = taken["choice"] - taken["AnomalyShapley"]
    summary |= {"gain where another was chosen": gains.mean(), "lowest": gains.min(), "highest": gains.max()}
    parts = [
        (
            "Means over the pairs, and what the one-liner gained over Anomaly Shapley in the pairs where it took another "
            "one. The limit of its time was off.",
            pd.DataFrame([summary]),
        ),
        (
            "Mean reciprocal rank of the one cell that was moved in each of the new rows: the one-liner's choice, and each "
            "method alone.",
            table,
        ),
    ]
    publish("anomaly_shapley_choice", "Choosing between explainers on altered ordinary rows", parts)


def main() -> None:
    asked = arguments(
        __doc__,
        "cores",
        "seconds",
        "save",
        folder=option(Path, "of ADBench's classical sets, NUMBER_NAME.npz"),
        sets=option(list(SETS), choices=SETS),
        kept=option(Path, "write the page of such figures"),
    )
    if asked.kept:
        write(json.loads(asked.kept.read_text()))
        return
    units = [{"folder": asked.folder, "set": s, "detector": d} for s in asked.sets for d in DETECTORS]
    units = [u for u in units if columns(asked.folder, u["set"]) <= MOST_COLUMNS.get(u["detector"], 1_000)]
    lines = []
    for line in finished(measured, units, list(range(asked.cores)), asked.seconds):
        lines.append(line)
        print(line, flush=True)
        if asked.save:
            asked.save.write_text(json.dumps(lines, indent=1))
    if not asked.save:
        write(lines)


if __name__ == "__main__":
    main()
