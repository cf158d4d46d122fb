"""Rows given to a scikit-learn estimator of ours, checked at its door."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from sklearn.utils.validation import validate_data

from tellwhy.core.errors import InvalidInput
from tellwhy.core.rows.masked import without_mask
from tellwhy.core.tables import check_finite, column_names, not_a_number


def validated_rows(
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
    names = column_names(X)
    X = without_mask(X)
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
