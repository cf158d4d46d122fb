"""Question: does Weston–Watkins over sets of labels (equation III.17 of the thesis) label better than one-vs-rest?

Documents are generated. C is chosen on rows of its own.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import f1_score

from benchmarks.shared.arguments import arguments
from benchmarks.shared.results import publish
from tellwhy.classifiers import OneVsRestSVM, WestonWatkinsSVM
from tellwhy.core.errors import NotConverged

N, TERMS, TOPICS = 1_500, 1_000, 40
TRAIN, CHOOSE = 600, 300  # rows to train on, and to choose C on; the others are tested
WORDS = 40
CS = (0.1, 1.0, 10.0, 1e2, 1e3, 1e4, 1e5)
SEEDS = range(3)


def documents(seed: int) -> tuple[Any, Any]:
    """Documents of one to four topics; half of the words are words of these, the others follow Zipf's law."""
    rng = np.random.default_rng(seed)
    own = rng.integers(0, TERMS, size=(TOPICS, 30))
    zipf = 1.0 / np.arange(1, TERMS + 1)
    X = np.zeros((N, TERMS))
    Y = np.zeros((N, TOPICS), dtype=np.int64)
    for x, y in zip(X, Y, strict=True):
        topics = rng.choice(TOPICS, size=rng.integers(1, 5), replace=False)
        y[topics] = 1
        np.add.at(x, own[rng.choice(topics, WORDS // 2), rng.integers(0, 30, WORDS // 2)], 1)
        np.add.at(x, rng.choice(TERMS, WORDS // 2, p=zipf / zipf.sum()), 1)
    return sparse.csr_array(TfidfTransformer(sublinear_tf=True).fit_transform(sparse.csr_array(X))), Y


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
    arguments(__doc__)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        lines = [measured(cls, seed) for cls in (WestonWatkinsSVM, OneVsRestSVM) for seed in SEEDS]
    text = (
        f"{N:,} generated documents of {TERMS:,} terms with one to four of {TOPICS} labels: {TRAIN} to train on, {CHOOSE} "
        f"to choose C on (of {', '.join(f'{C:g}' for C in CS)}), the others tested; tf-idf, gap 1e-2."
    )
    table = pd.DataFrame(lines)
    means = (
        table.groupby("solver", sort=False).mean(numeric_only=True).drop(columns=["seed", "C"]).reset_index()
    )
    parts = [(text, table), ("Means over the draws.", means)]
    publish("multiclass_svm_multilabel", "Weston–Watkins over sets of labels", parts)
