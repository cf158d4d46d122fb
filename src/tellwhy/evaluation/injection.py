"""Anomalies made from normal rows, so that the truth about them is known.

Rows are put together from cells of several rows, in the type they came in: array, pandas or polars frame.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from narwhals.dependencies import is_pandas_dataframe as is_pandas, is_polars_dataframe as is_polars
from numpy.typing import ArrayLike, NDArray

from tellwhy.core.arrays import as_floats, check_finite, list_columns
from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import Seed, generator, integer, real, seed, validate_value
from tellwhy.core.score import Floats, Integers
from tellwhy.scoring.moved_columns import draw_steps, find_binary_columns, measure_column_scales


def is_frame(X: Any) -> bool:
    """Whether X is a pandas or polars frame, told without importing either."""
    return is_pandas(X) or is_polars(X)


def stack(X: Any, others: Any) -> Any:
    """Return X with other rows of the same columns below, in the type of X."""
    if not is_frame(X):
        return np.concatenate([np.asarray(X), np.asarray(others).reshape(-1, *np.shape(X)[1:])])
    names = list_columns(X) or []
    if is_frame(others) and set(names) - set(list_columns(others) or []):
        missing = sorted(set(names) - set(list_columns(others) or []))
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
    theirs = list_columns(others) or []
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


Mask = NDArray[np.bool_]


class Injected(NamedTuple):
    """Rows made odd, in the type they came in, and a mask of the features that were changed."""

    X: Any
    truth: Mask


def inject_anomalies(
    X: Any,
    n_features: int,
    random_state: Seed = 0,
    *,
    low: float = 1.0,
    high: float = 2.0,
    scale: ArrayLike | None = None,
    binary: ArrayLike = "auto",
) -> Injected:
    """Change some features of each normal row by one to two standard deviations.

    Each row gets its own `n_features` distinct features, moved up or down by U(low, high) times the column's
    scale. Binary features are flipped. Constant columns are never chosen: a change of no size is no anomaly.
    Nor are the columns of a frame that hold no numbers (text, categories, dates), and its missing cells.

    Parameters
    ----------
    X
        Normal rows: an array of numbers, or a pandas or polars frame. Not modified.
    n_features
        How many features of each row to change.
    random_state
        Seed; the same seed gives the same anomalies.
    low, high
        Range of the change, in units of `scale`.
    scale
        One unit per column; the standard deviation of each column of X by default.
    binary
        Mask of the columns to flip; "auto": those that hold nothing but 0 and 1, both of them.

    Returns
    -------
    Injected
        The changed rows, and which cells of them were changed.

    References
    ----------
    The protocol of Takeishi and Kawahara, "On anomaly interpretation via Shapley values" (2020).

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 4))
    >>> odd, truth = inject_anomalies(X, 2, random_state=0)
    >>> bool(((odd != X) == truth).all()), truth.sum(axis=1).tolist() == [2] * 100
    (True, True)
    """
    array = numbers_of(X)
    validate_value("inject_anomalies", "n_features", n_features, integer(1, array.shape[1]))
    validate_value("inject_anomalies", "random_state", random_state, seed)
    validate_value("inject_anomalies", "low", low, real(0, closed="left"))
    validate_value("inject_anomalies", "high", high, real(float(low), closed="left"))
    is_auto = isinstance(binary, str) and binary == "auto"
    flips = find_binary_columns(array) if is_auto else _check_given_binary(binary, array)
    units = measure_column_scales(array) if scale is None else _check_given_scale(scale, array.shape[1])
    random = generator(random_state)
    truth = _choose((flips | (units > 0)) & np.isfinite(array), int(n_features), random)
    # Numbers are drawn for every cell, changed or not: which cells are true does not shift later draws.
    moves = draw_steps(random, array.shape, low, high) * units
    changed = np.where(flips, 1.0 - array, array + moves)
    if is_frame(X):
        return Injected(_with_cells(X, changed, truth, flips), truth)
    return Injected(np.where(truth, changed, array), truth)


def numbers_of(X: Any) -> Floats:
    """Return the cells of an array or frame as numbers.

    NaN stands for the missing cells of a frame, and for its columns that hold no numbers.
    """
    if not is_frame(X):
        return as_floats(X)
    frame = nw.from_native(X, eager_only=True)
    array = np.full(frame.shape, np.nan)
    for c, name in enumerate(frame.columns):
        column = frame.get_column(name)
        if column.dtype.is_numeric() or column.dtype == nw.Boolean:
            array[:, c] = column.cast(nw.Float64).to_numpy()
    if not np.isfinite(array).any():
        raise InvalidInput(
            f"X has no number in any of its {frame.shape[1]} columns and {frame.shape[0]} rows."
        )
    check_finite(np.where(np.isnan(array), 0.0, array), frame.columns)
    return array


def _choose(candidates: Mask, n_features: int, random: np.random.Generator) -> Mask:
    """Pick distinct candidate cells of each row."""
    enough = candidates.sum(axis=1) >= n_features
    if not enough.all():
        row = int(np.argmin(enough))
        raise InvalidInput(
            f"{n_features} features of each row are to change, but in row {row} only "
            f"{int(candidates[row].sum())} of {candidates.shape[1]} can: the others are constant columns, or "
            "hold no numbers. Ask for fewer features, or pass scale=… for constant columns."
        )
    # The cells with the smallest random keys are distinct, and each candidate is as likely as any other.
    keys = np.where(candidates, random.random(candidates.shape), np.inf)
    chosen: Integers = np.argsort(keys, axis=1, kind="stable")[:, :n_features]
    truth = np.zeros(keys.shape, dtype=bool)
    np.put_along_axis(truth, chosen, True, axis=1)
    return truth


def _check_given_binary(binary: ArrayLike, X: Floats) -> Mask:
    """Return the user's mask of binary columns, or say what is wrong with it."""
    mask = np.asarray(binary)
    if mask.dtype != bool or mask.shape != (X.shape[1],):
        raise InvalidInput(
            f"binary must be 'auto' or a mask with one True or False per column ({X.shape[1]}). Got "
            f"{binary!r}."
        )
    wrong = np.argwhere(mask & (X != 0) & (X != 1) & ~np.isnan(X))
    if len(wrong):
        row, column = (int(i) for i in wrong[0])
        raise InvalidInput(f"Column {column} is declared binary but holds {X[row, column]:g} in row {row}.")
    return mask


def _check_given_scale(scale: ArrayLike, n_columns: int) -> Floats:
    """Return the user's units, one per column, or say what is wrong with them."""
    try:
        units = np.broadcast_to(np.asarray(scale, dtype=np.float64), (n_columns,))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"scale must hold one number per column ({n_columns}). Got {scale!r}.") from error
    if not (np.isfinite(units).all() and (units >= 0).all()):
        raise InvalidInput(f"scale must hold finite numbers that are not negative. Got {scale!r}.")
    return units


def _with_cells(X: Any, changed: Floats, truth: Mask, flips: Mask) -> Any:
    """Return the frame with the true cells changed; moved columns become floats, others keep their type."""
    frame = nw.from_native(X, eager_only=True)
    columns = []
    for c in np.flatnonzero(truth.any(axis=0)):
        column = frame.get_column(frame.columns[c])
        kind = column.dtype if flips[c] else nw.Float64  # a whole number moved by 1.4 is none any more
        rows = np.flatnonzero(truth[:, c])
        cells = nw.new_series("cells", changed[rows, c], nw.Float64, backend=frame.implementation).cast(kind)
        columns.append(column.cast(kind).scatter(rows.tolist(), cells))
    return frame.with_columns(*columns).to_native()
