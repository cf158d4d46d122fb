"""Rows and class labels as estimators of scikit-learn check them.

Rows given to a scikit-learn estimator of ours, checked at its door.

Classes as they come in, turned into whole numbers from 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from tellwhy.core.arrays import check_finite, list_columns, not_a_number, unpack_mask
from tellwhy.core.errors import InvalidInput
from tellwhy.core.score import Integers


def validate_rows(
    estimator: Any,
    X: ArrayLike,
    *,
    reset: bool,
    dtype: DTypeLike = np.float64,
    y: Any = "no_validation",
    min_rows: int = 1,
) -> Any:
    """Return X (and y, where one is given) as finite arrays, or say which cell is wrong.

    The number and names of the columns are learned when `reset`, and compared otherwise. `dtype` may be a
    list, whose members are kept as they are and whose first is what other numbers become.
    """
    names = list_columns(X)
    X = unpack_mask(X)
    try:
        # scikit-learn's own check for NaN does not say where it is; `check_finite` below does.
        checked = validate_data(
            estimator, X, y, reset=reset, dtype=dtype, ensure_all_finite=False, ensure_min_samples=min_rows
        )
    except ValueError as error:
        text = not_a_number(np.asarray(X), names, error) if "could not convert" in str(error) else str(error)
        raise InvalidInput(text) from error
    rows = checked[0] if isinstance(checked, tuple) else checked
    check_finite(rows, names)
    return checked if isinstance(checked, tuple) else np.asarray(rows)


def find_classes(y: ArrayLike, owner: str) -> tuple[Any, Integers]:
    """Return the classes in order and the place of each row's class among them; one class is an error.

    Examples
    --------
    >>> classes, labels = find_classes(["b", "a", "b"], "a classifier")
    >>> classes.tolist(), labels.tolist()
    (['a', 'b'], [1, 0, 1])
    """
    if np.ma.is_masked(y):
        row = int(np.argmax(np.ma.getmaskarray(np.ma.asarray(y))))
        raise InvalidInput(f"{owner} needs a class for every row; y is masked in row {row}. Drop such rows.")
    y = np.asarray(y)
    try:
        check_classification_targets(y)
    except ValueError as error:
        raise InvalidInput(f"{owner} needs classes in y: {error}") from error
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise InvalidInput(
            f"{owner} needs rows of at least two classes; y holds only one class, {classes.tolist()[0]!r}. "
            "Give rows of the other classes too."
        )
    return classes, labels.astype(np.int64)


def place_classes(y: ArrayLike, classes: ArrayLike) -> Integers:
    """Return the place of each row's class among known classes in order, or say which class is new."""
    y = np.asarray(y)
    known = np.isin(y, classes)
    if not known.all():
        row = int(np.argmin(known))
        raise InvalidInput(
            f"y holds {y.tolist()[row]!r} in row {row}, which is not among the classes "
            f"{np.asarray(classes).tolist()}. Name all classes at the first call."
        )
    return np.searchsorted(classes, y)  # the classes are in order
