"""What is given to `fit`, checked and brought into the shape that a problem is made of."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, validate_data

from tellwhy.classifiers.svm.problem import Labels, check_entries
from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.score_function import Floats
from tellwhy.core.tables import column_names, not_a_number

# Entries that are not finite are refused below, by row and column, which scikit-learn does not tell.
_CHECKS: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "ensure_all_finite": False}


class ReadLabels(NamedTuple):
    """Labels as numbers, the classes these stand for, and whether a row may have several."""

    labels: Labels
    classes: Any
    are_sets: bool


def checked_rows(model: BaseEstimator, X: Any) -> Any:
    """Rows to be scored as CSR with finite float64 entries."""
    try:
        rows = validate_data(model, X, reset=False, **_CHECKS)
    except ValueError as error:
        raise InvalidInput(_rows_words(X, error)) from error
    return _finite(rows, X)


def checked_rows_and_labels(model: BaseEstimator, X: Any, y: Any, *, takes_sets: bool) -> tuple[Any, Any]:
    """Rows to be fitted as CSR with finite float64 entries, and their labels."""
    if y is None:
        raise InvalidInput(f"{type(model).__name__} requires y to be passed, but the target y is None.")
    try:
        sets = takes_sets and type_of_target(y) == "multilabel-indicator"
        rows, y = validate_data(model, X, y, multi_output=sets, **_CHECKS)
    except ValueError as error:
        raise InvalidInput(_rows_words(X, error)) from error
    return _finite(rows, X), y


def _finite(rows: Any, X: Any) -> Any:
    rows = sparse.csr_array(rows)
    check_entries(rows, column_names(X))
    return rows


def _rows_words(X: Any, error: ValueError) -> str:
    """What is wrong with rows; where they are texts, what learns from texts."""
    if "could not convert" not in str(error):
        return str(error)
    if np.ndim(X) == 1:
        return "X holds texts; expected rows of numbers. TextClassifier learns from texts."
    return not_a_number(np.asarray(X), column_names(X), error)


def read_labels(y: Any, *, takes_sets: bool, owner: str) -> ReadLabels:
    """Labels as numbers; sets of labels come as a 0/1 matrix, rows × labels."""
    try:
        check_classification_targets(y)
    except ValueError as error:
        raise InvalidInput(str(error)) from error
    if takes_sets and type_of_target(y) == "multilabel-indicator":
        return ReadLabels(Labels.of_indicator(y), np.arange(y.shape[1]), are_sets=True)
    classes, numbers = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise InvalidInput(
            f"{owner} needs at least 2 classes in y; got 1 class ({classes.tolist()[0]!r}). Add rows of "
            "another class."
        )
    return ReadLabels(Labels.of_classes(numbers), classes, are_sets=False)


def row_caps(
    rows: Any,
    found: ReadLabels,
    *,
    C: float,
    sample_weight: ArrayLike | None,
    class_weight: str | dict[Any, float] | None,
    owner: str,
) -> Floats:
    """C_i = C · sample weight · class weight."""
    try:
        weights = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
    except ValueError as error:
        raise InvalidInput(str(error)) from error
    caps: Floats = C * weights
    if class_weight is None:
        return caps
    if found.are_sets:
        raise InvalidParameter(
            f"class_weight of {owner} needs one class per row; y holds sets of labels. Weigh rows by "
            "sample_weight."
        )
    return caps * _class_factors(found, class_weight, owner)[found.labels.classes]


def _class_factors(found: ReadLabels, class_weight: str | dict[Any, float], owner: str) -> Floats:
    classes = found.classes
    try:
        factors = compute_class_weight(class_weight, classes=classes, y=classes[found.labels.classes])
    except ValueError as error:
        raise InvalidInput(f"{owner}: {error}. Got classes {classes.tolist()[:5]}.") from error
    bad = np.flatnonzero(~(np.isfinite(factors) & (factors >= 0)))
    if len(bad):
        raise InvalidInput(
            f"class_weight of {owner} gives class {classes.tolist()[bad[0]]!r} the factor {factors[bad[0]]}; "
            "expected finite factors of at least 0."
        )
    return np.asarray(factors, dtype=np.float64)
