"""Any function of rows as a score, with its output checked."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats


class FunctionScore:
    """A function that gives one number per row, optionally with its gradient.

    Parameters
    ----------
    function
        Takes n rows, gives n finite numbers, high = anomalous.
    gradient
        Takes rows, gives the derivative of each row's number by each of its cells, shaped like the rows.
    feature_shape
        Shape of one row, where the function accepts only one.
    feature_names
        One name per column.
    describes
        One sentence: which scalar this is.
    threshold
        Above it rows count as anomalous.

    Examples
    --------
    >>> FunctionScore(lambda X: X[:, 0] ** 2, describes="the square of x0").value(np.array([[3.0], [1.0]]))
    array([9., 1.])
    """

    gradient: Callable[[Any], Floats]
    linear: Any = None  # weights, where the function is linear (`LinearOutputs`)
    model: Any = None  # what it was read from, where that may have kept its training rows
    has_levels: bool = False  # whether cells are numbers of levels in some columns (`TableCodes`)

    def __init__(
        self,
        function: Callable[[Any], Any],
        *,
        gradient: Callable[[Any], Any] | None = None,
        feature_shape: tuple[int, ...] | None = None,
        feature_names: Sequence[str] | None = None,
        describes: str = "",
        threshold: float | None = None,
    ):
        self._function = function
        self._slopes = gradient
        self.feature_shape = feature_shape
        self.feature_names = feature_names
        name = getattr(function, "__qualname__", type(function).__name__)
        self.describes = describes or f"the value of {name}"
        self.threshold = threshold
        # Only there if it was given: who needs a gradient asks whether the score has one.
        if gradient is not None:
            self.gradient = self._checked_gradient

    def value(self, X: Any) -> Floats:
        """One finite number per row, or an error that says what the function returned."""
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        return one_per_row(self._function(private_rows(X)), n, self.describes)

    def _checked_gradient(self, X: Any) -> Floats:
        """Return the derivatives, one per cell of X, or an error that says what the gradient returned."""
        return one_per_cell(self._slopes(private_rows(X)), X, self.describes)  # type: ignore[misc]


def private_rows(X: Any) -> Any:
    """Return rows that a function may do with as it likes: what it writes into them reaches nobody else.

    A read-only view would not do: PyTorch and libraries in C write past that flag.
    """
    if isinstance(X, np.ndarray):
        return X.copy(order="K")  # products of another layout differ in their last digits
    for way in ("copy", "clone"):  # pandas, scipy and lists have the one, PyTorch and polars the other
        if hasattr(X, way):
            return getattr(X, way)()
    return X


def one_per_row(returned: Any, n: int, describes: str) -> Floats:
    """Return what a score gave for n rows as n finite numbers, or say what is wrong with it."""
    returned = np.asarray(returned)
    if returned.shape == (n, 1):  # one output, as networks give it
        returned = returned[:, 0]
    if returned.shape != (n,):
        raise InvalidInput(
            f"A score must give one number per row: for {n} rows, {describes} has shape {returned.shape}; "
            f"expected ({n},). Wrap it in a function that picks one output."
        )
    scores = _real(returned, describes)
    finite = np.isfinite(scores)
    if not finite.all():
        row = int(np.argmin(finite))
        raise InvalidInput(
            f"{describes} is {scores[row]} for row {row} ({int((~finite).sum())} such rows in all); expected "
            "a finite number. Leave those rows out, or wrap the score in a function that bounds it."
        )
    return scores


def one_per_cell(returned: Any, X: Any, describes: str) -> Floats:
    """Return what a gradient gave for rows as finite numbers in their shape, or say what is wrong with it."""
    slopes = _real(np.asarray(returned), describes)
    if slopes.shape != np.shape(X):
        raise InvalidInput(
            f"The gradient of {describes} has shape {slopes.shape}; expected {np.shape(X)}, the shape of X."
        )
    if not np.isfinite(slopes).all():
        row = int(np.argwhere(~np.isfinite(slopes))[0][0])
        raise InvalidInput(f"The gradient of {describes} is not finite for row {row}.")
    return slopes


def _real(returned: Any, describes: str) -> Floats:
    """Return real numbers as float64; text, dates and complex numbers are not converted in silence."""
    is_real = returned.dtype.kind in "biuf"
    if returned.dtype.kind == "O":  # Python's own numbers, fractions among them
        is_real = all(isinstance(item, numbers.Real) for item in returned.flat)
    if not is_real:
        odd = next((item for item in returned.flat if not isinstance(item, numbers.Real)), None)
        raise InvalidInput(
            f"{describes} gave {type(odd).__name__} values of dtype {returned.dtype}, such as {odd!r}; "
            "expected real numbers."
        )
    return np.asarray(returned, dtype=np.float64)
