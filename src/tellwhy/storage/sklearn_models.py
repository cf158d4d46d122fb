"""Models of scikit-learn: which a file can hold, as their parameters and what `fit` has set; and back.

They are models that are explained, and what pipelines are made of. Classes of these tables, and nothing else,
are made from what a file says; what a name that is not here is, is never looked up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from typing import Any

from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

from tellwhy.storage.codec import Part
from tellwhy.storage.documents import Misfit, at_key
from tellwhy.storage.sklearn_state import COMPILED, find_checks, unwrap, wrap

PREFIX = "sklearn."


def _list_names(names: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Names of classes, by their module."""
    return {module: tuple(listed.split()) for module, listed in names.items()}


MODELS = _list_names(
    {
        "sklearn.linear_model": (
            "LinearRegression Ridge RidgeClassifier Lasso ElasticNet LogisticRegression SGDClassifier "
            "SGDRegressor SGDOneClassSVM HuberRegressor BayesianRidge Perceptron"
        ),
        "sklearn.svm": "OneClassSVM SVC SVR LinearSVC LinearSVR",
        "sklearn.tree": "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier ExtraTreeRegressor",
        "sklearn.ensemble": (
            "RandomForestClassifier RandomForestRegressor ExtraTreesClassifier ExtraTreesRegressor "
            "GradientBoostingClassifier GradientBoostingRegressor HistGradientBoostingClassifier "
            "HistGradientBoostingRegressor IsolationForest"
        ),
        "sklearn.neighbors": "KernelDensity NearestNeighbors LocalOutlierFactor",
        "sklearn.cluster": "KMeans MiniBatchKMeans",
        "sklearn.mixture": "GaussianMixture BayesianGaussianMixture",
        "sklearn.decomposition": "PCA IncrementalPCA TruncatedSVD",
        "sklearn.covariance": (
            "EmpiricalCovariance EllipticEnvelope MinCovDet LedoitWolf OAS ShrunkCovariance"
        ),
        "sklearn.discriminant_analysis": "LinearDiscriminantAnalysis",
        "sklearn.naive_bayes": "GaussianNB",
    }
)
TRANSFORMS = _list_names(
    {
        "sklearn.preprocessing": (
            "StandardScaler MinMaxScaler MaxAbsScaler RobustScaler Normalizer PowerTransformer "
            "QuantileTransformer OneHotEncoder OrdinalEncoder FunctionTransformer LabelEncoder "
            "LabelBinarizer"
        ),
        "sklearn.impute": "SimpleImputer MissingIndicator",
        "sklearn.pipeline": "Pipeline",
        "sklearn.compose": "ColumnTransformer",
        "sklearn.frozen": "FrozenEstimator",
    }
)
# Only ever inside of others.
INSIDE = _list_names(
    {
        "sklearn.dummy": "DummyClassifier DummyRegressor",
        "sklearn.ensemble._hist_gradient_boosting.binning": "_BinMapper",
    }
)


def _list_places() -> dict[str, str]:
    """Module of every class, by the name that a file gives it."""
    tables = (MODELS, TRANSFORMS, INSIDE)
    return {PREFIX + name: module for table in tables for module, names in table.items() for name in names}


class SklearnParts(Mapping[str, Part]):
    """The classes above and what is compiled in them; each is imported when it is first met."""

    def __init__(self) -> None:
        self._module_of = _list_places() | {PREFIX + name: each.module for name, each in COMPILED.items()}

    def __getitem__(self, name: str) -> Part:
        if name not in self._module_of:
            raise KeyError(name)
        return _make_part(name.removeprefix(PREFIX), self._module_of[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._module_of)

    def __len__(self) -> int:
        return len(self._module_of)


@cache
def _make_part(name: str, module: str) -> Part:
    cls = getattr(import_module(module), name)
    if name in COMPILED:
        return Part(cls, COMPILED[name].taken, COMPILED[name].made, COMPILED[name].fits)
    return Part(cls, state_of, partial(make_estimator, cls), find_checks(name))


@cache
def parts() -> SklearnParts:
    """Everything of scikit-learn that a file may hold."""
    return SklearnParts()


def is_known(model: object) -> bool:
    """Whether a model is, itself, of a class that a file can hold."""
    name = PREFIX + type(model).__name__
    return name in _list_places() and parts()[name].cls is type(model)


# Kept by scikit-learn for fitting on: a fitted model does not use them.
_FOR_FITTING = ("_loss_function_", "_rng", "_random_state", "_feature_subsample_rng", "_sklearn_version")


def state_of(model: Any) -> dict[str, Any]:
    """Parameters of an estimator, and what `fit` has set, as the file holds them."""
    params = model.get_params(deep=False)
    by_constructor = set(vars(type(model)(**params)))
    learned = {
        name: value
        for name, value in vars(model).items()
        if name not in by_constructor and name not in _FOR_FITTING
    }
    return {
        "params": {name: wrap(value, name) for name, value in params.items()},
        "learned": {name: wrap(value, name) for name, value in learned.items()},
    }


def make_estimator(cls: Any, fields: Mapping[str, Any]) -> Any:
    """The estimator that `state_of` was given."""
    model = cls(**{name: unwrap(value) for name, value in fields["params"].items()})
    if hasattr(cls, "_parameter_constraints"):
        with at_key("params"):
            model._validate_params()
    for name, value in fields["learned"].items():
        # A file may set what `fit` sets: no method, no property, nothing that stands at the class.
        if not name.isidentifier() or hasattr(cls, name):
            raise Misfit(f"{name!r} is nothing that it learns", f"learned.{name}")
        vars(model)[name] = unwrap(value)
    if "_n_threads" in fields["learned"]:  # as many as this machine has
        model._n_threads = _openmp_effective_n_threads()
    return model
