"""Fitted detectors on disk: `detector.json` (class, parameters, what was learned) and `arrays.npz`; never pickle.

Only classes of the registry, and the few records that they learn, are ever made from what a file says.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.errors import CannotWrite, InvalidInput, MissingExtra, UnreadableFile
from tellwhy.core.files import new_folder, read_versioned, write_json
from tellwhy.core.params import validate_parameters
from tellwhy.core.registry import cards
from tellwhy.core.score_function import CentreDistance, Floats, KernelExpansion, NeighbourDistance
from tellwhy.detectors.base import Detector
from tellwhy.detectors.scaling import Scaling
from tellwhy.kernels import Exponential, StudentT
from tellwhy.scoring import Projection, ScaledMixture

SCHEMA = 1
_HEAD, _ARRAYS = "detector.json", "arrays.npz"
_MISFITS = (TypeError, ValueError, LookupError, AttributeError, MemoryError, RuntimeError)  # PyTorch's are the last
_DAMAGES = (OSError, ValueError, EOFError, KeyError, NotImplementedError, MemoryError, zipfile.BadZipFile, zlib.error)


def save(detector: Detector, folder: str | Path) -> Path:
    """Write a fitted detector, whole or not at all; `load` reads it.

    Examples
    --------
    >>> import tempfile
    >>> from tellwhy.detectors import KernelDensity
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> detector = KernelDensity().fit(X)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     again = load(save(detector, place + "/density"))
    >>> bool((again.outlierness(X) == detector.outlierness(X)).all())
    True
    """
    check_is_fitted(detector)
    name, target = type(detector).__name__, Path(folder)
    if _known().get(name) is not type(detector):
        raise CannotWrite(f"{name} is not a registered detector, so that no file could bring it back.")
    arrays: dict[str, Any] = {}
    params = {key: None if _is_source(value) else value for key, value in detector.get_params(deep=False).items()}
    learned = {key: value for key, value in vars(detector).items() if key not in params}
    head = {
        "schema": SCHEMA,
        "detector": name,
        "params": {key: _encoded(value, f"params.{key}", arrays) for key, value in params.items()},
        "learned": {key: _encoded(value, key, arrays) for key, value in learned.items()},
    }
    with new_folder(target, marker=_HEAD) as work:
        write_json(work / _HEAD, head)
        np.savez_compressed(work / _ARRAYS, allow_pickle=False, **arrays)
    return target


def load(folder: str | Path) -> Detector:
    """Read a detector that `save` wrote: it gives the same scores, bit for bit.

    Raises `UnreadableFile` for a folder that is damaged, of another version, or made up.
    """
    place = Path(folder)
    head, arrays = _read_head(place / _HEAD), _read_arrays(place / _ARRAYS)
    cls = _known().get(head["detector"])
    if cls is None:
        raise UnreadableFile(f"{place / _HEAD} names {head['detector']!r}, which is no detector of tellwhy.")
    try:
        detector = cls(**{key: _decoded(value, arrays) for key, value in head["params"].items()})
        validate_parameters(detector)
        for key, value in head["learned"].items():
            _set_learned(detector, key, _decoded(value, arrays))
        _try_out(detector)
    except _MISFITS as error:
        raise UnreadableFile(f"{place} does not hold a working {cls.__name__}: {error}") from error
    return detector


def _known() -> dict[str, Any]:
    return {card.name: card.cls for card in cards("detector")}


def _is_source(value: Any) -> bool:
    """Whether a parameter is a source of random numbers, whose state is of no use to a fitted detector."""
    return isinstance(value, (np.random.Generator, np.random.RandomState))


def _encoded(value: Any, name: str, arrays: dict[str, Any]) -> Any:
    """Return what JSON holds for a value; arrays of numbers go to `arrays` under a name of their own."""
    if isinstance(value, (np.bool_, numbers.Integral)) and not isinstance(value, bool):
        return value.item() if isinstance(value, np.generic) else int(value)
    if isinstance(value, numbers.Real) and math.isfinite(value) and not isinstance(value, bool):
        return float(value)
    if value is None or isinstance(value, (bool, str)):
        return value
    kind, held = _opened(value, name, arrays)
    return {"type": kind, "is": held}


def _opened(value: Any, name: str, arrays: dict[str, Any]) -> tuple[str, Any]:
    """Return the type and the contents of a value that JSON has no notation for."""
    if isinstance(value, numbers.Real):
        return "number", str(float(value))
    if isinstance(value, np.ndarray) and value.dtype.kind in "OU":
        return "names", [str(item) for item in value]
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return "array", name
    if isinstance(value, (list, tuple)):
        items = [_encoded(item, f"{name}.{i}", arrays) for i, item in enumerate(value)]
        return type(value).__name__, items
    if not isinstance(value, Mapping) and type(value).__name__ not in _RECORDS:
        raise CannotWrite(f"{name} holds {type(value).__name__}, which a saved detector cannot hold.")
    fields = (
        value if isinstance(value, Mapping) else {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    )
    kept = {str(key): _encoded(item, f"{name}.{key}", arrays) for key, item in fields.items()}
    return "mapping" if isinstance(value, Mapping) else type(value).__name__, kept


def _decoded(value: Any, arrays: Mapping[str, Any]) -> Any:
    """Return what `_encoded` was given; an unknown type is an error."""
    if not isinstance(value, dict):
        return value
    kind, held = value["type"], value["is"]
    if kind == "array":
        return arrays[held]
    if isinstance(held, dict):
        fields = {key: _decoded(item, arrays) for key, item in held.items()}
        return fields if kind == "mapping" else _record(kind, fields)
    if kind not in _DECODERS:
        raise ValueError(f"it names {kind!r}, which is nothing that a detector learns.")
    return _DECODERS[kind]([_decoded(item, arrays) for item in held] if isinstance(held, list) else held)


def _record(kind: str, fields: dict[str, Any]) -> Any:
    if kind not in _RECORDS:
        raise ValueError(f"it names {kind!r}, which is nothing that a detector learns.")
    cls, is_sound = _RECORDS[kind]
    record = cls(**fields)
    if not is_sound(record):
        raise ValueError(f"the shapes of its {kind} do not fit together.")
    return record


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "number": float,
    "names": lambda items: np.array([str(item) for item in items], dtype=object),
    "list": list,
    "tuple": tuple,
}


def _set_learned(detector: Detector, key: str, value: Any) -> None:
    if not key.endswith("_") or key.startswith("_") or hasattr(type(detector), key):
        raise ValueError(f"{key!r} is nothing that it learns.")
    setattr(detector, key, value)


def _try_out(detector: Detector) -> None:
    """Score one row, so that arrays that do not fit together are noticed now."""
    check_is_fitted(detector)
    n_columns = detector.n_features_in_
    if not isinstance(n_columns, int) or n_columns < 1:
        raise ValueError(f"it has {n_columns!r} columns.")
    names = detector._names
    score = detector.set_threshold(value=detector.threshold_).to_score()
    if score.feature_shape != (n_columns,) or (names is not None and len(names) != n_columns):
        raise ValueError(f"it was fitted on {n_columns} columns, but scores rows of shape {score.feature_shape}.")
    try:
        found = score.value(np.zeros((1, n_columns)))
    except (InvalidInput, MissingExtra):  # zeros may be too far away; a network may be loaded where it cannot run
        return
    if found.shape != (1,):
        raise ValueError(f"its score of one row has shape {found.shape}.")


def _read_head(path: Path) -> dict[str, Any]:
    try:
        head = read_versioned(path, SCHEMA, "a detector")
    except RecursionError as error:
        raise UnreadableFile(f"{path} cannot be read as a detector: it is nested without end.") from error
    for key, expected in (("detector", str), ("params", dict), ("learned", dict)):
        if not isinstance(head.get(key), expected):
            raise UnreadableFile(f"{path} lacks {key!r}, or holds something else there.")
    return head


def _read_arrays(path: Path) -> dict[str, Any]:
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except _DAMAGES as error:
        raise UnreadableFile(f"{path} is missing or damaged: {error}.") from error
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
            raise UnreadableFile(f"{path} holds something else than finite numbers in {name!r}.")
    return arrays


def _is_matrix(points: Floats) -> bool:
    return bool(points.ndim == 2 and points.dtype == np.float64 and points.size)


def _is_expansion(record: Any) -> bool:
    n = len(record.points)
    weights = getattr(record, "weights", np.ones(n))
    rows = record.training_rows
    return (
        _is_matrix(record.points)
        and weights.shape == (n,)
        and weights.dtype == np.float64
        and (rows is None or (rows.shape == (n,) and rows.dtype == np.int64 and bool((rows >= 0).all())))
        and (rows is None or bool(rows.max() < record.n_training))
    )


def _is_neighbourhood(record: NeighbourDistance) -> bool:
    return _is_expansion(record) and 1 <= record.n_neighbours <= len(record.points)


def _is_kernel(record: Any) -> bool:
    return all(isinstance(value, float) and value > 0 for value in dataclasses.astuple(record))


def _is_mixture(record: ScaledMixture) -> bool:
    n, d = record.means.shape
    lines = record.log_weights.shape == (n,) and record.centre.shape == record.scale.shape == (d,)
    return lines and record.factors.shape in ((n, d), (n, d, d)) and bool((record.scale > 0).all())


_RECORDS: dict[str, tuple[Any, Callable[[Any], bool]]] = {
    "KernelExpansion": (KernelExpansion, _is_expansion),
    "NeighbourDistance": (NeighbourDistance, _is_neighbourhood),
    "CentreDistance": (CentreDistance, lambda record: _is_matrix(record.centres)),
    "Exponential": (Exponential, _is_kernel),
    "StudentT": (StudentT, _is_kernel),
    "ScaledMixture": (ScaledMixture, _is_mixture),
    "Projection": (Projection, lambda r: r.components.ndim == 2 and r.components.shape[1:] == r.mean.shape),
    "Scaling": (Scaling, lambda r: r.centre.shape == r.scale.shape and bool((r.scale > 0).all())),
}
