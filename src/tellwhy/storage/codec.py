"""What a fitted model holds, as JSON and arrays, and back.

Numbers, text, true, false and null are JSON as they are. Everything else becomes `{"type": …, "is": …}`.
There `type` is one of a few fixed words, or the name of a class that was declared beforehand
(`saved_classes`); nothing else is ever made from what a file says. Arrays of numbers are kept apart, and
JSON holds their names.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from tellwhy.core.errors import CannotWrite
from tellwhy.core.old_names import update_names
from tellwhy.core.params import Fit, validate_parameters
from tellwhy.storage.documents import Arrays, Misfit, at_key

HALVES = ("params", "learned")  # what an estimator was told, and what it learned


@dataclasses.dataclass(frozen=True)
class Part:
    """How objects of one class are written and made again.

    Attributes
    ----------
    cls
        The class.
    taken, made
        Its fields by name, and the object that such fields make.
    fits
        Yields what must be true of one that was read (see `core.params.Fit`).
    half
        What `fits` looks at, of an object whose fields are in two halves.
    """

    cls: type
    taken: Callable[[Any], Mapping[str, Any]]
    made: Callable[[Mapping[str, Any]], Any]
    fits: Callable[[Any], Iterable[Fit]] = lambda _: ()
    half: str = ""

    def check(self, value: Any, key: str) -> None:
        """Raise `Misfit` with the key of the first part that does not fit."""
        key = name_below(key, self.half) if self.half else key
        with at_key(key):
            for part, found, expected in self.fits(value):
                if found != expected:
                    is_yes_or_no = isinstance(expected, bool)
                    told = "cannot be right" if is_yes_or_no else f"is {found}, expected {expected}"
                    what = f"the parts of its {self.cls.__name__} do not fit together"
                    raise Misfit(f"{what}: {part} {told}", name_below(key, part))


class Parts(Protocol):
    """The classes that a file may hold."""

    def part(self, name: str) -> Part | None:
        """The class that a file gives this name; None: there is none."""

    def name_of(self, cls: type) -> str | None:
        """The name that a file gives a class; None: it cannot be in one."""


def describe_part(cls: type) -> Part:
    """A class of ours: a dataclass by its fields, an estimator by its parameters and what it learned.

    A class may say of itself what must be true of one that is read (`_require`), what to write in its stead
    (`_to_save`), and what fields of earlier versions are now (`_of_earlier`). Names that its fields had stand
    in `core.old_names`.
    """
    fits = getattr(cls, "_require", lambda _: ())
    if not dataclasses.is_dataclass(cls):
        return Part(cls, split_model, partial(put_together, cls), fits, HALVES[1])
    names = [field.name for field in dataclasses.fields(cls)]

    return Part(cls, partial(_name_fields, names), partial(_make_value, cls), fits)


def _name_fields(names: Iterable[str], value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _make_value(cls: Any, fields: Mapping[str, Any]) -> Any:
    now = getattr(cls, "_of_earlier", lambda known: known)
    return cls(**now(update_names(cls, fields)))


def split_model(model: Any) -> dict[str, dict[str, Any]]:
    """Return what an estimator was told and what it learned."""
    written = model._to_save() if hasattr(model, "_to_save") else model
    params = written.get_params(deep=False)
    told = {key: None if _is_source(value) else value for key, value in params.items()}
    return {"params": told, "learned": {k: v for k, v in vars(written).items() if k not in told}}


def _is_source(value: Any) -> bool:
    """Whether a parameter is a source of random numbers, whose state is of no use to a fitted model."""
    return isinstance(value, (np.random.Generator, np.random.RandomState))


def put_together(cls: Any, fields: Mapping[str, Any]) -> Any:
    """Return an estimator made of its two halves."""
    with at_key("params"):
        model = cls(**update_names(cls, fields["params"]))
        validate_parameters(model)
    for name, value in update_names(cls, fields["learned"]).items():
        check_learned(cls, name)
        setattr(model, name, value)
    return model


def check_learned(cls: Any, name: str) -> None:
    """Raise unless `fit` may set this: no method, no property, nothing private may come from a file."""
    held = getattr(cls, name, None)
    is_taken = callable(held) or hasattr(held, "__get__")
    if not name.endswith("_") or name.startswith("_") or is_taken:
        raise Misfit(f"{name!r} is nothing that it learns", f"learned.{name}")


def name_below(key: str, name: object) -> str:
    """The key of something inside of what another key names; the model itself has none."""
    return f"{key}.{name}" if key else str(name)


class Encoder:
    """Turns values into JSON, and collects the arrays and the names of classes that are met on the way.

    Examples
    --------
    >>> from tellwhy.storage.saved_classes import SavedClasses
    >>> encoder = Encoder(SavedClasses())
    >>> encoder.encoded((1, np.array([0.5])), "pair")
    {'type': 'tuple', 'is': [1, {'type': 'array', 'is': 'pair.1'}]}
    >>> encoder.arrays
    {'pair.1': array([0.5])}
    """

    def __init__(self, parts: Parts):
        self.parts = parts
        self.arrays: Arrays = {}
        self.names: set[str] = set()

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
        kind, held = self._open_value(value, name)
        return {"type": kind, "is": held}

    def _open_value(self, value: Any, name: str) -> tuple[str, Any]:
        """Return the type and the contents of a value that JSON has no notation for."""
        if isinstance(value, numbers.Real):
            return "number", str(float(value))  # infinite or not a number
        if isinstance(value, np.ndarray):
            return self._open_array(value, name)
        if type(value) in (list, tuple):  # a named tuple would come back as another type
            return type(value).__name__, self._encode_items(value, name)
        if isinstance(value, Mapping) and not all(isinstance(key, str) for key in value):
            return "pairs", self._encode_items(value.items(), name)  # JSON's keys are text
        kind, fields = self._list_fields(value, name)
        return kind, {key: self.encoded(item, f"{name}.{key}") for key, item in fields.items()}

    def _encode_items(self, values: Iterable[Any], name: str) -> list[Any]:
        return [self.encoded(value, f"{name}.{i}") for i, value in enumerate(values)]

    def _open_array(self, value: Any, name: str) -> tuple[str, Any]:
        if value.dtype.kind in "OU" and value.ndim == 1 and all(isinstance(item, str) for item in value):
            # Classes may come as an array of objects or of text; which of them is kept.
            return "names" if value.dtype.kind == "O" else "text", [str(item) for item in value]
        if value.dtype.kind not in "biuf":
            raise CannotWrite(
                f"{name} holds neither numbers nor text, but only these can be in a saved model."
            )
        self.arrays[name] = value
        return "array", name

    def _list_fields(self, value: Any, name: str) -> tuple[str, Mapping[str, Any]]:
        """Return the type of a value that has named parts, and these."""
        if isinstance(value, Mapping):
            return "mapping", value
        if sparse.issparse(value):
            table = sparse.csr_array(value)
            kept = {"data": table.data, "indices": table.indices, "indptr": table.indptr}
            return "sparse", {**kept, "shape": table.shape}
        kind = self.parts.name_of(type(value))
        part = None if kind is None else self.parts.part(kind)
        if kind is None or part is None or part.cls is not type(value):
            raise CannotWrite(f"{name} holds {type(value).__name__}, which no saved model can hold.")
        self.names.add(kind)
        return kind, part.taken(value)


class Decoder:
    """Turns what an `Encoder` wrote into values again; whatever cannot be is a `Misfit` that names its key.

    Examples
    --------
    >>> from tellwhy.storage.saved_classes import SavedClasses
    >>> decoder = Decoder(SavedClasses(), {"pair.1": np.array([0.5])})
    >>> decoder.decoded({"type": "tuple", "is": [1, {"type": "array", "is": "pair.1"}]}, "pair")
    (1, array([0.5]))
    >>> decoder.decoded({"type": "Popen", "is": {}}, "pair")
    Traceback (most recent call last):
    tellwhy.storage.documents.Misfit: it names 'Popen', which is nothing that a model holds
    """

    def __init__(self, parts: Parts, arrays: Mapping[str, Any]):
        self.parts = parts
        self.arrays = arrays

    def decoded(self, value: Any, key: str = "") -> Any:
        """Return what `Encoder.encoded` was given."""
        if not isinstance(value, dict):
            return value
        with at_key(key):
            kind = value["type"]
            held = value["is"]
            if kind == "array":
                return self.arrays[held]
            if isinstance(held, dict):
                return self._make_value(kind, held, key)
            if kind not in _FROM_ITEMS:
                raise _refuse_unknown(kind, key)
            if isinstance(held, list):
                held = [self.decoded(item, name_below(key, i)) for i, item in enumerate(held)]
            return _FROM_ITEMS[kind](held)

    def _make_value(self, kind: str, items: Mapping[str, Any], key: str) -> Any:
        """Return an object that has named parts."""
        part = None if kind in _FROM_FIELDS else self.parts.part(kind)
        if part is None and kind not in _FROM_FIELDS:
            raise _refuse_unknown(kind, key)
        fields = {name: self.decoded(item, name_below(key, name)) for name, item in items.items()}
        if part is None:
            return _FROM_FIELDS[kind](fields)
        try:
            made = part.made(fields)
        except Misfit as misfit:
            raise Misfit(misfit.why, name_below(key, misfit.key)) from misfit
        part.check(made, key)
        return made


def _refuse_unknown(kind: Any, key: str) -> Misfit:
    return Misfit(f"it names {kind!r}, which is nothing that a model holds", key)


def _make_sparse(fields: Mapping[str, Any]) -> Any:
    table = sparse.csr_array((fields["data"], fields["indices"], fields["indptr"]), shape=fields["shape"])
    table.check_format(full_check=True)  # compiled products would read outside of arrays otherwise
    return table


_FROM_FIELDS: dict[str, Callable[[Any], Any]] = {"mapping": dict, "sparse": _make_sparse}
_FROM_ITEMS: dict[str, Callable[[Any], Any]] = {
    "number": float,
    "names": lambda items: np.array([str(item) for item in items], dtype=object),
    "text": lambda items: np.array([str(item) for item in items], dtype=str),
    "list": list,
    "tuple": tuple,
    "pairs": dict,
}
