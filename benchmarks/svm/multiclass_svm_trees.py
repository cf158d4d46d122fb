"""Question: What do trees of SVMs cost and gain with thousands of classes, beside all-in-one SVMs and LinearSVC?

1,055 industry codes of short texts, and generated documents of 10,000 classes, which all-in-one training and one-vs-rest
take too long for here. Processor seconds of training and of labelling the test rows, one run; `--omikuji` measures the
Parabel of that package (pip install omikuji) on the same rows, as a section of the page.
"""

from __future__ import annotations

import json
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from benchmarks.svm._sets import Split, lshtc_look_alike, naics2017
from tellwhy.classifiers import LabelTreeSVM, OneVsRestSVM, WestonWatkinsSVM
from tellwhy.core.errors import NotConverged

TITLE = "Trees of SVMs over thousands of classes"
TEST_SHARE = 0.2


def documents(n: int, n_classes: int) -> Split:
    """Generated documents, of which a part is for the test."""
    whole = lshtc_look_alike(n=n, n_classes=n_classes, n_terms=50_000, words=40)
    often = np.bincount(whole.y)[whole.y] >= 2
    drawn = np.random.default_rng(1).random(n) < TEST_SHARE
    first = np.zeros(n, dtype=bool)
    first[np.unique(whole.y, return_index=True)[1]] = True
    test = often & drawn & ~first  # every class keeps a row to learn from
    name = f"documents, {n_classes:,} classes"
    return Split(name, whole.X[~test], whole.y[~test], whole.X[test], whole.y[test], "tf-idf, unit norm")


def models(n_classes: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "one tree", lambda: LabelTreeSVM(n_trees=1, n_jobs=1)
    yield "three trees", lambda: LabelTreeSVM(n_jobs=1)
    if n_classes > 5_000:
        return
    yield "all in one (Weston–Watkins), C = 1", lambda: WestonWatkinsSVM(random_state=0, n_jobs=1)
    yield "one-vs-rest, C = 1", lambda: OneVsRestSVM(random_state=0, n_jobs=1)
    yield "LinearSVC (squared hinge), C = 1", lambda: LinearSVC(random_state=0)


def measure(s: Split) -> Iterator[dict[str, Any]]:
    n_classes = len(np.unique(s.y))
    for name, make in models(n_classes):
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = make().fit(s.X, s.y)
        trained = time.process_time()
        found = model.predict(s.X_test)
        labelled = time.process_time()
        yield {
            "data": s.name, "classes": n_classes, "training rows": s.X.shape[0], "model": name,
            "error %": 100 * float((found != s.y_test).mean()), "training, CPU s": trained - started,
            "labelling, ms a row": 1000 * (labelled - trained) / len(s.y_test),
            "largest gap": float(getattr(model, "dual_gap_", np.nan)),
        }  # fmt: skip


def measure_omikuji(s: Split) -> dict[str, Any]:
    """Parabel with its defaults, three trees, on one thread."""
    import omikuji

    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "train.txt"
        write_rows(path, s)
        started = time.process_time()
        model = omikuji.Model.train_on_data(str(path), omikuji.Model.default_hyper_param(), 1)
        trained = time.process_time()
    found = []
    for at, end in pairwise(s.X_test.indptr):
        row = list(zip(s.X_test.indices[at:end].tolist(), s.X_test.data[at:end].tolist(), strict=True))
        best = model.predict(row, top_k=1)
        found.append(best[0][0] if best else -1)
    labelled = time.process_time()
    return {
        "data": s.name, "classes": len(np.unique(s.y)), "training rows": s.X.shape[0], "model": "omikuji, three trees",
        "error %": 100 * float((np.array(found) != s.y_test).mean()), "training, CPU s": trained - started,
        "labelling, ms a row": 1000 * (labelled - trained) / len(s.y_test),
    }  # fmt: skip


def write_rows(path: Path, s: Split) -> None:
    """The form of the extreme classification repository: a header, then label and features of each row."""
    lines = [f"{s.X.shape[0]} {s.X.shape[1]} {int(max(s.y.max(), s.y_test.max())) + 1}"]
    for i, (at, end) in enumerate(pairwise(s.X.indptr)):
        cells = zip(s.X.indices[at:end].tolist(), s.X.data[at:end].tolist(), strict=True)
        lines.append(f"{s.y[i]} " + " ".join(f"{j}:{value:.6g}" for j, value in cells))
    path.write_text("\n".join(lines) + "\n")


def main() -> None:
    asked = arguments(
        __doc__,
        omikuji=option(False, "measure that package alone"),
        rows=option(30_000, "documents that are generated"),
        many=10_000,
    )
    WestonWatkinsSVM().fit(np.eye(6), np.arange(6) % 3)  # what is compiled once
    lines = []
    if asked.omikuji:
        lines = [measure_omikuji(s) for s in (naics2017(), documents(asked.rows, asked.many))]
        words = (
            "Parabel as omikuji has it, with its defaults, on one thread; features and test rows as above."
        )
        publish(
            "multiclass_svm_trees",
            TITLE,
            [(words, pd.DataFrame(lines))],
            section="Beside omikuji",
            peers=("omikuji",),
        )
        return
    for s in (naics2017(), documents(asked.rows, asked.many)):
        for line in measure(s):
            print(json.dumps(line), flush=True)
            lines.append(line)
    publish(
        "multiclass_svm_trees",
        TITLE,
        [
            (
                "Trees have at most 100 classes in a leaf; the default SVM, C = 1, gaps of 0.01.",
                pd.DataFrame(lines),
            )
        ],
    )


if __name__ == "__main__":
    main()
