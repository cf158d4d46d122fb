"""scikit-learn's models in a file without pickle: every class comes back, and gives the same numbers."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import (
    cluster,
    compose,
    covariance,
    decomposition,
    discriminant_analysis,
    ensemble,
    frozen,
    impute,
    linear_model,
    mixture,
    naive_bayes,
    neighbors,
    pipeline,
    preprocessing,
    svm,
    tree,
)

import tellwhy
from storage.changed_files import array_of, changed
from tellwhy.core.errors import CannotWrite, UnreadableFile
from tellwhy.scoring.as_score import ADAPTERS
from tellwhy.storage.sklearn_models import MODELS, TRANSFORMS

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(60, 4)).round(3)
CLASSES = np.array(["low", "mid", "high"])[np.digitize(ROWS[:, 0], [-0.4, 0.4])]
TARGET = 2 * ROWS[:, 0] - ROWS[:, 1] ** 2
GAPS = np.where(RNG.random(ROWS.shape) < 0.1, np.nan, ROWS)
LABELS = pd.DataFrame({"a": RNG.choice(["x", "y"], 60), "b": RNG.choice(["u", "v", None], 60)})
FRAME = pd.DataFrame(ROWS, columns=list("pqrs")).assign(kind=RNG.choice(["x", "y", "z"], 60))
CALLS = (
    "predict_proba",
    "decision_function",
    "score_samples",
    "predict",
    "transform",
    "kneighbors",
    "mahalanobis",
)


def classes_of(module, names, X=ROWS, y=CLASSES, **settings):
    return [(getattr(module, name)(**settings), X, y) for name in names.split()]


def mixed_pipeline():
    columns = compose.ColumnTransformer(
        [
            ("n", pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.StandardScaler()), ["p", "q"]),
            ("c", preprocessing.OneHotEncoder(handle_unknown="ignore"), ["kind"]),
        ],
        remainder="passthrough",
    )
    return pipeline.make_pipeline(columns, ensemble.IsolationForest(n_estimators=4, random_state=0))


CASES = [
    *classes_of(
        linear_model, "LinearRegression Ridge Lasso ElasticNet SGDRegressor HuberRegressor", y=TARGET
    ),
    *classes_of(linear_model, "BayesianRidge", y=TARGET),
    *classes_of(linear_model, "RidgeClassifier LogisticRegression SGDClassifier Perceptron SGDOneClassSVM"),
    *classes_of(svm, "OneClassSVM SVC LinearSVC"),
    *classes_of(svm, "SVR LinearSVR", y=TARGET),
    *classes_of(svm, "OneClassSVM", kernel="poly", degree=2),
    *classes_of(tree, "DecisionTreeClassifier ExtraTreeClassifier", random_state=0),
    *classes_of(tree, "DecisionTreeRegressor ExtraTreeRegressor", y=TARGET, random_state=0),
    *classes_of(tree, "DecisionTreeRegressor", GAPS, TARGET, random_state=0),
    *classes_of(ensemble, "RandomForestClassifier ExtraTreesClassifier", n_estimators=3, random_state=0),
    *classes_of(ensemble, "RandomForestRegressor ExtraTreesRegressor", y=TARGET, n_estimators=3),
    *classes_of(ensemble, "GradientBoostingClassifier IsolationForest", n_estimators=3, random_state=0),
    *classes_of(ensemble, "GradientBoostingClassifier", y=TARGET > 0, n_estimators=3, loss="exponential"),
    *classes_of(ensemble, "GradientBoostingRegressor", y=TARGET, n_estimators=3, loss="huber"),
    *classes_of(ensemble, "GradientBoostingRegressor", y=TARGET, n_estimators=3, loss="quantile"),
    *classes_of(ensemble, "IsolationForest", n_estimators=3, max_features=2, contamination=0.1),
    *classes_of(ensemble, "HistGradientBoostingClassifier", GAPS, max_iter=3),
    *classes_of(ensemble, "HistGradientBoostingClassifier", GAPS, TARGET > 0, max_iter=3),
    *classes_of(
        ensemble, "HistGradientBoostingRegressor", FRAME, TARGET, max_iter=3, categorical_features=[4]
    ),
    *classes_of(ensemble, "HistGradientBoostingRegressor", GAPS, np.abs(TARGET), max_iter=3, loss="poisson"),
    *classes_of(neighbors, "NearestNeighbors KernelDensity", y=None),
    *classes_of(neighbors, "KernelDensity", y=None, kernel="tophat", metric="manhattan"),
    *classes_of(neighbors, "NearestNeighbors", y=None, algorithm="ball_tree", p=3),
    *classes_of(neighbors, "LocalOutlierFactor", y=None, novelty=True),
    *classes_of(cluster, "KMeans MiniBatchKMeans", y=None, n_clusters=3, random_state=0, n_init=1),
    *classes_of(mixture, "GaussianMixture BayesianGaussianMixture", y=None, n_components=2, random_state=0),
    *classes_of(decomposition, "PCA IncrementalPCA TruncatedSVD", y=None, n_components=2),
    *classes_of(covariance, "EmpiricalCovariance LedoitWolf OAS ShrunkCovariance", y=None),
    *classes_of(covariance, "EllipticEnvelope MinCovDet", y=None, random_state=0),
    *classes_of(discriminant_analysis, "LinearDiscriminantAnalysis"),
    *classes_of(naive_bayes, "GaussianNB"),
    *classes_of(preprocessing, "StandardScaler MinMaxScaler MaxAbsScaler RobustScaler Normalizer"),
    *classes_of(preprocessing, "PowerTransformer FunctionTransformer"),
    *classes_of(preprocessing, "QuantileTransformer", n_quantiles=10),
    *classes_of(preprocessing, "OneHotEncoder OrdinalEncoder", LABELS, handle_unknown="error"),
    *classes_of(preprocessing, "OneHotEncoder", LABELS, min_frequency=5, drop="first"),
    *classes_of(preprocessing, "LabelEncoder LabelBinarizer", CLASSES, None),
    *classes_of(impute, "SimpleImputer MissingIndicator", GAPS),
    *classes_of(impute, "SimpleImputer", LABELS.fillna(np.nan), strategy="most_frequent"),
    (mixed_pipeline(), FRAME, None),
    (pipeline.make_pipeline(preprocessing.StandardScaler(), "passthrough", svm.OneClassSVM()), ROWS, None),
    (compose.ColumnTransformer([("s", preprocessing.StandardScaler(), [0, 2])]), ROWS, None),
]


def fitted(case):
    model, X, y = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rounds: some do not converge
        one_argument = y is None or type(model).__name__.startswith("Label")
        return model.fit(X) if one_argument else model.fit(X, y)


def outputs(model, X):
    found = {}
    for name in CALLS:
        if hasattr(model, name):
            given = getattr(model, name)(X)
            given = given if isinstance(given, tuple) else (given,)
            found[name] = [each.toarray() if sparse.issparse(each) else np.asarray(each) for each in given]
    return found


def same(one, other):
    if one.dtype.kind in "fiub":
        return one.dtype == other.dtype and one.tobytes() == other.tobytes()
    return one.tolist() == other.tolist()


@pytest.mark.parametrize("case", CASES, ids=lambda case: type(case[0]).__name__)
def test_it_comes_back_and_gives_the_same_numbers_bit_for_bit(case, tmp_path):
    model = fitted(case)
    path = tellwhy.save(model, tmp_path / "m.tellwhy")
    again = tellwhy.load(path)
    assert type(again) is type(model)
    before = outputs(model, case[1])
    after = outputs(again, case[1])
    assert before
    assert before.keys() == after.keys()
    for name, arrays in before.items():
        assert all(map(same, arrays, after[name])), name
    assert tellwhy.save(again, tmp_path / "again").read_bytes() == path.read_bytes()


def test_every_class_that_can_be_saved_is_tried():
    """A class that is added to the table needs a case above."""
    listed = {name for table in (MODELS, TRANSFORMS) for names in table.values() for name in names}
    tried = {type(model).__name__ for model, _, _ in CASES} | {"FrozenEstimator"}
    assert listed == tried


def test_every_model_that_has_an_adapter_can_be_saved_or_is_named_here():
    """A model that the one-liner learns to explain is saved too, or it is said here why not."""
    bases = (
        "BaseMixture",
        "OutlierMixin",
        "BaseSearchCV",
        "ClassifierMixin",
        "RegressorMixin",
        "BaseEstimator",
    )
    not_saved = ("BisectingKMeans",)  # it keeps functions
    listed = {
        f"{module}.{name}"
        for table in (MODELS, TRANSFORMS)
        for module, names in table.items()
        for name in names
    }
    known = {name for name in ADAPTERS if name.startswith("sklearn.")}
    assert known - listed == {name for name in known if name.rpartition(".")[2] in bases + not_saved}


def test_a_frozen_model(tmp_path):
    inside = svm.OneClassSVM().fit(ROWS)
    again = tellwhy.load(tellwhy.save(frozen.FrozenEstimator(inside), tmp_path / "m"))
    assert np.array_equal(again.score_samples(ROWS), inside.score_samples(ROWS))


def test_explanations_are_the_same(tmp_path):
    model = fitted((ensemble.IsolationForest(n_estimators=5, random_state=0), ROWS, None))
    again = tellwhy.load(tellwhy.save(model, tmp_path / "m"))
    assert np.array_equal(tellwhy.explain(again, ROWS[:5]).values, tellwhy.explain(model, ROWS[:5]).values)


@pytest.mark.parametrize(
    "model",
    [
        preprocessing.FunctionTransformer(np.log1p),
        svm.OneClassSVM(kernel=lambda a, b: a @ b.T),
        neighbors.KernelDensity(metric="haversine"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_what_no_file_can_hold_is_told(model, tmp_path):
    rows = np.abs(ROWS[:, :2]) if "Density" in type(model).__name__ else np.abs(ROWS)
    with pytest.raises(CannotWrite, match=r"function|cannot be saved"):
        tellwhy.save(model.fit(rows), tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_another_version_of_scikit_learn_is_told(tmp_path):
    path = tellwhy.save(svm.OneClassSVM().fit(ROWS), tmp_path / "m")
    changed(path, lambda head: head.update({"scikit-learn": "0.24.2"}))
    with pytest.raises(UnreadableFile, match=r"saved with scikit-learn 0\.24\.2; this is"):
        tellwhy.load(path)


HOSTILE = [
    ("a class that is not in the table", lambda head: head["is"].update(type="sklearn.FunctionTransformerX")),
    ("a class of Python", lambda head: head["is"].update(type="Popen")),
    ("a method", lambda head: _learned(head).update({"predict": 1})),
    ("a word of Python", lambda head: _learned(head).update({"__class__": 1})),
    ("nothing", lambda head: head["is"].update({"is": {}})),
]


def _learned(head):
    return head["is"]["is"]["learned"]["is"]


@pytest.mark.parametrize(("name", "change"), HOSTILE, ids=[name for name, _ in HOSTILE])
def test_made_up_heads_are_refused(name, change, tmp_path):
    path = tellwhy.save(tree.DecisionTreeRegressor().fit(ROWS, TARGET), tmp_path / "m")
    changed(path, change)
    with pytest.raises(UnreadableFile):
        tellwhy.load(path)


BENT = [  # (model, array, what is done to it): compiled loops would read what is not theirs
    (tree.DecisionTreeRegressor(random_state=0), "left_child", lambda a: np.where(a > 0, a + 10**6, a)),
    (tree.DecisionTreeRegressor(random_state=0), "left_child", lambda a: np.where(a < 0, -5, a)),
    (tree.DecisionTreeRegressor(random_state=0), "right_child", lambda a: np.where(a > 0, 0, a)),
    (tree.DecisionTreeRegressor(random_state=0), "feature", lambda a: np.where(a >= 0, a + 99, a)),
    (tree.DecisionTreeRegressor(random_state=0), "values", lambda a: a[:-1]),
    (tree.DecisionTreeRegressor(random_state=0), "threshold", lambda a: a[:-1]),
    (ensemble.HistGradientBoostingRegressor(max_iter=1), "feature_idx", lambda a: a + 99),
    (ensemble.HistGradientBoostingRegressor(max_iter=1), "nodes.left", lambda a: a + np.uint32(10**6)),
    (svm.OneClassSVM(), "support_vectors_", lambda a: a[:, :-1]),
    (svm.OneClassSVM(), "_dual_coef_", lambda a: a[:, :-2]),
    (svm.OneClassSVM(), "_intercept_", lambda a: a[:0]),
    (cluster.KMeans(2, n_init=1, random_state=0), "cluster_centers_", lambda a: a[:, :-1]),
    (neighbors.NearestNeighbors(), "_fit_X", lambda a: a[:, :-1]),
]


@pytest.mark.parametrize(
    ("model", "name", "bend"), BENT, ids=[f"{type(m).__name__} {name}" for m, name, _ in BENT]
)
def test_arrays_that_lead_out_of_bounds_are_refused(model, name, bend, tmp_path):
    path = tellwhy.save(model.fit(ROWS, TARGET), tmp_path / "m")
    changed(path, lambda head: None, {name: bend(array_of(path, name))})
    with pytest.raises(UnreadableFile, match="does not hold a working"):
        tellwhy.load(path)
