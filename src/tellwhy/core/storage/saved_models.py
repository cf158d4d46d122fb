"""Fitted estimators on disk: a JSON head (class, parameters, what was learned) and `arrays.npz`; never pickle.

A `Shelf` says which classes may be made from what a file says: the estimators of one folder, and the few
records (and estimators) that they are made of. Nothing else ever is.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.errors import CannotWrite, UnreadableFile
from tellwhy.core.params import validate_parameters
from tellwhy.core.storage.files import new_folder, read_versioned, stored_arrays, write_json

SCHEMA = 1
ARRAYS = "arrays.npz"
_MISFITS = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    MemoryError,
    RuntimeError,
)  # PyTorch's are the last

Records = Mapping[str, tuple[Any, Callable[[Any], bool]]]  # name -> (class, whether its parts fit together)


@dataclasses.dataclass(frozen=True)
class Shelf:
    """What `save_model` and `load_model` know of one kind of estimator."""

    what: str  # "detector", "basis", …: the head is <what>.json
    classes: Callable[[], Mapping[str, Any]]
    records: Records
    try_out: Callable[[Any], None]  # raises for parts that do not fit together

    @property
    def head(self) -> str:
        """Name of the JSON file."""
        return f"{self.what}.json"


class SavedModel:
    """An estimator that is written to a folder and read again."""

    _model_io: ClassVar[str]  # the module whose `save` and `load` know its kind

    def save(self, folder: str | Path) -> Path:
        """Write the fitted model to a folder (JSON and arrays, no pickle); `load` reads it."""
        place: Path = import_module(self._model_io).save(self, folder)
        return place

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model of this class that `save` wrote: it gives the same scores, bit for bit."""
        model = import_module(cls._model_io).load(folder)
        if not isinstance(model, cls):
            raise UnreadableFile(f"{folder} holds a {type(model).__name__}, not a {cls.__name__}.")
        return model


def save_model(shelf: Shelf, model: Any, folder: str | Path) -> Path:
    """Write a fitted estimator, whole or not at all."""
    check_is_fitted(model)
    name, target = type(model).__name__, Path(folder)
    if shelf.classes().get(name) is not type(model):
        raise CannotWrite(f"{name} is not a registered {shelf.what}, so that no file could bring it back.")
    arrays: dict[str, Any] = {}
    params, learned = _halves(model)
    head = {
        "schema": SCHEMA,
        shelf.what: name,
        "params": {key: _encoded(value, f"params.{key}", arrays, shelf) for key, value in params.items()},
        "learned": {key: _encoded(value, key, arrays, shelf) for key, value in learned.items()},
    }
    with new_folder(target, marker=shelf.head) as work:
        write_json(work / shelf.head, head)
        np.savez_compressed(work / ARRAYS, allow_pickle=False, **arrays)
    return target


def load_model(shelf: Shelf, folder: str | Path) -> Any:
    """Read an estimator that `save_model` wrote; `UnreadableFile` for what is damaged, of another version, made up."""
    place = Path(folder)
    _check_folder(place, shelf)
    head, arrays = _read_head(place / shelf.head, shelf.what), _read_arrays(place / ARRAYS)
    cls = shelf.classes().get(head[shelf.what])
    if cls is None:
        raise UnreadableFile(
            f"{place / shelf.head} names {head[shelf.what]!r}, which is no {shelf.what} of tellwhy."
        )
    try:
        fields = {part: {k: _decoded(v, arrays, shelf) for k, v in head[part].items()} for part in _PARTS}
        model = _estimator(cls, fields)
        check_is_fitted(model)
        shelf.try_out(model)
    except _MISFITS as error:
        raise UnreadableFile(f"{place} does not hold a working {cls.__name__}: {error}") from error
    return model


def _check_folder(place: Path, shelf: Shelf) -> None:
    """Say that there is no folder, or that something else is in it."""
    if not place.is_dir():
        what = "is a file" if place.exists() else "is not there"
        raise UnreadableFile(f"{place} {what}; expected the folder of a saved {shelf.what}.")
    if not (place / shelf.head).is_file():
        held = ", ".join(sorted(path.name for path in place.iterdir())[:5]) or "nothing"
        raise UnreadableFile(
            f"{place} holds no saved {shelf.what}: {shelf.head} is missing. It holds {held}."
        )


_PARTS = ("params", "learned")


def _halves(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what an estimator was told and what it learned."""
    told = model.get_params(deep=False)
    params = {key: None if _is_source(value) else value for key, value in told.items()}
    return params, {key: value for key, value in vars(model).items() if key not in params}


def _estimator(cls: Any, fields: Mapping[str, Mapping[str, Any]]) -> Any:
    """Put an estimator together from its two halves."""
    model = cls(**fields["params"])
    validate_parameters(model)
    for key, value in fields["learned"].items():
        if not key.endswith("_") or key.startswith("_") or hasattr(cls, key):
            raise ValueError(f"{key!r} is nothing that it learns.")
        setattr(model, key, value)
    return model


def _is_source(value: Any) -> bool:
    """Whether a parameter is a source of random numbers, whose state is of no use to a fitted model."""
    return isinstance(value, (np.random.Generator, np.random.RandomState))


def _is_estimator(value: Any) -> bool:
    return hasattr(value, "get_params")


def _encoded(value: Any, name: str, arrays: dict[str, Any], shelf: Shelf) -> Any:
    """Return what JSON holds for a value; arrays of numbers go to `arrays` under a name of their own."""
    if isinstance(value, (np.bool_, numbers.Integral)) and not isinstance(value, bool):
        return value.item() if isinstance(value, np.generic) else int(value)
    if isinstance(value, numbers.Real) and math.isfinite(value) and not isinstance(value, bool):
        return float(value)
    if value is None or isinstance(value, (bool, str)):
        return value
    kind, held = _opened(value, name, arrays, shelf)
    return {"type": kind, "is": held}


def _opened(value: Any, name: str, arrays: dict[str, Any], shelf: Shelf) -> tuple[str, Any]:
    """Return the type and the contents of a value that JSON has no notation for."""
    if isinstance(value, numbers.Real):
        return "number", str(float(value))
    if isinstance(value, np.ndarray):
        return _opened_array(value, name, arrays, shelf)
    if isinstance(value, (list, tuple)):
        items = [_encoded(item, f"{name}.{i}", arrays, shelf) for i, item in enumerate(value)]
        return type(value).__name__, items
    if isinstance(value, Mapping) and not all(isinstance(key, str) for key in value):
        return "pairs", [_encoded(pair, f"{name}.{i}", arrays, shelf) for i, pair in enumerate(value.items())]
    kept = {
        key: _encoded(item, f"{name}.{key}", arrays, shelf)
        for key, item in _fields(value, name, shelf).items()
    }
    return _kind(value), kept


def _opened_array(value: Any, name: str, arrays: dict[str, Any], shelf: Shelf) -> tuple[str, Any]:
    if value.dtype.kind in "OU" and value.ndim == 1 and all(isinstance(item, str) for item in value):
        return "names" if value.dtype.kind == "O" else "text", [str(item) for item in value]
    if value.dtype.kind not in "biuf":
        raise CannotWrite(
            f"{name} holds neither numbers nor text, but only these can be in a saved {shelf.what}."
        )
    arrays[name] = value
    return "array", name


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "mapping"
    return "sparse" if sparse.issparse(value) else type(value).__name__


def _fields(value: Any, name: str, shelf: Shelf) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    if sparse.issparse(value):
        table = sparse.csr_array(value)
        return {"data": table.data, "indices": table.indices, "indptr": table.indptr, "shape": table.shape}
    known = shelf.records.get(type(value).__name__)
    if known is None or known[0] is not type(value):
        raise CannotWrite(f"{name} holds {type(value).__name__}, which a saved {shelf.what} cannot hold.")
    if _is_estimator(value):
        return dict(zip(_PARTS, _halves(value), strict=True))
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}


def _decoded(value: Any, arrays: Mapping[str, Any], shelf: Shelf) -> Any:
    """Return what `_encoded` was given; an unknown type is an error."""
    if not isinstance(value, dict):
        return value
    kind, held = value["type"], value["is"]
    if kind == "array":
        return arrays[held]
    if isinstance(held, dict):
        fields = {key: _decoded(item, arrays, shelf) for key, item in held.items()}
        return _CONTAINERS[kind](fields) if kind in _CONTAINERS else _record(kind, fields, shelf)
    if kind not in _DECODERS:
        raise ValueError(f"it names {kind!r}, which is nothing that a {shelf.what} learns.")
    return _DECODERS[kind](
        [_decoded(item, arrays, shelf) for item in held] if isinstance(held, list) else held
    )


def _record(kind: str, fields: dict[str, Any], shelf: Shelf) -> Any:
    if kind not in shelf.records:
        raise ValueError(f"it names {kind!r}, which is nothing that a {shelf.what} learns.")
    cls, is_sound = shelf.records[kind]
    record = _estimator(cls, fields) if _is_estimator(cls) else cls(**fields)
    if not is_sound(record):
        raise ValueError(f"the shapes of its {kind} do not fit together.")
    return record


def _sparse(fields: dict[str, Any]) -> Any:
    table = sparse.csr_array((fields["data"], fields["indices"], fields["indptr"]), shape=fields["shape"])
    table.check_format(full_check=True)
    return table


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "number": float,
    "names": lambda items: np.array([str(item) for item in items], dtype=object),
    "text": lambda items: np.array([str(item) for item in items], dtype=str),
    "list": list,
    "tuple": tuple,
    "pairs": dict,
}
_CONTAINERS: dict[str, Callable[[dict[str, Any]], Any]] = {"mapping": dict, "sparse": _sparse}


def _read_head(path: Path, what: str) -> dict[str, Any]:
    try:
        head = read_versioned(path, SCHEMA, f"a {what}")
    except RecursionError as error:
        raise UnreadableFile(f"{path} cannot be read as a {what}: it is nested without end.") from error
    for key, expected in ((what, str), ("params", dict), ("learned", dict)):
        if not isinstance(head.get(key), expected):
            raise UnreadableFile(f"{path} lacks {key!r}, or holds something else there.")
    return head


def _read_arrays(path: Path) -> dict[str, Any]:
    arrays = stored_arrays(path)
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
            raise UnreadableFile(f"{path} holds something else than finite numbers in {name!r}.")
    return arrays
