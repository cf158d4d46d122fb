"""`as_score`: from any model to the one number per row that is explained.

`ADAPTERS` lists the third-party models that are known, by public class name; what reads one is loaded when
such a model is met. The nearest base class counts, whatever the order of the table: a class of one's own that
extends `IsolationForest` is an `OutlierMixin`, and what is a plain `BaseEstimator` is refused with advice.
Scores made elsewhere have their output checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.score import Floats, GivesScore, HasGradient, ScoreFunction
from tellwhy.scoring.function_scores import (
    FunctionScore,
    check_one_per_cell,
    check_one_per_row,
    make_private_rows,
)
from tellwhy.scoring.model_rows import load_reader

# public class name → the file and the function below `scoring` that read it
ADAPTERS: dict[str, str] = {
    "sklearn.svm.OneClassSVM": "adapters.sklearn_distances:one_class_svm",
    "sklearn.neighbors.KernelDensity": "adapters.sklearn_distances:kernel_density",
    "sklearn.neighbors.NearestNeighbors": "adapters.sklearn_distances:nearest_neighbours",
    "sklearn.cluster.KMeans": "adapters.sklearn_distances:read_nearest_centre",
    "sklearn.cluster.MiniBatchKMeans": "adapters.sklearn_distances:read_nearest_centre",
    "sklearn.cluster.BisectingKMeans": "adapters.sklearn_distances:read_nearest_centre",
    "sklearn.mixture.BaseMixture": "adapters.sklearn_models:mixture",
    "sklearn.decomposition.PCA": "adapters.sklearn_models:reconstruction",
    "sklearn.decomposition.IncrementalPCA": "adapters.sklearn_models:reconstruction",
    "sklearn.decomposition.TruncatedSVD": "adapters.sklearn_models:reconstruction",
    "sklearn.covariance.EllipticEnvelope": "adapters.sklearn_models:read_mahalanobis",
    "sklearn.covariance.EmpiricalCovariance": "adapters.sklearn_models:read_mahalanobis",
    "sklearn.linear_model.SGDOneClassSVM": "adapters.sklearn_models:read_linear_one_class",
    "sklearn.neighbors.LocalOutlierFactor": "adapters.sklearn_models:read_local_outlier_factor",
    "sklearn.base.OutlierMixin": "adapters.sklearn_models:read_outlier_detector",
    "sklearn.pipeline.Pipeline": "adapters.pipelines:pipeline",
    "sklearn.model_selection.BaseSearchCV": "adapters.pipelines:read_best_of_search",
    "sklearn.frozen.FrozenEstimator": "adapters.pipelines:frozen",
    "torch.nn.modules.module.Module": "network_output:NetworkOutput",
    "pyod.models.knn.KNN": "adapters.pyod_models:nearest_neighbours",
    "pyod.models.abod.ABOD": "adapters.pyod_models:read_angles",
    "pyod.models.copod.COPOD": "adapters.pyod_models:tails",
    "pyod.models.ecod.ECOD": "adapters.pyod_models:tails",
    "pyod.models.base.BaseDetector": "adapters.pyod_models:detector",
    "sklearn.base.ClassifierMixin": "adapters.sklearn_models:refuse_classifier",
    "sklearn.base.RegressorMixin": "adapters.sklearn_models:refuse_regressor",
    "sklearn.base.BaseEstimator": "adapters.sklearn_models:refuse",
}


class CheckedScore:
    """A score function whose values and gradients are finite and of the right shape, or an error tells.

    All its other members are those of the score itself.

    Examples
    --------
    >>> import numpy as np
    >>> from tellwhy.scoring import FunctionScore
    >>> class Twice(FunctionScore):
    ...     def value(self, X):
    ...         return np.ones((len(X), 2))
    >>> CheckedScore(Twice(len, describes="a pair")).value(np.zeros((3, 1)))
    Traceback (most recent call last):
    tellwhy.core.errors.InvalidInput: A score must give one number per row: for 3 rows, a pair has shape ...
    """

    def __init__(self, score: Any):
        self._score = score

    def __getattr__(self, name: str) -> Any:
        # Copying and unpickling ask before `_score` is there: handing that on would never end.
        if name.startswith("__") or name == "_score":
            raise AttributeError(name)
        return getattr(self._score, name)

    def value(self, X: Any, *left_out: Any) -> Floats:
        """One finite number per row."""
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        return check_one_per_row(self._score.value(make_private_rows(X), *left_out), n, self._score.describes)

    @property
    def gradient(self) -> Callable[..., Floats] | None:
        """Derivative of each row's number by each of its cells, where the score has one."""
        return self._checked_gradient if isinstance(self._score, HasGradient) else None

    def _checked_gradient(self, X: Any, *left_out: Any) -> Floats:
        slopes = self._score.gradient(make_private_rows(X), *left_out)
        return check_one_per_cell(slopes, X, self._score.describes)


def as_score(obj: Any) -> ScoreFunction:
    """Return the score function of a fitted model or a function.

    Covers this library's estimators, scikit-learn's `OneClassSVM`, `KernelDensity`, `GaussianMixture`, `PCA`,
    `IsolationForest` and others (`ADAPTERS` in `scoring.as_score` is the table), `Pipeline` and
    `ColumnTransformer` around them, every PyOD detector, a PyTorch network (its largest output;
    `NetworkOutput` chooses another), and any function that gives one number per row. High always means
    anomalous.

    Parameters
    ----------
    obj
        A fitted model, a score function (returned as it is; the output of one made elsewhere is checked), or
        a function of rows.

    Returns
    -------
    ScoreFunction
        The score: `value(X)` is high for anomalous rows.

    Examples
    --------
    >>> import numpy as np
    >>> as_score(lambda X: X.sum(axis=1)).value(np.array([[1.0, 2.0]]))
    array([3.])
    >>> from sklearn.cluster import KMeans
    >>> as_score(KMeans(1).fit([[0.0, 0.0], [2.0, 0.0]])).value([[1.0, 3.0]])
    array([9.])
    """
    return find_reader(obj)(obj)


def find_reader(obj: Any) -> Callable[[Any], ScoreFunction]:
    """Return what makes a score of the object: an adapter of its class, or `FunctionScore` for a function."""
    refuse_classes(obj)
    if isinstance(obj, GivesScore):
        return _ask_for_score
    if isinstance(obj, ScoreFunction) and callable(obj.value):
        return _checked
    adapter = load_reader(ADAPTERS, obj, "tellwhy.scoring")
    if adapter is not None:
        return adapter
    if callable(obj):
        return FunctionScore
    raise UnsupportedModel(
        f"{type(obj).__module__}.{type(obj).__qualname__} is neither a model tellwhy knows nor a function. "
        "Pass a function that takes rows and gives one number per row, high = anomalous."
    )


def refuse_classes(obj: Any) -> None:
    """Raise for a class that was given in the place of one of its instances."""
    if isinstance(obj, type):
        raise UnsupportedModel(f"{obj.__name__} is a class; pass a fitted instance of it.")


def _ask_for_score(model: Any) -> ScoreFunction:
    """Return the score of a model that makes it itself, as this library's detectors do."""
    return _add_reference_rows(_checked(model.to_score()), getattr(model, "observed_", None))


def _checked(score: Any) -> Any:
    """Return a score of ours as it is, and one made elsewhere with its output checked."""
    is_ours = type(score).__module__.startswith("tellwhy.")
    return score if is_ours else CheckedScore(score)


def _add_reference_rows(score: Any, observed: Any) -> Any:
    """Return the score with the rows that its detector learned from, where it kept any."""
    if observed is not None:
        score.reference_rows = observed
    return score
