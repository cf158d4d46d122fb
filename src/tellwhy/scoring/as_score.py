"""From any model to the one number per row that is explained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tellwhy.core.capabilities import GivesScore
from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.score_function import ScoreFunction
from tellwhy.scoring.adapters.class_names import lookup
from tellwhy.scoring.adapters.third_party import ADAPTERS
from tellwhy.scoring.scores.checked_score import CheckedScore
from tellwhy.scoring.scores.function_score import FunctionScore


def as_score(obj: Any) -> ScoreFunction:
    """Return the score function of a fitted model or a function.

    Covers this library's estimators, scikit-learn's `OneClassSVM`, `KernelDensity`, `GaussianMixture`, `PCA`,
    `IsolationForest` and others (`scoring.adapters.third_party` has the table), `Pipeline` and
    `ColumnTransformer` around them, every PyOD detector, a PyTorch network (its largest output;
    `NetworkOutput` chooses another), and any function that gives one number per row. High always means
    anomalous.

    Parameters
    ----------
    obj
        A fitted model, a score function (returned as it is; the output of one made elsewhere is checked), or
        a function of rows.

    Examples
    --------
    >>> import numpy as np
    >>> as_score(lambda X: X.sum(axis=1)).value(np.array([[1.0, 2.0]]))
    array([3.])
    >>> from sklearn.cluster import KMeans
    >>> as_score(KMeans(1).fit([[0.0, 0.0], [2.0, 0.0]])).value([[1.0, 3.0]])
    array([9.])
    """
    return reader_of(obj)(obj)


def reader_of(obj: Any) -> Callable[[Any], ScoreFunction]:
    """Return what makes a score of the object: an adapter of its class, or `FunctionScore` for a function."""
    refuse_classes(obj)
    if isinstance(obj, GivesScore):
        return _own_score
    if isinstance(obj, ScoreFunction) and callable(obj.value):
        return _checked
    adapter = lookup(ADAPTERS, obj)
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


def _own_score(model: Any) -> ScoreFunction:
    """Return the score of a model that makes it itself, as this library's detectors do."""
    return _with_observed(_checked(model.to_score()), getattr(model, "observed_", None))


def _checked(score: Any) -> Any:
    """Return a score of ours as it is, and one made elsewhere with its output checked."""
    is_ours = type(score).__module__.startswith("tellwhy.")
    return score if is_ours else CheckedScore(score)


def _with_observed(score: Any, observed: Any) -> Any:
    """Return the score with the rows that its detector learned from, where it kept any."""
    if observed is not None:
        score.observed = observed
    return score
