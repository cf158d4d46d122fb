"""scikit-learn's estimators that a file can hold: models that are explained, and what pipelines are made of.

An estimator is written as its parameters and what `fit` has set, in plain values and arrays. Classes of this
table, and nothing else, are made from what a file says; what a name that is not here is, is never looked up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from tellwhy.storage.codec import Part
from tellwhy.storage.sklearn_checks import fits_of
from tellwhy.storage.sklearn_compiled import COMPILED
from tellwhy.storage.sklearn_state import estimator_of, state_of

MODELS: Mapping[str, tuple[str, ...]] = {
    "sklearn.linear_model": (
        "LinearRegression",
        "Ridge",
        "RidgeClassifier",
        "Lasso",
        "ElasticNet",
        "LogisticRegression",
        "SGDClassifier",
        "SGDRegressor",
        "SGDOneClassSVM",
        "HuberRegressor",
        "BayesianRidge",
        "Perceptron",
    ),
    "sklearn.svm": ("OneClassSVM", "SVC", "SVR", "LinearSVC", "LinearSVR"),
    "sklearn.tree": (
        "DecisionTreeClassifier",
        "DecisionTreeRegressor",
        "ExtraTreeClassifier",
        "ExtraTreeRegressor",
    ),
    "sklearn.ensemble": (
        "RandomForestClassifier",
        "RandomForestRegressor",
        "ExtraTreesClassifier",
        "ExtraTreesRegressor",
        "GradientBoostingClassifier",
        "GradientBoostingRegressor",
        "HistGradientBoostingClassifier",
        "HistGradientBoostingRegressor",
        "IsolationForest",
    ),
    "sklearn.neighbors": ("KernelDensity", "NearestNeighbors", "LocalOutlierFactor"),
    "sklearn.cluster": ("KMeans", "MiniBatchKMeans"),
    "sklearn.mixture": ("GaussianMixture", "BayesianGaussianMixture"),
    "sklearn.decomposition": ("PCA", "IncrementalPCA", "TruncatedSVD"),
    "sklearn.covariance": (
        "EmpiricalCovariance",
        "EllipticEnvelope",
        "MinCovDet",
        "LedoitWolf",
        "OAS",
        "ShrunkCovariance",
    ),
    "sklearn.discriminant_analysis": ("LinearDiscriminantAnalysis",),
    "sklearn.naive_bayes": ("GaussianNB",),
}
TRANSFORMS: Mapping[str, tuple[str, ...]] = {
    "sklearn.preprocessing": (
        "StandardScaler",
        "MinMaxScaler",
        "MaxAbsScaler",
        "RobustScaler",
        "Normalizer",
        "PowerTransformer",
        "QuantileTransformer",
        "OneHotEncoder",
        "OrdinalEncoder",
        "FunctionTransformer",
        "LabelEncoder",
        "LabelBinarizer",
    ),
    "sklearn.impute": ("SimpleImputer", "MissingIndicator"),
    "sklearn.pipeline": ("Pipeline",),
    "sklearn.compose": ("ColumnTransformer",),
    "sklearn.frozen": ("FrozenEstimator",),
}
# Only ever inside of others.
INSIDE: Mapping[str, tuple[str, ...]] = {
    "sklearn.dummy": ("DummyClassifier", "DummyRegressor"),
    "sklearn.ensemble._hist_gradient_boosting.binning": ("_BinMapper",),
}
PREFIX = "sklearn."


def _places() -> dict[str, str]:
    """Module of every class, by the name that a file gives it."""
    tables = (MODELS, TRANSFORMS, INSIDE)
    return {PREFIX + name: module for table in tables for module, names in table.items() for name in names}


class SklearnParts(Mapping[str, Part]):
    """The classes above and what is compiled in them; each is imported when it is first met."""

    def __init__(self) -> None:
        self._module_of = _places() | {PREFIX + name: each.module for name, each in COMPILED.items()}

    def __getitem__(self, name: str) -> Part:
        if name not in self._module_of:
            raise KeyError(name)
        return _part(name.removeprefix(PREFIX), self._module_of[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._module_of)

    def __len__(self) -> int:
        return len(self._module_of)


@cache
def _part(name: str, module: str) -> Part:
    cls = getattr(import_module(module), name)
    if name in COMPILED:
        return Part(cls, COMPILED[name].fits, taken=COMPILED[name].taken, made=COMPILED[name].made)
    return Part(cls, fits_of(name), taken=state_of, made=lambda fields: estimator_of(cls, fields))


PARTS = SklearnParts()


def is_known(model: object) -> bool:
    """Whether a model is, itself, of a class that a file can hold."""
    name = PREFIX + type(model).__name__
    return name in _places() and PARTS[name].cls is type(model)
