"""What a foreign model is, and the rows it takes.

Classes are recognised by their public names, so that no third party has to be imported. Rows are brought
into the form that a fitted model expects: as many columns, under their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import issparse

from tellwhy.core.arrays import as_floats, check_columns, list_columns, unpack_mask
from tellwhy.core.errors import InvalidInput


def read_fitted_names(model: Any) -> list[str] | None:
    """Names of the columns that a model was fitted on, where it saw any."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def read_fitted_width(model: Any) -> int | None:
    """Return the number of columns that a model was fitted on, where it recorded it."""
    width = getattr(model, "n_features_in_", None)
    return None if width is None else int(width)


def ensure_fitted(model: Any, attributes: Sequence[str] | None = None) -> None:
    """Raise scikit-learn's `NotFittedError` for a model that was not fitted."""
    from sklearn.utils.validation import check_is_fitted  # scikit-learn loads pandas

    check_is_fitted(model, attributes)


def drop_names(model: Any) -> Any:
    """Return a shallow copy of a model that takes plain arrays where it was fitted on a frame."""
    if "feature_names_in_" not in vars(model):
        return model
    bare = copy(model)
    del bare.feature_names_in_
    return bare


def read_number_rows(model: Any, X: Any) -> Any:
    """Return rows of finite numbers for a model: an array, or a frame for a model that was fitted on one."""
    names = read_fitted_names(model)
    check_columns(X, names)
    array = as_floats(X, n_columns=read_fitted_width(model))
    return array if names is None else _framed(array, names)


def take_own_rows(model: Any, X: Any) -> Any:
    """Return rows as a fitted model takes them: a table under its column names; texts as they are."""
    width = read_fitted_width(model)
    return X if width is None else read_raw_rows(X, width, read_fitted_names(model))


def read_raw_rows(X: Any, n_columns: int, names: Sequence[str] | None) -> Any:
    """Return rows of anything (numbers, text, missing cells) for a pipeline fitted on `n_columns` columns."""
    check_columns(X, names)
    rows = unpack_mask(X) if hasattr(X, "shape") else _as_array(X)
    if len(rows.shape) != 2 or rows.shape[1] != n_columns:
        raise InvalidInput(
            f"Expected a 2D table of {n_columns} columns for X, as the model was fitted on. "
            f"Got shape {rows.shape}."
        )
    if names is None or list_columns(rows) is not None or issparse(rows):
        return rows
    return _framed(rows, names)


def _as_array(X: Any) -> Any:
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise InvalidInput(f"X cannot be read as a table with one row per observation ({error}).") from error
    return np.asarray(X, dtype=object) if array.dtype.kind in "US" else array  # keeps numbers beside text


def _framed(array: Any, names: Sequence[str]) -> Any:
    import pandas as pd

    return pd.DataFrame(array, columns=list(names)).infer_objects()


T = TypeVar("T")


def find_public_name(cls: type) -> str:
    """Return the name a class is imported by: its module without private parts, and its own name.

    Examples
    --------
    >>> from sklearn.svm import OneClassSVM
    >>> OneClassSVM.__module__, find_public_name(OneClassSVM)
    ('sklearn.svm._classes', 'sklearn.svm.OneClassSVM')
    """
    # Private modules move between versions of a library; the public name stays.
    parts = [part for part in cls.__module__.split(".") if not part.startswith("_")]
    return ".".join([*parts, cls.__qualname__])


def look_up(table: Mapping[str, T], obj: Any) -> T | None:
    """Return the entry of the object's class, or of the nearest of its bases that has one."""
    for cls in type(obj).__mro__:
        entry = table.get(find_public_name(cls))
        if entry is not None:
            return entry
    return None


def load_reader(table: Mapping[str, str], obj: Any, package: str) -> Any:
    """Return the function that a table of "file:function" names for the object's class, or None.

    Only the file that reads such objects is imported.
    """
    place = look_up(table, obj)
    if place is None:
        return None
    file, name = place.split(":")
    return getattr(import_module(f"{package}.{file}"), name)


def find_estimator_kind(model: object) -> str | None:
    """'classifier', 'regressor', 'outlier_detector', …, or None for what is no estimator.

    scikit-learn's own tags are asked, because those of a pipeline or a search are the tags of what is inside.
    A classifier of another library is known by its probabilities and its classes.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> find_estimator_kind(make_pipeline(LogisticRegression()).fit([[0.0], [1.0]], [0, 1]))
    'classifier'
    >>> find_estimator_kind(len) is None
    True
    """
    if not is_scikit_learn(model):
        return "classifier" if gives_probabilities(model) and hasattr(model, "classes_") else None
    from sklearn.utils import get_tags

    return get_tags(model).estimator_type


def predicts_only(model: object) -> bool:
    """Whether a model of another library has a prediction, and nothing that would make it anything else.

    Examples
    --------
    >>> class Mean:
    ...     def predict(self, X):
    ...         return [0.0] * len(X)
    >>> predicts_only(Mean()), predicts_only(len)
    (True, False)
    """
    others = ("predict_proba", "decision_function", "score_samples", "to_score", "value")
    is_model = callable(getattr(model, "predict", None)) and not callable(model)
    return is_model and not is_scikit_learn(model) and not any(hasattr(model, name) for name in others)


def is_scikit_learn(model: object) -> bool:
    """Whether a model follows scikit-learn's conventions."""
    return hasattr(model, "__sklearn_tags__")


def gives_probabilities(model: object) -> bool:
    """Whether a classifier has probabilities of its classes; scikit-learn hides the method of others."""
    return hasattr(model, "predict_proba")
