"""What a fitted model holds, as JSON and arrays, and back.

Numbers, text, true, false and null are JSON as they are. Everything else becomes `{"type": …, "is": …}`.
There `type` is one of a few fixed words or the name of a `Part`, a class that was declared beforehand;
nothing else is ever made from what a file says. Arrays of numbers are kept apart, and JSON holds their names.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from scipy import sparse

from tellwhy.core.errors import CannotWrite
from tellwhy.core.old_names import new_names
from tellwhy.core.params import validate_parameters
from tellwhy.storage.documents import Arrays, Misfit, at_key

Fit = tuple[str, object, object]  # a part of a value, what was found there, and what fits the other parts
HALVES = ("params", "learned")  # what an estimator was told, and what it learned


@dataclasses.dataclass(frozen=True)
class Part:
    """A class that a saved model may be, or be made of: an estimator or a dataclass.

    Attributes
    ----------
    cls
        The class. Of an estimator its parameters are stored, and all attributes that end in '_'; of a
        dataclass its fields.
    fits
        Yields `(part, found, expected)` for one that was read. Where the last two differ, the file is
        refused. It goes on only after a part that fits, so that later lines may rely on earlier ones.
    written
        Gives what to write in its stead, where that is not the object itself.
    taken, made
        For classes of other kinds: its fields by name, and the object that such fields make.
    """

    cls: type
    fits: Callable[[Any], Iterable[Fit]]
    written: Callable[[Any], Any] | None = None
    taken: Callable[[Any], Mapping[str, Any]] | None = None
    made: Callable[[Mapping[str, Any]], Any] | None = None

    def check(self, value: Any, key: str) -> None:
        """Raise `Misfit` with the key of the first part that does not fit."""
        for part, found, expected in self.fits(value):
            if found != expected:
                name = self.cls.__name__
                is_yes_or_no = isinstance(expected, bool)
                told = "cannot be right" if is_yes_or_no else f"is {found}, expected {expected}"
                raise Misfit(f"the parts of its {name} do not fit together: {part} {told}", f"{key}.{part}")


Parts = Mapping[str, Part]  # by the name of the class


def by_name(*parts: Part) -> dict[str, Part]:
    """Return parts by the names of their classes."""
    return {part.cls.__name__: part for part in parts}


def halves(model: Any) -> dict[str, dict[str, Any]]:
    """Return what an estimator was told and what it learned."""
    params = model.get_params(deep=False)
    told = {key: None if _is_source(value) else value for key, value in params.items()}
    learned = {key: value for key, value in vars(model).items() if key not in told}
    return {"params": told, "learned": learned}


def _is_source(value: Any) -> bool:
    """Whether a parameter is a source of random numbers, whose state is of no use to a fitted model."""
    return isinstance(value, (np.random.Generator, np.random.RandomState))


class Encoder:
    """Turns values into JSON, and collects the arrays that are met on the way.

    Examples
    --------
    >>> encoder = Encoder({}, "thing")
    >>> encoder.encoded((1, np.array([0.5])), "pair")
    {'type': 'tuple', 'is': [1, {'type': 'array', 'is': 'pair.1'}]}
    >>> encoder.arrays
    {'pair.1': array([0.5])}
    """

    def __init__(self, parts: Parts, what: str):
        self.parts = parts
        self.what = what
        self.arrays: Arrays = {}

    def encoded(self, value: Any, name: str) -> Any:
        """Return what JSON holds for a value; its arrays are kept under names that begin with `name`."""
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, np.bool_):
            return bool(value)
        if isinstance(value, numbers.Integral):
            return int(value)
        if isinstance(value, numbers.Real) and math.isfinite(value):
            return float(value)
        kind, held = self._opened(value, name)
        return {"type": kind, "is": held}

    def _opened(self, value: Any, name: str) -> tuple[str, Any]:
        """Return the type and the contents of a value that JSON has no notation for."""
        if isinstance(value, numbers.Real):
            return "number", str(float(value))  # infinite or not a number
        if isinstance(value, np.ndarray):
            return self._opened_array(value, name)
        if type(value) in (list, tuple):  # a named tuple would come back as another type
            return type(value).__name__, self._items(value, name)
        if isinstance(value, Mapping) and not all(isinstance(key, str) for key in value):
            return "pairs", self._items(value.items(), name)  # JSON's keys are text
        kind, fields = self._fields(value, name)
        return kind, {key: self.encoded(item, f"{name}.{key}") for key, item in fields.items()}

    def _items(self, values: Iterable[Any], name: str) -> list[Any]:
        return [self.encoded(value, f"{name}.{i}") for i, value in enumerate(values)]

    def _opened_array(self, value: Any, name: str) -> tuple[str, Any]:
        if value.dtype.kind in "OU" and value.ndim == 1 and all(isinstance(item, str) for item in value):
            # Classes may come as an array of objects or of text; which of them is kept.
            return "names" if value.dtype.kind == "O" else "text", [str(item) for item in value]
        if value.dtype.kind not in "biuf":
            raise CannotWrite(
                f"{name} holds neither numbers nor text, but only these can be in a saved {self.what}."
            )
        self.arrays[name] = value
        return "array", name

    def _fields(self, value: Any, name: str) -> tuple[str, Mapping[str, Any]]:
        """Return the type of a value that has named parts, and these."""
        if isinstance(value, Mapping):
            return "mapping", value
        if sparse.issparse(value):
            table = sparse.csr_array(value)
            kept = {"data": table.data, "indices": table.indices, "indptr": table.indptr}
            return "sparse", {**kept, "shape": table.shape}
        kind, part = self._part_of(value, name)
        if part.taken is not None:
            return kind, part.taken(value)
        if not dataclasses.is_dataclass(value):
            return kind, halves(value)
        return kind, {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}

    def _part_of(self, value: Any, name: str) -> tuple[str, Part]:
        """Return the part that a value is, and its name; others' classes begin with their package."""
        own = type(value).__name__
        package = type(value).__module__.partition(".")[0]
        for kind in (own, f"{package}.{own}"):
            part = self.parts.get(kind)
            if part is not None and part.cls is type(value):
                return kind, part
        raise CannotWrite(f"{name} holds {own}, which a saved {self.what} cannot hold.")


class Decoder:
    """Turns what an `Encoder` wrote into values again; whatever cannot be is a `Misfit` that names its key.

    Examples
    --------
    >>> decoder = Decoder({}, "thing", {"pair.1": np.array([0.5])})
    >>> decoder.decoded({"type": "tuple", "is": [1, {"type": "array", "is": "pair.1"}]}, "pair")
    (1, array([0.5]))
    >>> decoder.decoded({"type": "Popen", "is": {}}, "pair")
    Traceback (most recent call last):
    tellwhy.storage.documents.Misfit: it names 'Popen', which is nothing that a thing learns
    """

    def __init__(self, parts: Parts, what: str, arrays: Mapping[str, Any]):
        self.parts = parts
        self.what = what
        self.arrays = arrays

    def decoded(self, value: Any, key: str) -> Any:
        """Return what `Encoder.encoded` was given."""
        if not isinstance(value, dict):
            return value
        with at_key(key):
            kind = value["type"]
            held = value["is"]
            if kind == "array":
                return self.arrays[held]
            if isinstance(held, dict):
                return self._made(kind, self.decoded_items(held, key), key)
            if kind not in _FROM_ITEMS:
                raise self._unknown(kind, key)
            if isinstance(held, list):
                held = [self.decoded(item, f"{key}.{i}") for i, item in enumerate(held)]
            return _FROM_ITEMS[kind](held)

    def decoded_items(self, items: Mapping[str, Any], key: str) -> dict[str, Any]:
        """Return an object of JSON with each of its values decoded."""
        return {name: self.decoded(item, f"{key}.{name}") for name, item in items.items()}

    def _made(self, kind: str, fields: dict[str, Any], key: str) -> Any:
        """Return an object that has named parts."""
        if kind == "mapping":
            return fields
        if kind == "sparse":
            return _sparse(fields)
        if kind not in self.parts:
            raise self._unknown(kind, key)
        part = self.parts[kind]
        if part.made is not None:
            found = part.made(fields)
            part.check(found, key)
            return found
        is_record = dataclasses.is_dataclass(part.cls)
        made = part.cls(**fields) if is_record else put_together(part.cls, fields, f"{key}.")
        part.check(made, key)
        return made

    def _unknown(self, kind: Any, key: str) -> Misfit:
        return Misfit(f"it names {kind!r}, which is nothing that a {self.what} learns", key)


def put_together(cls: Any, fields: Mapping[str, Mapping[str, Any]], prefix: str = "") -> Any:
    """Return an estimator made of its two halves; `prefix` is the beginning of their keys."""
    with at_key(f"{prefix}params"):
        model = cls(**new_names(cls, fields["params"]))
        validate_parameters(model)
    for name, value in fields["learned"].items():
        # Only what `fit` sets may come from a file: no method, no property, nothing private.
        if not name.endswith("_") or name.startswith("_") or hasattr(cls, name):
            raise Misfit(f"{name!r} is nothing that it learns", f"{prefix}learned.{name}")
        setattr(model, name, value)
    return model


def _sparse(fields: dict[str, Any]) -> Any:
    table = sparse.csr_array((fields["data"], fields["indices"], fields["indptr"]), shape=fields["shape"])
    table.check_format(full_check=True)  # compiled products would read outside of arrays otherwise
    return table


_FROM_ITEMS: dict[str, Callable[[Any], Any]] = {
    "number": float,
    "names": lambda items: np.array([str(item) for item in items], dtype=object),
    "text": lambda items: np.array([str(item) for item in items], dtype=str),
    "list": list,
    "tuple": tuple,
    "pairs": dict,
}
