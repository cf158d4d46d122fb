"""Floats of tables: doors, samples, missing cells, scaling.

Arrays with a mask: what it hides is missing, whatever number stands below it.

Arrays as they come in: checked once, at the public doors.

The one standardiser: mean and standard deviation of columns, whatever their offsets and scales.

Two things go wrong in the plain formulas. Squares of large numbers overflow, and those of small ones vanish.
And the mean of equal numbers may be off by a rounding error, so that a constant column seems to have a tiny
spread, by which others are then divided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellwhy.core.errors import InvalidInput

if TYPE_CHECKING:
    from tellwhy.core.params import Fit
    from tellwhy.core.score import Floats, Integers


def unpack_mask(X: Any) -> Any:
    """Return a masked array as a plain one, NaN (None for text) where it hides a cell; all else as it is.

    numpy itself forgets masks where an array is converted, and shows what they hide.

    Examples
    --------
    >>> unpack_mask(np.ma.masked_array([1, 2, 999], mask=[False, False, True]))
    array([ 1.,  2., nan])
    """
    if not isinstance(X, np.ma.MaskedArray):
        return X
    if not np.ma.getmaskarray(X).any():
        return np.asarray(X)
    if X.dtype.kind in "biuf":
        return np.ma.filled(X.astype(np.promote_types(X.dtype, np.float32)), np.nan)
    plain = np.asarray(X, dtype=object)
    plain[np.ma.getmaskarray(X)] = None
    return plain


class Capability(type(Protocol)):  # type: ignore[misc]  # mypy wants a metaclass that is written out
    """Kind of the protocols of what a model or a table can do: says what `isinstance` asks for.

    Python's own rule for protocols differs between versions: since 3.12 it overlooks members that an object
    hands on from another one by `__getattr__`, as `CheckedScore` does. It also takes `expansion = None` for
    an expansion. Here a member that is None or False counts as missing, in every version.
    """

    def __instancecheck__(cls, instance: object) -> bool:
        found = (getattr(instance, name, None) for name in _list_members(cls))
        return all(member is not None and member is not False for member in found)


@cache  # searches ask for capabilities at every step
def _list_members(protocol: type) -> frozenset[str]:
    """Public names that a capability and the capabilities it extends declare; not those of a plain score."""
    names: set[str] = set()
    for cls in protocol.__mro__:
        if isinstance(cls, Capability):
            names |= {*vars(cls), *vars(cls).get("__annotations__", ())}
    return frozenset(name for name in names if not name.startswith("_"))


@runtime_checkable
class Frame(Protocol, metaclass=Capability):
    """A table whose columns have names: of pandas, polars or alike."""

    @property
    def columns(self) -> Any:
        """Names of the columns, in order."""
        ...


@runtime_checkable
class PandasRows(Protocol, metaclass=Capability):
    """A table or a column of pandas, which has an index and takes rows by `iloc`."""

    @property
    def index(self) -> Any:
        """Labels of the rows."""
        ...

    @property
    def iloc(self) -> Any:
        """Rows by their place."""
        ...


def list_columns(X: object) -> list[str] | None:
    """Names of the columns of a frame of pandas or polars, or a table of Arrow; None for an array."""
    if is_arrow(X):
        return [str(name) for name in X.column_names]  # type: ignore[attr-defined]
    return [str(name) for name in X.columns] if isinstance(X, Frame) else None


def is_arrow(X: object) -> bool:
    """Whether X is a table or a batch of Arrow, whose `columns` are the cells and not the names."""
    return hasattr(X, "column_names") and hasattr(X, "to_pandas")


def take_rows(X: Any, index: Any) -> Any:
    """Return some rows of an array or a frame, in the same type."""
    if isinstance(X, PandasRows):
        return X.iloc[index]
    if is_arrow(X):
        return X.take(index)
    is_frame = isinstance(X, Frame)  # polars takes rows by plain indexing, as arrays do
    return X[index] if is_frame else np.asarray(unpack_mask(X))[index]


def spread_evenly(n: int, most: int) -> Integers:
    """Return up to `most` of the numbers 0 … n − 1, evenly spread, the first and the last among them.

    Examples
    --------
    >>> spread_evenly(9, 3), spread_evenly(2, 3)
    (array([0, 4, 8]), array([0, 1]))
    """
    return np.linspace(0, n - 1, min(n, most)).round().astype(np.int64)


def draw_sample(n: int, most: int, rng: np.random.Generator) -> Integers:
    """Return all of the numbers 0 … n − 1, or `most` of them drawn at random, in the order they were drawn.

    Examples
    --------
    >>> draw_sample(3, 5, np.random.default_rng(0))
    array([0, 1, 2])
    >>> len(set(draw_sample(100, 5, np.random.default_rng(0)).tolist()))
    5
    """
    if n <= most:
        return np.arange(n)  # draws nothing: the generator stays where it was
    return rng.choice(n, most, replace=False)


def sort_columns(Z: Floats) -> Integers:
    """Order of the columns that follows from what they hold: their place in the table does not matter.

    Methods that draw random numbers for each column meet the columns in this order. A table whose columns are
    given in another order then has the same result.

    Examples
    --------
    >>> Z = np.random.default_rng(1).normal(size=(20, 3))
    >>> shuffled = [2, 0, 1]
    >>> bool((Z[:, sort_columns(Z)] == Z[:, shuffled][:, sort_columns(Z[:, shuffled])]).all())
    True
    """
    # Columns are told apart by their product with one fixed random vector. Equal columns tie, and then their
    # order does not matter. The sum goes down each column, whose digits do not depend on the other columns.
    weights = np.random.default_rng(0).standard_normal(len(Z))
    return np.argsort((Z * weights[:, None]).sum(axis=0), kind="stable")


def check_finite(X: Floats, names: Sequence[str] | None = None, *, what: str = "X") -> None:
    """Raise with the first cell that is NaN or infinite, named by row and column."""
    # A finite sum proves every cell finite at a fraction of the cost of looking at each one.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()):
            return
    bad = ~np.isfinite(X)
    if not bad.any():
        return
    first = np.argwhere(bad.reshape(len(X), -1))[0]
    row = int(first[0])
    column = int(first[1])
    raise not_finite(what, X.reshape(len(X), -1)[row, column], (row, column), int(bad.sum()), names)


def check_columns(X: Any, names: Sequence[str] | None) -> None:
    """Raise unless the columns of a frame are those the model was fitted on, in the same order.

    Examples
    --------
    >>> import pandas as pd
    >>> check_columns(pd.DataFrame({"b": [1], "a": [2]}), ["a", "b"])
    Traceback (most recent call last):
    tellwhy.core.errors.InvalidInput: Column 0 of X is 'b', but the model was fitted with 'a' there; ...
    """
    given = list_columns(X)
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


def not_finite(
    what: str, cell: float, at: tuple[int, int], n: int, names: Sequence[str] | None = None
) -> InvalidInput:
    """The error for a cell that is NaN or infinite, the first of n."""
    kind = "NaN" if np.isnan(cell) else f"infinity ({cell})"
    where = f"column {at[1]}" if names is None else f"column {names[at[1]]!r}"
    others = "the only such cell" if n == 1 else f"{n:,} such cells in all"
    return InvalidInput(
        f"Input {what} contains {kind} in row {at[0]}, {where} ({others}); expected finite numbers. "
        f"Impute or drop {'it' if n == 1 else 'those cells'} first."
    )


def refuse_sparse(X: Any, what: str = "X") -> None:
    """Raise for a sparse matrix: explanations are dense, one number per cell."""
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise InvalidInput(
            f"{what} is a sparse {type(X).__name__} of shape {np.shape(X)}; expected an array or a frame, "
            "for every cell gets a number. Pass X.toarray(), of the rows that you want explained."
        )


def as_floats(X: ArrayLike, *, what: str = "X", n_columns: int | None = None) -> Floats:
    """Return X as a finite two-dimensional float64 array, or say what is wrong with it."""
    names = list_columns(X)
    raw = np.asarray(unpack_mask(X))
    if np.iscomplexobj(raw):
        raise InvalidInput(
            f"Complex data not supported: {what} has dtype {raw.dtype}; expected real numbers. Pass real and "
            "imaginary parts as columns of their own."
        )
    try:  # complex numbers would be cut to their real parts with a mere warning, so they are refused above
        array = raw.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(not_a_number(raw, names, error, what=what)) from error
    if array.ndim != 2:
        raise InvalidInput(
            f"Expected a 2D array for {what}, one row per observation. Got {array.ndim}D, "
            f"shape {array.shape}. Reshape a single row with X.reshape(1, -1)."
        )
    if 0 in array.shape:
        raise InvalidInput(
            f"{what} is empty: its shape is {array.shape}; at least 1 row and 1 column are needed."
        )
    if n_columns is not None and array.shape[1] != n_columns:
        raise InvalidInput(
            f"{what} has {array.shape[1]} columns, but the model was fitted on {n_columns}. Pass the columns "
            "that the model was fitted on, in the same order."
        )
    check_finite(array, names, what=what)
    return array


def not_a_number(raw: Any, names: Sequence[str] | None, error: Exception, *, what: str = "X") -> str:
    """Say which cell cannot be read as a number."""
    advice = "Encode text and categories as numbers first, or pass a table to `tellwhy.explain` whole."
    if raw.ndim == 2:
        # One cell after the other is slow, but this only runs once something is wrong.
        for row, column in np.ndindex(raw.shape):
            try:
                float(raw[row, column])
            except (TypeError, ValueError):
                where = f"column {column}" if names is None else f"column {names[column]!r}"
                cell = str(raw[row, column])
                return f"{what} holds {cell!r} in row {row}, {where}; expected a number. {advice}"
    return f"{what} cannot be read as numbers ({error}). {advice}"


@dataclass(frozen=True)
class ColumnSpread:
    """Mean and standard deviation of each column; the deviation of a constant column is exactly 0.

    Examples
    --------
    >>> spread = ColumnSpread.of(np.array([[0.0, 0.1], [2.0, 0.1], [4.0, 0.1]]))
    >>> spread.mean, spread.deviation.round(3), spread.varies
    (array([2. , 0.1]), array([1.633, 0.   ]), array([ True, False]))
    """

    mean: Floats
    deviation: Floats

    @classmethod
    def of(cls, X: NDArray[Any]) -> ColumnSpread:
        """Measure the columns of rows of any float type, in float64."""
        exponent = np.frexp(np.abs(X).max(axis=0))[1]
        # Dividing by a power of two changes no digit, so that the results are those of the plain formulas
        # wherever these are right. The exponent is one less than it could be: 2^1024 is not a number.
        unit = np.ldexp(1.0, exponent - 1)
        scaled = X / unit
        varies = X.max(axis=0) > X.min(axis=0)
        mean = np.where(varies, scaled.mean(axis=0) * unit, X[0])
        return cls(mean, np.where(varies, scaled.std(axis=0) * unit, 0.0))

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Mask of the columns that are not constant."""
        return self.deviation > 0


@dataclass(frozen=True)
class Scaling:
    """z = (x − centre)/scale, with one centre and one scale per column.

    Learned from rows, it gives their columns mean 0 and standard deviation 1.
    """

    centre: Floats
    scale: Floats

    @classmethod
    def of(cls, X: NDArray[Any], *, constant: float | None = None) -> Self:
        """Learn from the columns of rows.

        A constant column takes the scale `constant`. By default it takes the median scale of the others, so
        that a cell that differs from the constant one day counts like a cell of an ordinary column.

        Examples
        --------
        >>> Scaling.of(np.array([[1e9, 7.0], [1e9 + 2.0, 7.0]])).scale
        array([1., 1.])
        """
        spread = ColumnSpread.of(X)
        if constant is None:
            if not spread.varies.any():
                raise InvalidInput(
                    "All rows are equal: there is no spread to learn from. Give rows that differ."
                )
            constant = float(np.median(spread.deviation[spread.varies]))
        return cls(spread.mean, np.where(spread.varies, spread.deviation, constant))

    @classmethod
    def none(cls, n_columns: int) -> Self:
        """Leave rows as they are."""
        return cls(np.zeros(n_columns), np.ones(n_columns))

    def apply(self, X: NDArray[Any]) -> Floats:
        """Bring rows into scaled coordinates."""
        return np.ascontiguousarray((X - self.centre) / self.scale)

    def _require(self) -> Iterator[Fit]:
        yield "scale", self.scale.shape, self.centre.shape
        yield "scale", bool((self.scale > 0).all()), True
