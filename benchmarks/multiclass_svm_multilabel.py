"""Claim: Weston–Watkins over sets of labels (equation III.17 of the thesis) labels better than one-vs-rest, and is sparser.

Generated documents: each has up to a few of many topics, and words of its topics. C is chosen on rows of its own.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from _results import publish
from scipy import sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import f1_score

from tellwhy.classifiers import OneVsRestSVM, WestonWatkinsSVM
from tellwhy.core.errors import NotConverged

N, TERMS, TOPICS = 1_500, 1_000, 40
TRAIN, CHOOSE = 600, 300  # rows to train on, and to choose C on; the others are tested
CS = (0.1, 1.0, 10.0, 100.0)
SEEDS = range(3)


def documents(seed: int) -> tuple[Any, Any]:
    X, Y = make_multilabel_classification(
        N, TERMS, n_classes=TOPICS, n_labels=3, length=60, allow_unlabeled=False, random_state=seed
    )
    return sparse.csr_array(TfidfTransformer(sublinear_tf=True).fit_transform(X)), Y


def measured(cls: Any, seed: int) -> dict[str, Any]:
    """Scores on test rows at the C that was best on rows of its own."""
    X, Y = documents(seed)
    train, choose, test = np.split(np.arange(N), [TRAIN, TRAIN + CHOOSE])
    started = time.process_time()
    models = [cls(C=C, tol=1e-2, random_state=seed).fit(X[train], Y[train]) for C in CS]
    best = max(models, key=lambda model: f1_score(Y[choose], model.predict(X[choose]), average="micro"))
    found = best.predict(X[test])
    return {
        "solver": cls.__name__, "seed": seed, "C": best.C,
        "micro F1 %": 100 * f1_score(Y[test], found, average="micro"),
        "macro F1 %": 100 * f1_score(Y[test], found, average="macro", zero_division=0),
        "all labels right %": 100 * float((found == Y[test]).all(axis=1).mean()),
        "density %": 100 * best.density_, "gap": best.dual_gap_, "CPU s of all C": time.process_time() - started,
    }  # fmt: skip


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        lines = [measured(cls, seed) for cls in (WestonWatkinsSVM, OneVsRestSVM) for seed in SEEDS]
    text = (
        f"{N:,} generated documents of {TERMS:,} terms with some 3 of {TOPICS} labels: {TRAIN} to train on, {CHOOSE} to "
        f"choose C on (of {', '.join(f'{C:g}' for C in CS)}), the others tested; tf-idf, gap 1e-2, a draw a seed."
    )
    table = pd.DataFrame(lines)
    means = (
        table.groupby("solver", sort=False).mean(numeric_only=True).drop(columns=["seed", "C"]).reset_index()
    )
    parts = [(text, table), ("Means over the draws.", means)]
    publish("multiclass_svm_multilabel", "Weston–Watkins over sets of labels", parts)
