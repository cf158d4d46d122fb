"""Writes one small file per kind of model into an archive, and `expected.json`: what each gives for new rows.

Run once for each format of model files (`python tests/storage/saved/write_saved.py schema_1.zip`), with the
code that writes it; the archive is then kept as it is, and every later version must read what it holds.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import compose, ensemble, neighbors, pipeline, preprocessing, svm

import tellwhy
from tellwhy import classifiers, detectors, explainers
from tellwhy.bases import KernelBasis
from tellwhy.data.graphs import chain
from tellwhy.workflow import fit_model

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(24, 3)).round(2)
NEW = np.random.default_rng(1).normal(size=(4, 3)).round(2)
LABELS = np.digitize(ROWS[:, 0], [-0.4, 0.4])
WORDS = ["red apple", "green apple", "blue sky", "grey sky"] * 3
KERNEL = detectors.KernelDensity().fit(ROWS)
NEW_WORDS = ["red sky", "green apple pie"]


def mixed_table(n: int, seed: int) -> pd.DataFrame:
    """A table with every kind of column."""
    rng = np.random.default_rng(seed)
    days = pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 90, n), unit="D")
    return pd.DataFrame(
        {
            "price": rng.normal(20, 3, n).round(2),
            "cost": [f"{value:.2f} €" for value in rng.normal(9, 1, n)],
            "n": rng.integers(1, 9, n),
            "day": days,
            "paid": rng.choice(["yes", "no"], n, p=[0.8, 0.2]),
            "city": rng.choice(["Lima", "Oslo", "Rome"], n),
            "note": rng.choice(["late again", "all fine here", "call the client back"], n),
        }
    )


def table_scores(model: Any) -> Any:
    """Scores of the rows that a model of a table keeps, but for columns of texts and segments."""
    names = list(model.encoder.columns_)
    encoded = model.encoder.transform(model.reference[names])
    return model.detector.outlierness(encoded)


def of(name: str, rows: Any = NEW) -> Callable[[Any], Any]:
    """What a method of a model gives for rows."""
    return lambda model: np.asarray(getattr(model, name)(rows))


def values(rows: Any) -> Callable[[Any], Any]:
    """What an explainer gives."""
    return lambda explainer: explainer.explain(rows).values


def frame(rows: Any) -> pd.DataFrame:
    """Rows whose columns have names."""
    return pd.DataFrame(rows, columns=["a", "b", "c"])


def mixed_pipeline() -> Any:
    """Columns of numbers and labels, then a forest."""
    columns = compose.ColumnTransformer(
        [
            ("n", preprocessing.StandardScaler(), ["price", "n"]),
            ("c", preprocessing.OneHotEncoder(handle_unknown="ignore"), ["city"]),
        ]
    )
    forest = ensemble.IsolationForest(n_estimators=2, max_samples=8, random_state=0)
    return pipeline.make_pipeline(columns, forest).fit(mixed_table(24, 1))


def histograms() -> Any:
    """Boosted trees with a gap, and a column of categories."""
    rows = np.column_stack([ROWS, LABELS])
    rows[3, 1] = np.nan
    model = ensemble.HistGradientBoostingRegressor(
        max_iter=2, min_samples_leaf=3, categorical_features=[3], random_state=0
    )
    return model.fit(rows, ROWS[:, 0])


def texts() -> Any:
    """A classifier of texts."""
    return classifiers.TextClassifier().fit(WORDS, ["fruit", "fruit", "air", "air"] * 3)


def classifier_on_basis() -> Any:
    """An SVM on features of a kernel."""
    model = classifiers.KernelBasisClassifier(
        KernelBasis(n_features=8, random_state=0), classifiers.WestonWatkinsSVM(random_state=0)
    )
    return model.fit(ROWS, LABELS)


def patches() -> Any:
    """A model of the windows of series."""
    series = np.random.default_rng(0).normal(size=(6, 12))
    return detectors.PatchModel(detectors.KernelDensity(), patch_size=4, stride=4).fit(series)


def latent() -> Any:
    """Latent classes along a chain."""
    return detectors.LCCAD(2, random_state=0).fit(
        np.where(np.arange(24)[:, None] < 12, ROWS, ROWS + 5), chain(24)
    )


def shapley() -> Any:
    """Shapley values of groups of named columns."""
    return explainers.AnomalyShapley(KERNEL, groups=[["a", "b"], ["c"]]).fit(frame(ROWS))


def surrogate() -> Any:
    """A short chain of a mixture of regressions."""
    return explainers.DMMMEN(KERNEL, n_sweeps=8, n_burn=2, n_jobs=1, random_state=0).fit(ROWS)


def occlusion() -> Any:
    """An explainer of a model of scikit-learn."""
    forest = ensemble.IsolationForest(n_estimators=2, max_samples=8, random_state=0).fit(ROWS)
    return explainers.Occlusion(forest).fit(ROWS)


MADE: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "table": (lambda: fit_model(mixed_table(40, 0), text=["note"]), table_scores),
    "table by city": (lambda: fit_model(mixed_table(60, 0), by=["city"], exclude=["note"]), table_scores),
    "committee": (lambda: detectors.Committee().fit(ROWS), of("outlierness")),
    "kernel density": (lambda: detectors.KernelDensity().fit(ROWS), of("outlierness")),
    "one-class svm": (lambda: detectors.OneClassSVM("student_t", bandwidth=2.0).fit(ROWS), of("outlierness")),
    "cluster svdd": (lambda: detectors.ClusterSVDD(2, random_state=0).fit(ROWS), of("outlierness")),
    "mixture": (lambda: detectors.GaussianMixture(2, random_state=0).fit(ROWS), of("outlierness")),
    "neighbours": (lambda: detectors.NearestNeighbours(3).fit(frame(ROWS)), of("outlierness", frame(NEW))),
    "marginals": (lambda: detectors.MixedMarginals().fit(ROWS), of("outlierness")),
    "components": (lambda: detectors.PCADetector(2).fit(ROWS), of("outlierness")),
    "patches": (patches, of("outlierness", np.random.default_rng(1).normal(size=(2, 12)))),
    "latent classes": (latent, lambda model: model.outlierness()),
    "basis": (
        lambda: KernelBasis(n_features=8, structure="hadamard", random_state=0).fit(ROWS),
        of("transform"),
    ),
    "svm": (lambda: classifiers.WestonWatkinsSVM(random_state=0).fit(ROWS, LABELS), of("decision_function")),
    "svm on a basis": (classifier_on_basis, of("decision_function")),
    "texts": (texts, of("decision_function", NEW_WORDS)),
    "shapley": (shapley, values(frame(NEW))),
    "surrogate": (surrogate, values(NEW)),
    "occlusion": (occlusion, values(NEW)),
    "lime": (lambda: explainers.Lime(KERNEL, n_samples=16).fit(ROWS), values(NEW)),
    "contribution": (lambda: explainers.AnomalyContribution(KERNEL).fit(ROWS), values(NEW)),
    "sklearn pipeline": (mixed_pipeline, lambda model: model.score_samples(mixed_table(4, 3))),
    "sklearn histograms": (histograms, of("predict", np.column_stack([NEW, [0, 1, 2, 0]]))),
    "sklearn boosting": (
        lambda: ensemble.GradientBoostingClassifier(n_estimators=1, max_depth=2).fit(ROWS, LABELS),
        of("predict_proba"),
    ),
    "sklearn svm": (lambda: svm.SVC().fit(ROWS, LABELS), of("decision_function")),
    "sklearn outlier factor": (
        lambda: neighbors.LocalOutlierFactor(3, novelty=True).fit(ROWS),
        of("score_samples"),
    ),
}


def given(name: str, model: Any) -> list[Any]:
    """What a model gives for new rows, in plain numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chains of eight sweeps do not agree
        found: list[Any] = np.asarray(MADE[name][1](model), dtype=float).tolist()
    return found


def file_name(name: str) -> str:
    """Of the file of a model."""
    return name.replace(" ", "-") + ".tellwhy"


def write(archive: Path) -> None:
    """Fit and save everything."""
    expected = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name, (make, _) in MADE.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = make()
            tellwhy.save(model, folder / file_name(name))
            expected[name] = given(name, model)
        (folder / "expected.json").write_text(json.dumps(expected) + "\n", encoding="utf-8")
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
            for path in sorted(folder.iterdir()):
                packed.write(path, path.name)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
