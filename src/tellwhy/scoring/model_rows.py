"""Rows in the form that a fitted third-party model expects: as many columns, under their names."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from scipy.sparse import issparse

from tellwhy.core.errors import InvalidInput
from tellwhy.core.rows.masked import without_mask
from tellwhy.core.tables import as_floats, column_names


def fitted_names(model: Any) -> list[str] | None:
    """Names of the columns that a model was fitted on, where it saw any."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def fitted_width(model: Any) -> int | None:
    """Return the number of columns that a model was fitted on, where it recorded it."""
    width = getattr(model, "n_features_in_", None)
    return None if width is None else int(width)


def ensure_fitted(model: Any, attributes: Sequence[str] | None = None) -> None:
    """Raise scikit-learn's `NotFittedError` for a model that was not fitted."""
    from sklearn.utils.validation import check_is_fitted  # scikit-learn loads pandas

    check_is_fitted(model, attributes)


def without_names(model: Any) -> Any:
    """Return a shallow copy of a model that takes plain arrays where it was fitted on a frame."""
    if "feature_names_in_" not in vars(model):
        return model
    bare = copy(model)
    del bare.feature_names_in_
    return bare


def check_columns(X: Any, names: Sequence[str] | None) -> None:
    """Raise unless the columns of a frame are those the model was fitted on, in the same order.

    Examples
    --------
    >>> import pandas as pd
    >>> check_columns(pd.DataFrame({"b": [1], "a": [2]}), ["a", "b"])
    Traceback (most recent call last):
    tellwhy.core.errors.InvalidInput: Column 0 of X is 'b', but the model was fitted with 'a' there; ...
    """
    given = column_names(X)
    if names is None or given is None or given == list(names):
        return
    if [name.replace(" ", "_") for name in given] == list(names):  # as LightGBM writes them
        return
    if len(given) != len(names):
        missing = [name for name in names if name not in given]
        extra = [name for name in given if name not in names]
        raise InvalidInput(
            f"X has {len(given)} columns, but the model was fitted on {len(names)}: missing {missing[:5]}, "
            f"not known to the model {extra[:5]}. "
            "Pass the columns that the model was fitted on, in the same order."
        )
    at = next(i for i, (a, b) in enumerate(zip(given, names, strict=True)) if a != b)
    raise InvalidInput(
        f"Column {at} of X is {given[at]!r}, but the model was fitted with {names[at]!r} there; "
        "pass its columns in the same order, e.g. X[list(model.feature_names_in_)]."
    )


def number_rows(model: Any, X: Any) -> Any:
    """Return rows of finite numbers for a model: an array, or a frame for a model that was fitted on one."""
    names = fitted_names(model)
    check_columns(X, names)
    array = as_floats(X, n_columns=fitted_width(model))
    return array if names is None else _framed(array, names)


def own_rows(model: Any, X: Any) -> Any:
    """Return rows as a fitted model takes them: a table under its column names; texts as they are."""
    width = fitted_width(model)
    return X if width is None else raw_rows(X, width, fitted_names(model))


def raw_rows(X: Any, n_columns: int, names: Sequence[str] | None) -> Any:
    """Return rows of anything (numbers, text, missing cells) for a pipeline fitted on `n_columns` columns."""
    check_columns(X, names)
    rows = without_mask(X) if hasattr(X, "shape") else _as_array(X)
    if len(rows.shape) != 2 or rows.shape[1] != n_columns:
        raise InvalidInput(
            f"Expected a 2D table of {n_columns} columns for X, as the model was fitted on. "
            f"Got shape {rows.shape}."
        )
    if names is None or column_names(rows) is not None or issparse(rows):
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
