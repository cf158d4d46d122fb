"""Scores of images and other arrays, seen as scores of flat rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tellwhy.core.capabilities import HasGradient, IsTensor, KeepsOutput, TakesAnyShape
from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import as_floats


def takes_arrays(score: Any) -> bool:
    """Whether rows of a score may have more than one axis."""
    shape = score.feature_shape
    return len(shape) > 1 if shape is not None else isinstance(score, TakesAnyShape)


def array_rows(X: Any, shape: tuple[int, ...] | None = None) -> Floats:
    """Return X as finite float64 numbers (n, *shape), or say what is wrong with it.

    Examples
    --------
    >>> array_rows(np.ones((2, 3, 4), dtype="float32"), shape=(3, 4)).dtype
    dtype('float64')
    """
    # Tensors may be on a GPU, need a gradient or be of a type that numpy does not know.
    array = np.asarray(X.detach().cpu().double() if isinstance(X, IsTensor) else X)
    if array.ndim < 2 or (shape is not None and array.shape[1:] != tuple(shape)):
        wanted = "(n, ...)" if shape is None else str(("n", *shape)).replace("'", "")
        raise InvalidInput(
            f"X must have rows first, then the shape of one input: {wanted}. Got {array.shape}. Add the "
            "rows' axis of a single input with X[None]."
        )
    if 0 in array.shape:
        raise InvalidInput(
            f"X is empty: its shape is {array.shape}; at least one row of one number is needed."
        )
    # A table goes as it is, so that an error can name its column.
    is_table = array.ndim == 2 and not isinstance(X, IsTensor)
    return as_floats(X if is_table else array.reshape(len(array), -1)).reshape(array.shape)


class FlatScore:
    """A score of arrays as a score of rows (n, d): for methods that work column by column.

    Examples
    --------
    >>> from tellwhy.scoring import FunctionScore
    >>> inner = FunctionScore(lambda X: X[:, 0, 1], feature_shape=(2, 2), describes="the cell (0, 1)")
    >>> FlatScore(inner, (2, 2)).value(np.array([[1.0, 2.0, 3.0, 4.0]]))
    array([2.])
    """

    def __init__(self, inner: Any, shape: tuple[int, ...]):
        self.inner = inner
        self.shape = tuple(shape)
        self.feature_shape = (int(np.prod(shape)),)
        self.feature_names = None
        self.threshold = inner.threshold
        if isinstance(inner, HasGradient):
            self.gradient = self._flat_gradient

    @property
    def describes(self) -> str:
        """Which scalar it is."""
        return str(self.inner.describes)

    def value(self, X: Any, *further: Integers) -> Floats:
        """Return one number per row."""
        return np.asarray(self.inner.value(self._arrays(X), *further))

    def fixed(self, X: Any) -> tuple[Integers, ...]:
        """Further arguments that keep what is explained when rows are changed; none for most scores."""
        return tuple(self.inner.fixed(self._arrays(X))) if isinstance(self.inner, KeepsOutput) else ()

    def _flat_gradient(self, X: Any, *further: Integers) -> Floats:
        return np.asarray(self.inner.gradient(self._arrays(X), *further)).reshape(len(X), -1)

    def _arrays(self, X: Any) -> Floats:
        return np.asarray(X).reshape(len(X), *self.shape)
