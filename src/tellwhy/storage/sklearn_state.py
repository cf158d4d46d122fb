"""An estimator of scikit-learn as plain values: its parameters, and what `fit` has set; and back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from tellwhy.core.errors import CannotWrite
from tellwhy.storage.documents import Misfit

# Kept by scikit-learn for fitting on: a fitted model does not use them.
_FOR_FITTING = ("_loss_function_", "_rng", "_random_state", "_feature_subsample_rng", "_sklearn_version")
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, partial, np.ufunc, type)
_NUMBERS = ("float64", "float32", "int64", "int32", "uint8", "bool")


def state_of(model: Any) -> dict[str, Any]:
    """Parameters of an estimator, and what `fit` has set, as the file holds them."""
    params = model.get_params(deep=False)
    by_constructor = set(vars(type(model)(**params)))
    learned = {
        name: value
        for name, value in vars(model).items()
        if name not in by_constructor and name not in _FOR_FITTING
    }
    return {
        "params": {name: wrapped(value, name) for name, value in params.items()},
        "learned": {name: wrapped(value, name) for name, value in learned.items()},
    }


def estimator_of(cls: Any, fields: Mapping[str, Any]) -> Any:
    """The estimator that `state_of` was given."""
    model = cls(**{name: unwrapped(value) for name, value in fields["params"].items()})
    for name, value in fields["learned"].items():
        held = getattr(cls, name, None)
        # A file may set what `fit` sets: no method, no property, nothing of Python's own.
        if name.startswith("__") or not name.isidentifier() or callable(held) or isinstance(held, property):
            raise Misfit(f"{name!r} is nothing that it learns", f"learned.{name}")
        vars(model)[name] = unwrapped(value)
    return model


def wrapped(value: Any, name: str) -> Any:
    """A value as a saved model can hold it; what only Python has becomes a small table that says what it is.

    Examples
    --------
    >>> wrapped(slice(0, 3), "columns")
    {'is_a': 'slice', 'of': [0, 3, None]}
    >>> unwrapped(wrapped(np.array([np.nan, 1.0]), "statistics"))
    array([nan,  1.])
    """
    if isinstance(value, (np.random.RandomState, np.random.Generator)):
        return None  # the state of random numbers is of no use to a fitted model
    if isinstance(value, dict):
        return {"is_a": "dict", "of": [[wrapped(k, name), wrapped(v, name)] for k, v in value.items()]}
    if type(value) in (list, tuple):
        return type(value)(wrapped(item, name) for item in value)
    if isinstance(value, np.ndarray):
        return _wrapped_array(value, name)
    return _wrapped_word(value, name)


def _wrapped_word(value: Any, name: str) -> Any:
    """Slices and types of numbers; everything else as it is."""
    if isinstance(value, slice):
        return {"is_a": "slice", "of": [value.start, value.stop, value.step]}
    if isinstance(value, np.dtype):
        return {"is_a": "dtype", "of": value.name}
    if isinstance(value, type) and issubclass(value, (np.generic, float, int)):
        return {"is_a": "type", "of": np.dtype(value).name}
    if isinstance(value, partial) and value.func is check_array and not value.args:
        # The one function that scikit-learn itself puts into a model: boosting with categories.
        return {"is_a": "check_array", "of": wrapped(dict(value.keywords), name)}
    if isinstance(value, _FUNCTIONS):
        raise CannotWrite(
            f"{name} is a function, which no file can hold: name the columns, the kernel or the metric, or "
            "leave it out."
        )
    return value


def _wrapped_array(value: Any, name: str) -> Any:
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        # Missing categories and endless thresholds are kept as their bits.
        bits = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}")
        return {"is_a": "bits", "of": [value.dtype.name, bits]}
    if value.ndim == 2 and value.dtype.kind in "biuf" and not _is_dense(value):
        return {"is_a": "corner", "of": [_around(value), *map(int, value.shape)]}
    is_text = all(isinstance(item, str) for item in value.ravel()) if value.dtype.kind == "O" else True
    if value.dtype.kind == "O" and not (is_text and value.ndim == 1):
        items = [wrapped(item, name) for item in value.ravel().tolist()]
        return {"is_a": "objects", "of": [list(value.shape), items]}
    return value


def _is_dense(array: Any) -> bool:
    return bool(array.flags.c_contiguous or array.flags.f_contiguous)


def _around(array: Any) -> Any:
    """A larger array, 0 elsewhere, whose first rows and columns are these, as they lay in memory.

    Products with a part of an array round otherwise than those with a copy of that part.
    """
    steps = [abs(step) // array.itemsize for step in array.strides]
    by_column = steps[0] < steps[1]
    lead = max(steps[1 if by_column else 0], array.shape[0 if by_column else 1])
    shape = (lead, array.shape[1]) if by_column else (array.shape[0], lead)
    found = np.zeros(shape, dtype=array.dtype, order="F" if by_column else "C")
    found[: array.shape[0], : array.shape[1]] = array
    return found


def unwrapped(value: Any) -> Any:
    """What `wrapped` was given."""
    if type(value) in (list, tuple):
        return type(value)(unwrapped(item) for item in value)
    if isinstance(value, dict):
        if set(value) != {"is_a", "of"} or value["is_a"] not in _UNWRAP:
            raise ValueError("it holds a table that is none of scikit-learn's values")
        return _UNWRAP[value["is_a"]](value["of"])
    if sparse.issparse(value):
        return sparse.csr_matrix(value)
    return value


def _dtype(name: Any) -> Any:
    if name not in _NUMBERS and name != "object" and not str(name).startswith("str"):
        raise ValueError(f"{name!r} is no type of numbers")
    return np.dtype(name)


def _objects(held: Any) -> Any:
    shape, items = held
    found = np.empty(len(items), dtype=object)
    for place, item in enumerate(items):
        found[place] = unwrapped(item)
    return found.reshape(shape)


def _bits(held: Any) -> Any:
    name, bits = held
    if name not in ("float64", "float32", "float16") or bits.dtype.kind != "u":
        raise ValueError(f"{name!r} is no type of numbers")
    return bits.view(name)


def _check_array(held: Any) -> Any:
    told = unwrapped(held)
    if not set(told) <= {"dtype", "ensure_all_finite"}:
        raise ValueError("it holds settings of check_array that no model has")
    return partial(check_array, **told)


_UNWRAP = {
    "corner": lambda held: held[0][: held[1], : held[2]],
    "check_array": _check_array,
    "dict": lambda pairs: {unwrapped(key): unwrapped(item) for key, item in pairs},
    "slice": lambda ends: slice(*ends),
    "dtype": _dtype,
    "type": lambda name: _dtype(name).type,
    "objects": _objects,
    "bits": _bits,
}
