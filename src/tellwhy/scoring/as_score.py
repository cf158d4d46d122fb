"""From any model to the one number per row that is explained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.score_function import ScoreFunction
from tellwhy.scoring.encoded import EncodedScore
from tellwhy.scoring.function_score import FunctionScore
from tellwhy.scoring.third_party import ADAPTERS


def as_score(obj: Any) -> ScoreFunction:
    """Return the score function of a fitted model or a function.

    Covers this library's estimators, scikit-learn's `OneClassSVM`, `KernelDensity`, `GaussianMixture`, `PCA`,
    `IsolationForest` and others, `Pipeline` and `ColumnTransformer` around them, every PyOD detector, and any
    function that gives one number per row. High always means anomalous.

    Examples
    --------
    >>> import numpy as np
    >>> as_score(lambda X: X.sum(axis=1)).value(np.array([[1.0, 2.0]]))
    array([3.])
    """
    if isinstance(obj, type):
        raise UnsupportedModel(f"{obj.__name__} is a class; pass a fitted instance of it.")
    if hasattr(obj, "to_score"):
        return obj.to_score()  # type: ignore[no-any-return]
    if isinstance(obj, EncodedScore) or (isinstance(obj, ScoreFunction) and callable(obj.value)):
        return obj
    adapter = _adapter_of(obj)
    if adapter is not None:
        return adapter(obj)
    if callable(obj):
        return FunctionScore(obj)
    raise UnsupportedModel(
        f"{type(obj).__module__}.{type(obj).__qualname__} is neither a model tellwhy knows nor a function. Pass a "
        "function that takes rows and gives one number per row, high = anomalous."
    )


def _adapter_of(obj: Any) -> Callable[[Any], ScoreFunction] | None:
    """Look the object's class, then its bases, up by qualified name: third parties are never imported."""
    for cls in type(obj).__mro__:
        adapter = ADAPTERS.get(f"{cls.__module__}.{cls.__qualname__}")
        if adapter is not None:
            return adapter
    return None
