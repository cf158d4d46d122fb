"""Rows put together from cells of several rows, in the type they came in: array, pandas or polars frame."""

from __future__ import annotations

from typing import Any

import numpy as np
from narwhals.dependencies import is_pandas_dataframe as is_pandas, is_polars_dataframe as is_polars

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Integers
from tellwhy.core.tables import column_names


def is_frame(X: Any) -> bool:
    """Whether X is a pandas or polars frame, told without importing either."""
    return is_pandas(X) or is_polars(X)


def stack(X: Any, others: Any) -> Any:
    """Return X with other rows of the same columns below, in the type of X."""
    if not is_frame(X):
        return np.concatenate([np.asarray(X), np.asarray(others).reshape(-1, *np.shape(X)[1:])])
    names = column_names(X) or []
    if is_frame(others) and set(names) - set(column_names(others) or []):
        missing = sorted(set(names) - set(column_names(others) or []))
        raise InvalidInput(
            f"The rows that replace values have no column {missing[0]!r}; expected those of X."
        )
    return _stack_pandas(X, others, names) if is_pandas(X) else _stack_polars(X, others, names)


def _stack_pandas(X: Any, others: Any, names: list[str]) -> Any:
    import pandas as pd

    below = others if is_pandas(others) else pd.DataFrame(_cells(others, names), columns=X.columns)
    return pd.concat([X, below], ignore_index=True)  # columns are matched by name


def _stack_polars(X: Any, others: Any, names: list[str]) -> Any:
    import polars as pl

    below = others.select(names) if is_polars(others) else pl.DataFrame(_cells(others, names), schema=names)
    return pl.concat([X, below], how="vertical_relaxed")  # whole numbers may be joined with fractions


def _cells(others: Any, names: list[str]) -> Any:
    """Return rows as an array, columns in the order of `names`."""
    if not is_frame(others):
        return np.asarray(others)
    theirs = column_names(others) or []
    return np.asarray(others)[:, [theirs.index(name) for name in names]]


def mix(rows: Any, source: Integers) -> Any:
    """Return new rows made of cells of `rows`: line i takes its cell of column c from row source[i, c].

    Columns of a frame keep their types, so that a model that reads text or categories can score the result.
    """
    if is_pandas(rows):
        # The arrays below a frame's columns keep categories and missing values as they are.
        return type(rows)({name: rows[name].array.take(source[:, c]) for c, name in enumerate(rows.columns)})
    if is_polars(rows):
        return type(rows)({name: rows[name].gather(source[:, c]) for c, name in enumerate(rows.columns)})
    flat = rows.reshape(len(rows), -1)
    return np.take_along_axis(flat, source, axis=0).reshape(len(source), *rows.shape[1:])
