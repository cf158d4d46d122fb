"""Ordinary rows that explained ones are compared with: given, kept by the model, or the rows themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from tellwhy.core.arrays import Frame, is_arrow, refuse_sparse, spread_evenly, take_rows
from tellwhy.core.errors import InvalidInput
from tellwhy.core.score import IsTensor
from tellwhy.scoring.reference_rows import SourcedRows, find_reference_rows, some_rows

LEAST_ROWS = 50  # different rows that can stand for what is ordinary
MOST_ODD = 0.25  # share of them that the model itself may call anomalous


def convert_rows(X: Any) -> Any:
    """Return a list of lists as an array, tensors without their record; everything else as it is.

    A table of Arrow becomes a frame of pandas.
    """
    if is_arrow(X):
        return X.to_pandas()
    if isinstance(X, IsTensor):
        return X.detach() if getattr(X, "requires_grad", False) else X
    if isinstance(X, dict):
        return {name: convert_rows(part) for name, part in X.items()}
    if isinstance(X, tuple):
        return tuple(convert_rows(part) for part in X)
    if not isinstance(X, list) or not X or not isinstance(X[0], (list, tuple, np.ndarray, float, int)):
        return X
    try:
        array = np.asarray(X)
    except ValueError as error:
        lengths = sorted({len(row) for row in X if hasattr(row, "__len__")})
        raise InvalidInput(
            f"X cannot be read as a table: its rows differ in length ({lengths[:4]} cells). Give every row "
            "the same columns."
        ) from error
    return np.asarray(X, dtype=object) if array.dtype.kind in "US" else array  # keeps numbers beside text


def choose_ordinary_rows(score: Any, X: Any, background: Any, method: str) -> SourcedRows:
    """Return rows to compare with, and where they come from, or say what to type.

    Given rows come first, then those that the model keeps or has learned the distribution of. Rows that are
    to be explained serve themselves only where there are enough different ones, most of them ordinary.
    """
    if background is not None:
        return SourcedRows(background, f"{_count(background)} given")
    kept = find_reference_rows(score)
    if kept is not None:
        return kept
    why_not = tell_why_not_itself(score, X)
    if why_not is None:
        return SourcedRows(X, "the explained rows themselves, for no background was given")
    raise InvalidInput(
        f"{method} compares rows with ordinary ones: the model keeps none, none were given, and {why_not}. "
        "Pass rows that the model was fitted on: tellwhy.explain(model, X, background=X_train)."
    )


def _count(rows: Any) -> str:
    n = np.shape(rows)[0]
    return f"{n} row{'' if n == 1 else 's'}"


def tell_why_not_itself(score: Any, X: Any) -> str | None:
    """Say why rows cannot serve as their own background; None where they can."""
    n = np.shape(X)[0]
    if n < LEAST_ROWS:
        return f"X has {n} of the {LEAST_ROWS} rows that could stand for ordinary ones"
    different = count_different(X)
    if different < LEAST_ROWS:
        return f"X has {different} different rows, of the {LEAST_ROWS} that could stand for ordinary ones"
    threshold = score.threshold
    if threshold is None:
        return None
    odd = float((score.value(some_rows(X)) > threshold).mean())
    if odd > MOST_ODD:
        return f"the model calls {odd:.0%} of the rows of X anomalous"
    return None


def count_different(X: Any) -> int:
    """Return how many different rows there are, among 1,000 of them at most.

    Examples
    --------
    >>> count_different(np.zeros((90, 2))), count_different(np.arange(10.0).reshape(5, 2))
    (1, 5)
    """
    some = take_rows(X, spread_evenly(np.shape(X)[0], 1000))
    if isinstance(some, Frame):
        table: Any = some
        return len(table.drop_duplicates() if hasattr(table, "drop_duplicates") else table.unique())
    flat = np.asarray(some).reshape(len(some), -1)
    if flat.dtype.kind == "O":
        return len({tuple(map(str, row)) for row in flat})
    return len(np.unique(flat, axis=0))


def check_background(X: Any, background: Any) -> None:
    """Raise for rows that cannot be compared with X: another shape, one that is empty, a word."""
    if isinstance(background, str):
        raise InvalidInput(
            f"background is the text {background!r}; expected ordinary rows, in the columns of X. Pass the "
            "rows that the model was fitted on."
        )
    refuse_sparse(background, "background")
    shape = np.shape(background)
    wanted = np.shape(X)[1:]
    if len(shape) < 2 or shape[1:] != wanted:
        hint = " Give a single row its axis: background=row[None]." if shape == wanted else ""
        raise InvalidInput(
            f"background has shape {shape}; expected rows like those of X, whose shape is "
            f"{np.shape(X)}.{hint}"
        )
    if shape[0] == 0:
        raise InvalidInput("background has no rows; expected ordinary rows, in the columns of X.")
    if shape == np.shape(X) and shape[0] == 1 and np.array_equal(np.asarray(background), np.asarray(X)):
        raise InvalidInput(
            "background is the explained row itself, from which nothing differs. Pass ordinary rows."
        )
