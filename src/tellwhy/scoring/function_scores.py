"""Functions of rows as scores, with their output checked.

Rows are flat, or images and other arrays, or raw rows that a model sees through an encoding of their columns.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.arrays import as_floats
from tellwhy.core.errors import InvalidInput
from tellwhy.core.score import (
    Floats,
    HasGradient,
    Integers,
    IsTensor,
    KeepsOutput,
    ScoreFunction,
    TakesAnyShape,
)


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
    has_no_minimum: bool = False  # whether it falls without end, so that nothing is least anomalous

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
        return check_one_per_row(self._function(make_private_rows(X)), n, self.describes)

    def _checked_gradient(self, X: Any) -> Floats:
        """Return the derivatives, one per cell of X, or an error that says what the gradient returned."""
        return check_one_per_cell(self._slopes(make_private_rows(X)), X, self.describes)  # type: ignore[misc]


def make_private_rows(X: Any) -> Any:
    """Return rows that a function may do with as it likes: what it writes into them reaches nobody else.

    A read-only view would not do: PyTorch and libraries in C write past that flag.
    """
    if isinstance(X, np.ndarray):
        return X.copy(order="K")  # products of another layout differ in their last digits
    for way in ("copy", "clone"):  # pandas, scipy and lists have the one, PyTorch and polars the other
        if hasattr(X, way):
            return getattr(X, way)()
    return X


def check_one_per_row(returned: Any, n: int, describes: str) -> Floats:
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


def check_one_per_cell(returned: Any, X: Any, describes: str) -> Floats:
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


def takes_arrays(score: Any) -> bool:
    """Whether rows of a score may have more than one axis."""
    shape = score.feature_shape
    return len(shape) > 1 if shape is not None else isinstance(score, TakesAnyShape)


def read_array_rows(X: Any, shape: tuple[int, ...] | None = None) -> Floats:
    """Return X as finite float64 numbers (n, *shape), or say what is wrong with it.

    Examples
    --------
    >>> read_array_rows(np.ones((2, 3, 4), dtype="float32"), shape=(3, 4)).dtype
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
            self.gradient = self._flatten_gradient

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

    def _flatten_gradient(self, X: Any, *further: Integers) -> Floats:
        return np.asarray(self.inner.gradient(self._arrays(X), *further)).reshape(len(X), -1)

    def _arrays(self, X: Any) -> Floats:
        return np.asarray(X).reshape(len(X), *self.shape)


@dataclass(frozen=True, kw_only=True)
class EncodedScore:
    """score(x) = inner(encode(x)).

    Parameters
    ----------
    inner
        The score in the model's own columns.
    encode
        Raw rows to the model's columns.
    owner
        The raw column that each model column was made from, when each was made from exactly one: attributions
        in model columns are then summed over their owner. None where columns are mixed (PCA inside a
        pipeline).
    n_columns
        Number of raw columns.
    feature_names
        Names of the raw columns.
    describes
        One sentence: which scalar this is, and after which encoding.
    decode
        The model's columns to raw rows, where the encoding can be undone.
    level
        Threshold, where it is another than that of the inner score.
    decodes_any
        Whether `decode` finds a sensible cell for any number, not only for those that were encoded: what to
        change in a row can then be looked for in the model's columns, without encoding every trial.

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> from tellwhy.scoring import as_score
    >>> shirts = [["red", "S"], ["blue", "S"], ["blue", "M"]]
    >>> score = as_score(make_pipeline(OneHotEncoder(), KMeans(1)).fit(shirts))
    >>> score.owner
    array([0, 0, 1, 1])
    >>> score.describes
    'squared distance to the nearest centre of KMeans, after Pipeline(OneHotEncoder)'
    """

    inner: ScoreFunction
    encode: Callable[[Any], Floats]
    owner: Integers | None
    n_columns: int
    feature_names: Sequence[str] | None
    describes: str
    decode: Callable[[Floats], Any] | None = None
    level: float | None = None
    decodes_any: bool = False

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """Shape of one raw row."""
        return (self.n_columns,)

    @property
    def threshold(self) -> float | None:
        """Threshold of the inner score, unless another was set."""
        # Encoding does not change the score of a row, so that the inner threshold holds as it is.
        return self.inner.threshold if self.level is None else self.level

    def value(self, X: Any) -> Floats:
        """Score of each raw row."""
        return self.inner.value(self.encode(X))
