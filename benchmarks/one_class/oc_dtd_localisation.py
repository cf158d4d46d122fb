"""Which explainer finds the one feature that was shifted? One-class SVM and kernel density on six tables.

The form of One-Class DTD (plain or relative) and the bandwidth are chosen by the library on training rows; what it
chooses by was fixed on the generated tables of the last part. `--generated` runs that part alone.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from benchmarks.one_class._tables import FAMILIES, generated
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from tellwhy.data import fetch
from tellwhy.detectors import KernelDensity, OneClassSVM
from tellwhy.evaluation import inject_anomalies, localisation
from tellwhy.explainers import (
    ExpectedValue,
    GaussianNLL,
    NearestSupport,
    Occlusion,
    OneClassDTD,
    RandomAttribution,
    Sensitivity,
    SimpleTaylor,
)

SETS = ("thyroid", "breastw", "U2R", "lympho", "musk", "arrhythmia")
BASELINES = (
    SimpleTaylor,
    Sensitivity,
    NearestSupport,
    ExpectedValue,
    GaussianNLL,
    Occlusion,
    RandomAttribution,
)
ROWS, TRIES, LYMPHO_TRIES = 60, 2, 20
DRAWS = 4_000  # of the bootstrap


def injected(name: str, test: np.ndarray, train: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Normal test rows with one feature shifted by ±U(1, 2) training standard deviations (flipped where binary)."""
    normal = test[: len(test) // 2][:ROWS]
    tries = LYMPHO_TRIES if name == "lympho" else TRIES
    draws = [
        inject_anomalies(
            normal, 1, random_state=seed, scale=np.where(train.std(axis=0) > 0, train.std(axis=0), 1.0)
        )
        for seed in range(tries)
    ]
    return np.vstack([d.X for d in draws]), np.vstack([d.truth for d in draws])


def reciprocal_ranks(explainer: Any, train: np.ndarray, X: np.ndarray, truth: np.ndarray) -> np.ndarray:
    if hasattr(explainer, "fit"):
        explainer.fit(train)
    return localisation(explainer.explain(X), truth).reciprocal_ranks


def behind(ours: np.ndarray, other: np.ndarray) -> str:
    """95 % interval of the mean difference of paired rows, by bootstrap."""
    gain = ours - other
    means = np.random.default_rng(0).choice(gain, (DRAWS, len(gain))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{low:+.2f} to {high:+.2f}"


def standing(ours: np.ndarray, others: dict[str, np.ndarray]) -> dict[str, Any]:
    """Place of the chosen form beside the best of the other methods."""
    best = max(others, key=lambda name: others[name].mean())
    interval = behind(ours, others[best])
    place = "first" if ours.mean() >= others[best].mean() else "behind"
    if place == "behind" and float(interval.split(" to ")[1]) >= 0:
        place = "tied"
    return {"best other": best, "ours − best other, 95 %": interval, "place": place}


def rows_of(name: str, bandwidth: str) -> list[dict[str, Any]]:
    data = fetch(f"takeishi_splits_{name}")
    train, test = data["train"].astype(float), data["test"].astype(float)
    X, truth = injected(name, test, train)
    labels = np.arange(len(test)) >= len(test) // 2
    found = []
    for detector in (OneClassSVM(nu=0.1, bandwidth=bandwidth), KernelDensity(bandwidth=bandwidth)):
        started = time.perf_counter()
        detector.fit(train)
        seconds = time.perf_counter() - started
        shown = OneClassDTD(detector, relative="auto").explain(X)
        chosen = localisation(shown, truth).reciprocal_ranks
        forms = {
            "plain": reciprocal_ranks(OneClassDTD(detector), train, X, truth),
            "relative": reciprocal_ranks(OneClassDTD(detector, relative=True), train, X, truth),
        }
        others = {cls.__name__: reciprocal_ranks(cls(detector), train, X, truth) for cls in BASELINES}
        line: dict[str, Any] = {"set": name, "d": train.shape[1], "detector": type(detector).__name__}
        line |= {
            "AUROC of real anomalies": roc_auc_score(labels, detector.outlierness(test)),
            "fit, s": seconds,
        }
        line |= {key: ranks.mean() for key, ranks in forms.items()}
        line |= {"shown": chosen.mean(), "form shown": "relative" if shown.kind == "relative" else "plain"}
        line |= standing(chosen, others) | {key: ranks.mean() for key, ranks in others.items()}
        found.append(line)
        print(line, flush=True)
    return found


def generated_lines(seed: int) -> pd.DataFrame:
    """Mean reciprocal ranks on generated tables: what the rule of the form and the bandwidth rest on."""
    lines = []
    for family in FAMILIES:
        for n, d in ((150, 6), (600, 12), (150, 40), (600, 120)):
            train, X, truth = generated(family, n, d, seed)
            for cls in (OneClassSVM, KernelDensity):
                line: dict[str, Any] = {"family": family, "detector": cls.__name__}
                for bandwidth in ("auto", "localisation"):
                    model = cls(bandwidth=bandwidth).fit(train)
                    for words, relative in (("plain", False), ("relative", True), ("shown", "auto")):
                        explanation = OneClassDTD(model, relative=relative).explain(X)
                        line[f"{bandwidth}: {words}"] = localisation(explanation, truth).mrr
                lines.append(line)
    table = pd.DataFrame(lines)
    means = table.groupby(["detector", "family"], sort=False).mean(numeric_only=True).reset_index()
    total = table.groupby("detector", sort=False).mean(numeric_only=True).reset_index()
    return pd.concat([means, total.assign(family="all")[means.columns]], ignore_index=True)


def six_sets() -> list[tuple[str, pd.DataFrame]]:
    parts = []
    counts = []
    for bandwidth in ("localisation", "auto"):
        table = pd.DataFrame([line for name in SETS for line in rows_of(name, bandwidth)])
        for name, group in table.groupby("detector"):
            places = group["place"].value_counts()
            means = {key: group[key].mean() for key in ("plain", "relative", "shown")}
            means |= {cls.__name__: group[cls.__name__].mean() for cls in BASELINES}
            at_least = int(places.get("first", 0) + places.get("tied", 0))
            counts.append(
                {"bandwidth": bandwidth, "detector": name, "first or tied": f"{at_least} of {len(SETS)}"}
                | means
            )
        parts.append((TEXTS[bandwidth], table))
    return [
        ("Sets on which the form shown is first or tied, and means over the six.", pd.DataFrame(counts)),
        *parts,
    ]


TEXTS = {
    "localisation": (
        "`bandwidth='localisation'`. Mean reciprocal rank of the one shifted feature (1 = always first), normal test "
        "rows shifted by ±U(1, 2) standard deviations. 'shown' is the form that `relative='auto'`, the one-liner and "
        "reports show. All methods explain the same fitted model. Tied: behind the best other method, but the 95 % "
        "interval of the paired difference reaches 0."
    ),
    "auto": "The same with `bandwidth='auto'`.",
}

if __name__ == "__main__":
    asked = arguments(__doc__, generated=option(False, "print generated tables alone, write no page"))
    text = (
        "Generated tables that the library's choices were fixed on (what is divided by, the tenth of the rows that is "
        "left out of the usual relevance, and when the relative form is shown), here with another seed: eleven "
        "families, four sizes each, 150 injected rows. None of the six sets was used for it, but for one rule that U2R "
        "prompted: a value that fewer than 1 % of the rows have is no other one of two values to move a cell to."
    )
    parts = [(text, generated_lines(seed=1))]
    if asked.generated:
        print(parts[0][1].to_string())
    else:
        publish("oc_dtd_localisation", "Finding the shifted feature", [*six_sets(), *parts])
