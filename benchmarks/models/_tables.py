"""Models of tables for `any_model.py`: scikit-learn, XGBoost, LightGBM and functions, and the detectors of PyOD."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import xgboost
from sklearn import (
    calibration,
    cluster,
    compose,
    covariance,
    decomposition,
    discriminant_analysis,
    ensemble,
    gaussian_process,
    linear_model,
    mixture,
    multiclass,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)

import tellwhy
from benchmarks.models._checks import (
    SINGLE,
    Line,
    by_enumeration,
    by_planting,
    by_quadratic,
    shapley,
    swap_array,
    tried,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 5))
Y = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.5 * X[:, 3]
LABELS = np.array(["a", "b", "c"])[np.digitize(Y, [-0.5, 0.5])]
BACKGROUND = X[:24]
ROWS = X[100:103]

REGRESSORS = [
    linear_model.LinearRegression(),
    linear_model.Lasso(0.01),
    linear_model.HuberRegressor(),
    linear_model.PoissonRegressor(),
    pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.Ridge()),
    pipeline.make_pipeline(preprocessing.PolynomialFeatures(2), linear_model.Ridge()),
    compose.TransformedTargetRegressor(linear_model.Ridge(), func=np.cbrt, inverse_func=lambda z: z**3),
    svm.SVR(),
    neighbors.KNeighborsRegressor(),
    gaussian_process.GaussianProcessRegressor(),
    neural_network.MLPRegressor(max_iter=80, random_state=0),
    tree.DecisionTreeRegressor(max_depth=5, random_state=0),
    ensemble.RandomForestRegressor(20, random_state=0),
    ensemble.ExtraTreesRegressor(20, random_state=0),
    ensemble.GradientBoostingRegressor(n_estimators=20, random_state=0),
    ensemble.HistGradientBoostingRegressor(max_iter=20, random_state=0),
    ensemble.AdaBoostRegressor(n_estimators=10, random_state=0),
    ensemble.StackingRegressor([("t", tree.DecisionTreeRegressor(max_depth=3)), ("r", linear_model.Ridge())]),
    xgboost.XGBRegressor(n_estimators=20, max_depth=4),
    lightgbm.LGBMRegressor(n_estimators=20, verbose=-1),
]
CLASSIFIERS = [
    linear_model.LogisticRegression(),
    linear_model.SGDClassifier(random_state=0),
    linear_model.RidgeClassifier(),
    svm.LinearSVC(),
    svm.SVC(),
    pipeline.make_pipeline(preprocessing.StandardScaler(), svm.SVC()),
    naive_bayes.GaussianNB(),
    neighbors.KNeighborsClassifier(),
    discriminant_analysis.LinearDiscriminantAnalysis(),
    discriminant_analysis.QuadraticDiscriminantAnalysis(),
    gaussian_process.GaussianProcessClassifier(),
    neural_network.MLPClassifier(max_iter=80, random_state=0),
    calibration.CalibratedClassifierCV(svm.LinearSVC()),
    multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
    tree.DecisionTreeClassifier(max_depth=5, random_state=0),
    ensemble.RandomForestClassifier(20, random_state=0),
    ensemble.ExtraTreesClassifier(20, random_state=0),
    ensemble.BaggingClassifier(n_estimators=5, random_state=0),
    ensemble.GradientBoostingClassifier(n_estimators=10, random_state=0),
    ensemble.HistGradientBoostingClassifier(max_iter=10, random_state=0),
    ensemble.VotingClassifier([("n", naive_bayes.GaussianNB()), ("t", tree.DecisionTreeClassifier())]),
    lightgbm.LGBMClassifier(n_estimators=10, verbose=-1),
]
DETECTORS = [
    ensemble.IsolationForest(random_state=0),
    svm.OneClassSVM(nu=0.1),
    neighbors.LocalOutlierFactor(novelty=True),
    covariance.EllipticEnvelope(random_state=0),
    mixture.GaussianMixture(2, random_state=0),
    neighbors.KernelDensity(bandwidth=0.5),
]
FURTHER = [neighbors.NearestNeighbors(n_neighbors=5), cluster.KMeans(8, random_state=0)]
PYOD = (
    *("knn.KNN", "lof.LOF", "abod.ABOD", "copod.COPOD", "ecod.ECOD", "hbos.HBOS", "iforest.IForest"),
    *("ocsvm.OCSVM", "pca.PCA", "mcd.MCD", "cblof.CBLOF", "kde.KDE", "gmm.GMM", "inne.INNE"),
    *("loda.LODA", "sampling.Sampling", "qmcd.QMCD", "lunar.LUNAR"),
)
TOGETHER = ("cof.COF", "sod.SOD", "sos.SOS")
TOGETHER_NAMES = tuple(path.split(".")[1] for path in TOGETHER)


# whose scores have steps, so that minima depend on the search, or take milliseconds for one row
ROUGH = ("ABOD", "COPOD", "ECOD", "HBOS", "INNE", "KDE", "LUNAR", "QMCD")


def name_of(model: Any) -> str:
    """Class of a model, and of what is inside a pipeline."""
    if isinstance(model, pipeline.Pipeline):
        return " → ".join(type(step).__name__ for _, step in model.steps)
    return type(model).__name__


def predictions() -> Iterator[Line]:
    """Classifiers and regressors, against enumeration."""
    for model in REGRESSORS:
        model.fit(X, Y if not isinstance(model, linear_model.PoissonRegressor) else np.exp(Y))
        single = type(model).__module__.startswith("xgboost")
        yield _enumerated(model, lambda _, m=model: m.predict, SINGLE if single else 1e-6)
    for model in CLASSIFIERS:
        model.fit(X, LABELS)
        yield _enumerated(model, lambda k, m=model: _output(m, k))
    boosted = xgboost.XGBClassifier(n_estimators=10, max_depth=3).fit(X, np.searchsorted(list("abc"), LABELS))
    yield _enumerated(boosted, lambda k: lambda rows: boosted.predict(rows, output_margin=True)[:, k], SINGLE)
    yield from _boosters()


def _boosters() -> Iterator[Line]:
    """Models as XGBoost and LightGBM themselves have them."""
    plain = xgboost.train({"max_depth": 3}, xgboost.DMatrix(X, Y), 10)
    check = by_enumeration(
        lambda _: lambda rows: plain.predict(xgboost.DMatrix(rows)), ROWS, BACKGROUND, tolerance=SINGLE
    )
    call = lambda: tellwhy.explain(plain, ROWS, background=BACKGROUND)  # noqa: E731
    yield tried("regressors", "xgboost.Booster", call, check)
    other = lightgbm.train({"verbose": -1}, lightgbm.Dataset(X, Y), 10)
    call = lambda: tellwhy.explain(other, ROWS, background=BACKGROUND)  # noqa: E731
    yield tried(
        "regressors", "lightgbm.Booster", call, by_enumeration(lambda _: other.predict, ROWS, BACKGROUND)
    )


def _enumerated(model: Any, value: Any, tolerance: float = 1e-6) -> Line:
    family = "regressors" if hasattr(model, "predict") and not hasattr(model, "classes_") else "classifiers"
    call = lambda: tellwhy.explain(model, ROWS, background=BACKGROUND)  # noqa: E731
    check = by_enumeration(value, ROWS, BACKGROUND, tolerance=tolerance)
    return tried(family, name_of(model), call, check)


def _output(model: Any, k: int) -> Callable[[Any], np.ndarray]:
    """Output k of a classifier: its margin where it has one, else its probability, else its vote."""
    if type(model).__module__.startswith("lightgbm"):
        return lambda rows: model.predict(rows, raw_score=True)[:, k]
    if hasattr(model, "decision_function"):
        return lambda rows: model.decision_function(rows)[:, k]
    if hasattr(model, "predict_proba"):
        return lambda rows: model.predict_proba(rows)[:, k]
    return lambda rows: (model.predict(rows) == model.classes_[k]).astype(float)


def frames() -> Iterator[Line]:
    """Models and functions of frames with texts and categories, against enumeration with frames."""
    frame = pd.DataFrame(X[:, :3], columns=["one", "two", "three"])
    frame["town"] = RNG.choice(["Bonn", "Ulm", "Jena"], len(X))
    frame["grade"] = pd.Categorical(RNG.choice(["x", "y"], len(X)))
    target = Y + (frame["town"] == "Ulm") - (frame["grade"] == "x")
    rows, background = frame[100:102].reset_index(drop=True), frame[:24].reset_index(drop=True)
    numbers = frame.drop(columns="town")
    encode = compose.make_column_transformer(
        (preprocessing.OneHotEncoder(), ["town", "grade"]), remainder="passthrough"
    )
    linear = pipeline.make_pipeline(encode, linear_model.Ridge()).fit(frame, target)
    forest = pipeline.make_pipeline(encode, ensemble.RandomForestRegressor(10, random_state=0)).fit(
        frame, target
    )
    boosted = lightgbm.LGBMRegressor(n_estimators=10, verbose=-1).fit(numbers, target)
    function = lambda f: f["one"] * (f["town"] == "Ulm") + f["grade"].cat.codes  # noqa: E731
    cases = [
        ("one-hot → Ridge", linear, linear.predict),
        ("one-hot → RandomForestRegressor", forest, forest.predict),
    ]
    for name, model, value in cases:
        call = lambda m=model: tellwhy.explain(m, rows, background=background)  # noqa: E731
        yield tried("frames", name, call, by_enumeration(lambda _, v=value: v, rows, background))
    call = lambda: tellwhy.explain(  # noqa: E731
        boosted, rows.drop(columns="town"), background=background.drop(columns="town")
    )
    yield tried("frames", "LGBMRegressor with categories", call, _lightgbm_check(boosted, rows, background))
    call = lambda: tellwhy.explain(function, rows, background=background, task="prediction")  # noqa: E731
    yield tried("frames", "a function of texts", call, by_enumeration(lambda _: function, rows, background))
    yield from _with_gaps(frame, target)


class Foreign:
    """A classifier of a library that tellwhy does not know: predict, predict_proba and classes_."""

    classes_ = np.array(["a", "b"])

    def predict_proba(self, rows: Any) -> np.ndarray:
        margin = np.nansum(np.asarray(rows)[:, :3].astype(float), axis=1)
        return np.column_stack([1 / (1 + np.exp(margin)), 1 / (1 + np.exp(-margin))])

    def predict(self, rows: Any) -> np.ndarray:
        return self.classes_[self.predict_proba(rows).argmax(axis=1)][:, None]  # a column, as CatBoost gives


def _with_gaps(frame: pd.DataFrame, target: Any) -> Iterator[Line]:
    """Pipelines that end in trees, with empty cells and sparse columns, and a classifier of nobody's."""
    gaps = frame.copy()
    for name in ("one", "two", "three"):
        gaps.loc[RNG.random(len(gaps)) < 0.15, name] = np.nan
    rows, background = gaps[100:102].reset_index(drop=True), gaps[:24].reset_index(drop=True)
    models = [
        ensemble.HistGradientBoostingRegressor(max_iter=10),
        xgboost.XGBRegressor(n_estimators=10, max_depth=4),
        lightgbm.LGBMRegressor(n_estimators=10, verbose=-1),
    ]
    for model in models:
        is_histogram = not hasattr(model, "n_estimators")
        encode = compose.make_column_transformer(
            (preprocessing.OneHotEncoder(sparse_output=not is_histogram), ["town", "grade"]),
            remainder=preprocessing.StandardScaler(),
            sparse_threshold=1.0,
        )
        whole = pipeline.make_pipeline(encode, model).fit(gaps, target)
        call = lambda m=whole: tellwhy.explain(m, rows, background=background)  # noqa: E731
        check = by_enumeration(lambda _, m=whole: m.predict, rows, background, tolerance=SINGLE)
        yield tried("frames", f"encoding → {type(model).__name__}, empty cells", call, check)
    foreign = Foreign()
    call = lambda: tellwhy.explain(foreign, rows, background=background)  # noqa: E731
    check = by_enumeration(lambda k: lambda r: foreign.predict_proba(r)[:, k], rows, background)
    yield tried("frames", "an object with predict_proba, empty cells", call, check)


def _lightgbm_check(model: Any, rows: Any, background: Any) -> Any:
    few, others = rows.drop(columns="town"), background.drop(columns="town")
    return by_enumeration(lambda _: model.predict, few, others)


def wide() -> Iterator[Line]:
    """A function of 20 columns, where sets of columns are drawn: errors must be as large as they are said to be."""
    rows = np.random.default_rng(4).normal(size=(60, 20))
    function = lambda r: np.sin(r).sum(axis=1) + 3 * r[:, 0] * r[:, 1]  # noqa: E731
    x, background = rows[:2] + 1.0, rows[2:26]
    exact = np.sin(x) - np.sin(background).mean(axis=0)
    product = lambda r: 3 * r[:, 0] * r[:, 1]  # noqa: E731
    for i in range(2):  # only the two columns of the product share it
        exact[i, :2] += shapley(product, x[i, :2], background[:, :2], swap_array)

    def check(found: Any) -> tuple[str, str, str]:
        ratio = float((np.abs(found.values - exact) / (found.stderr + 1e-12)).max())
        error = float(np.abs(found.values - exact).max() / np.abs(exact).max())
        return (
            ("approximate" if ratio < 5 else "wrong"),
            "closed form",
            f"{error:.0e}, within {ratio:.1f} stderr",
        )

    call = lambda: tellwhy.explain(function, x, background=background, task="prediction")  # noqa: E731
    yield tried("functions", "20 columns, sines and a product", call, check)


def planted() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ordinary rows; 20 rows with one cell six standard deviations out, all others within one; which cell."""
    mixing = np.eye(5) + 0.3 * np.random.default_rng(1).normal(size=(5, 5))
    ordinary = np.random.default_rng(2).normal(size=(400, 5)) @ mixing
    more = np.random.default_rng(3).normal(size=(900, 5)) @ mixing
    centre, scale = ordinary.mean(axis=0), ordinary.std(axis=0)
    odd = more[(np.abs(more - centre) < scale).all(axis=1)][:20].copy()
    truth = np.arange(20) % 5
    odd[np.arange(20), truth] = (centre + np.where(np.arange(20) % 2, 6, -6)[:, None] * scale)[
        np.arange(20), truth
    ]
    return ordinary, odd, truth


def detectors() -> Iterator[Line]:
    """Detectors of scikit-learn and PyOD: each by itself where it keeps what it needs, else with its rows."""
    rows, odd, truth = planted()
    for model in [*DETECTORS, *FURTHER]:
        yield from _planted("scikit-learn detectors", name_of(model), model.fit(rows), rows, odd, truth)
    for path in (*PYOD, *TOGETHER):
        module, name = path.split(".")
        cls = getattr(importlib.import_module(f"pyod.models.{module}"), name)
        settings = {"n_neighbors": 10, "ref_set": 5} if name == "SOD" else {}
        fitted = cls(**settings).fit(rows)
        yield from _planted("PyOD detectors", name, fitted, rows, odd, truth)
    yield from _quadratic(rows, odd)
    linear = svm.OneClassSVM(kernel="linear", nu=0.1).fit(rows)
    call = lambda: tellwhy.explain(linear, odd[:3], background=rows[:24])  # noqa: E731
    check = by_enumeration(lambda _: lambda r: -linear.score_samples(r), odd[:3], rows[:24])
    yield tried("scikit-learn detectors", "OneClassSVM(kernel='linear')", call, check)
    function = lambda r: (((r - rows.mean(axis=0)) / rows.std(axis=0)) ** 2).sum(axis=1)  # noqa: E731
    yield from _planted("functions", "sum of squared z-scores", function, rows, odd, truth)
    alone = lambda: tellwhy.explain(function, odd)  # noqa: E731
    yield tried("functions", "the same without a background", alone, by_planting(truth))


def _quadratic(rows: np.ndarray, odd: np.ndarray) -> Iterator[Line]:
    """Scores that are quadratic forms, against the definition."""
    pca = decomposition.PCA(2).fit(rows)
    left_out = np.eye(5) - pca.components_.T @ pca.components_
    envelope = covariance.EmpiricalCovariance().fit(rows)
    cases = [(pca, pca.mean_, left_out), (envelope, envelope.location_, envelope.get_precision())]
    for model, mean, form in cases:
        call = lambda m=model: tellwhy.explain(m, odd, background=rows)  # noqa: E731
        check = by_quadratic(mean, form, rows)
        yield tried("scikit-learn detectors", name_of(model), call, check)


def _planted(family: str, name: str, model: Any, rows: Any, odd: Any, truth: Any) -> Iterator[Line]:
    """The default method against what was planted; Shapley values with 24 reference rows against enumeration."""
    value = None if name in TOGETHER_NAMES else own_score(model)
    try:
        tellwhy.explain(model, odd[:1])
        call = lambda: tellwhy.explain(model, odd)  # noqa: E731
        note = ""
    except tellwhy.core.errors.InvalidInput:  # it says that it needs ordinary rows, so it gets them
        call = lambda: tellwhy.explain(model, odd, background=rows)  # noqa: E731
        note = " (asked for rows)"
    except tellwhy.core.errors.UnsupportedModel:
        call = lambda: tellwhy.explain(model, odd)  # noqa: E731
        note = ""
    check = (
        by_planting(truth) if value is None else by_planting(truth, value, None if name in ROUGH else rows)
    )
    yield tried(family, f"{name}{note}", call, check)
    if value is None:
        return
    few = rows[:24]
    is_forest = name in ("IsolationForest", "IForest")
    method, given = ("auto", {}) if is_forest else ("KernelShap", {"baseline": "sample"})
    by_rows = lambda: tellwhy.explain(model, odd[:3], method, background=few, **given)  # noqa: E731
    yield tried(family, f"{name}, 24 reference rows", by_rows, by_enumeration(lambda _: value, odd[:3], few))


def own_score(model: Any) -> Callable[[np.ndarray], np.ndarray]:
    """What is explained of a detector, by its own library."""
    name = type(model).__name__
    if name in ("ECOD", "COPOD"):  # which judge the rows of a call together: one at a time here
        return lambda rows: np.array([float(model.decision_function(row[None])[0]) for row in rows])
    if name == "ABOD":
        return lambda rows: -np.log(-model.decision_function(rows))
    if name in ("IsolationForest", "IForest"):
        forest = getattr(model, "detector_", model)
        return lambda rows: np.log2(-forest.score_samples(rows))
    if name == "OneClassSVM":
        return lambda rows: -np.log(model.score_samples(rows) / model.dual_coef_.sum())
    if name == "NearestNeighbors":
        return lambda rows: model.kneighbors(rows)[0].mean(axis=1)
    if name == "KMeans":
        return lambda rows: model.transform(rows).min(axis=1) ** 2
    if name == "EllipticEnvelope":
        return model.mahalanobis
    if type(model).__module__.startswith("pyod."):
        return lambda rows: np.asarray(model.decision_function(rows), dtype=float)
    return (lambda rows: -model.score_samples(rows)) if hasattr(model, "score_samples") else model
