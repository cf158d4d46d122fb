"""One file that holds a saved model: `model.json` and the arrays beside it, in a zip that packs nothing.

Nothing is compressed, so that a file can never unpack to more than it takes on the disk. Nothing is unpacked
to the disk either: names of members lead nowhere. What each array says of itself must agree with the room
that it takes (`documents`), and nothing is ever unpickled. The same model gives the same bytes.

`model.json` holds `schema`, the model itself under `is` (see `codec`), and `scikit-learn`, the version, where
the model holds something of its. Files of schema 1 are read too, and folders that earlier versions wrote.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import sklearn
from numpy.lib import format as npy
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.errors import CannotWrite, UnreadableFile
from tellwhy.core.old_names import TakesOldNames, takes_old_names, update_names_and_warn
from tellwhy.storage import sklearn_models
from tellwhy.storage.codec import HALVES, Decoder, Encoder
from tellwhy.storage.documents import (
    ARRAYS,
    Arrays,
    Misfit,
    at_key,
    check_array,
    check_regular,
    make_plain,
    read_arrays,
    read_versioned,
)
from tellwhy.storage.folders import check_new_file, find_standing, new_file
from tellwhy.storage.overwriting import MODEL_SIGN
from tellwhy.storage.saved_classes import SavedClasses, is_explainer

HEAD = "model.json"
SCHEMA = 2
_READ = (1, SCHEMA)
LARGEST_HEAD = 256 * 2**20  # bytes of JSON; a model whose labels take more was not meant to be one
MOST_MEMBERS = 100_000
_NAMES = "arrays.json"
_WHEN = (1980, 1, 1, 0, 0, 0)  # no clock: the same model gives the same bytes
_ARRAY = re.compile(r"[^/\\:\x00-\x1f]{1,4000}\.npy")
_NOT_A_MODEL = "expected a file that `tellwhy.save` or `tellwhy fit --save` wrote"
_KINDS = ("detector", "classifier", "basis")  # of models that had folders, or files of schema 1, of their own


def save(model: Any, path: str | Path) -> Path:
    """Write a fitted model to one file: JSON and arrays, no pickle; `load` reads it.

    Parameters
    ----------
    model
        What `fit_model` learned from a table; a fitted detector, kernel basis, classifier or explainer of
        tellwhy; or a fitted model, transform or pipeline of scikit-learn, as the documentation lists them.
    path
        The file, by custom with the ending .tellwhy. A model that is there is replaced, another file is not.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from tellwhy.detectors import KernelDensity
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> detector = KernelDensity().fit(X)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     again = load(save(detector, place + "/density.tellwhy"))
    >>> bool((again.outlierness(X) == detector.outlierness(X)).all())
    True
    """
    head, arrays = take_apart(model)
    return write_model_file(_make_parent(Path(path)), head, arrays)


def load(path: str | Path) -> Any:
    """Read a model that `save` wrote: it gives the same numbers, bit for bit.

    Nothing in the file is executed, and it cannot ask for more memory than it takes on the disk. A file that
    is damaged, made up or of another version raises `UnreadableFile`.
    """
    place = find_standing(Path(path))
    head, arrays = _read_folder(place) if place.is_dir() else read_model_file(place)
    _check_finite(place, arrays)
    _check_version(place, head)
    classes = SavedClasses(with_sklearn="scikit-learn" in head)
    root = head.get("is")
    name = root.get("type") if isinstance(root, dict) else root
    try:
        model = Decoder(classes, arrays).decoded(root)
        if not _is_alone(model):
            raise Misfit("it is no model of its own", "")
        with at_key("learned"):
            _check_fitted(model)
    except Misfit as misfit:
        raise UnreadableFile(
            f"{place} does not hold a working {name}: in {HEAD}, key {misfit.key or 'is'!r}, {misfit.why}."
        ) from misfit
    with_others = getattr(model, "read_beside", None)
    return model if with_others is None else with_others(place)


def name_of_class(path: str | Path) -> str:
    """Return the name of the class of a saved model, from its head alone; "" where `load` will say more."""
    place = find_standing(Path(path))
    try:
        check_regular(place)
        with place.open("rb") as file, zipfile.ZipFile(file) as archive:
            head = _read_json(archive, archive.getinfo(HEAD))
        return str(_update_head(head)["is"]["type"])
    except (OSError, LookupError, TypeError, ValueError, zipfile.BadZipFile, RecursionError, UnreadableFile):
        return ""


class SavedAsFile:
    """A fitted model that is written to a file and read again."""

    @takes_old_names
    def save(self, path: str | Path) -> Path:
        """Write the fitted model to one file (JSON and arrays, no pickle); `load` reads it."""
        return save(self, path)

    @classmethod
    @takes_old_names
    def load(cls, path: str | Path) -> Self:
        """Read a model of this class that `save` wrote: it gives the same numbers, bit for bit."""
        model = load(path)
        if not isinstance(model, cls):
            raise UnreadableFile(f"{path} holds a {type(model).__name__}, not a {cls.__name__}.")
        return model


class SavedModel(SavedAsFile, TakesOldNames):
    """An estimator that is written to a file and read again; its parameters may go by their old names."""

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as scikit-learn's estimators do."""
        return super().set_params(**update_names_and_warn(type(self), params))  # type: ignore[misc]


def check_place(path: str | Path) -> None:
    """Raise now if a model could not be written there: before training, not after."""
    check_new_file(_make_parent(Path(path)), sign=MODEL_SIGN)


def _make_parent(path: Path) -> Path:
    """The path, after making the folders that it names."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(f"Cannot write to {path.parent}: {error.strerror or error}.") from error
    return path


def take_apart(model: Any) -> tuple[dict[str, Any], Arrays]:
    """Return what a head says of a fitted model, and its arrays."""
    if not _is_alone(model):
        raise CannotWrite(
            f"A {type(model).__name__} cannot be saved; expected what `fit_model` returns, a fitted "
            "detector, kernel basis, classifier or explainer of tellwhy or registered with it, or a model of "
            "scikit-learn that the documentation lists (Fit once, explain new rows). "
            "Nothing was written."
        )
    _check_fitted(model)
    encoder = Encoder(SavedClasses())
    held = encoder.encoded(model, "model")
    # What scikit-learn keeps inside is its own affair, and changes: the file says whose it is.
    has_theirs = any(name.startswith(sklearn_models.PREFIX) for name in encoder.names)
    told = {"scikit-learn": sklearn.__version__} if has_theirs else {}
    return {**told, "is": held}, encoder.arrays


def _is_alone(model: Any) -> bool:
    """Whether a file may hold a model, and not only as a part of another one."""
    cls = type(model)
    if isinstance(model, SavedAsFile):
        return SavedClasses().name_of(cls) is not None
    return sklearn_models.is_known(model) or is_explainer(cls)


def _check_fitted(model: Any) -> None:
    if hasattr(model, "get_params"):  # explainers may need no rows
        check_is_fitted(model)


@dataclass(frozen=True)
class Stream:
    """An array that is written piece by piece."""

    shape: tuple[int, ...]
    dtype: Any
    pieces: Iterable[Any]


def write_model_file(path: Path, head: Mapping[str, Any], arrays: Mapping[str, Any]) -> Path:
    """Write a model file, whole or not at all; an array may be a `Stream`."""
    names = {name: f"{place:05d}.npy" for place, name in enumerate(arrays)}
    with new_file(path, sign=MODEL_SIGN) as work, zipfile.ZipFile(work, "w", zipfile.ZIP_STORED) as archive:
        for name, content in ((HEAD, {"schema": SCHEMA, **head}), (_NAMES, names)):
            text = json.dumps(make_plain(content), ensure_ascii=False, allow_nan=False)
            archive.writestr(_make_member(name), text.encode("utf-8", errors="backslashreplace"))
        for name, array in arrays.items():
            with archive.open(_make_member(names[name]), "w", force_zip64=True) as file:
                _write_array(file, array)
    return path


def _make_member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, date_time=_WHEN)
    member.external_attr = 0o600 << 16
    return member


def _write_array(file: Any, array: Any) -> None:
    if not isinstance(array, Stream):
        npy.write_array(file, np.asanyarray(array), allow_pickle=False)  # in its own order in memory
        return
    descr = npy.dtype_to_descr(np.dtype(array.dtype))
    npy.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": array.shape})
    for piece in array.pieces:
        file.write(np.ascontiguousarray(piece, dtype=array.dtype).tobytes())


def read_model_file(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Return the head and the arrays of a model file, or raise `UnreadableFile`.

    Nothing is made from what they say: see `codec.Decoder`.
    """
    try:
        check_regular(path)
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            size = file.seek(0, 2)
            members = _check_members(archive, size)
            head = _read_json(archive, members[HEAD])
            _check_schema(path, head)
            names = _list_names(archive, members)
            arrays = {name: _read_array(archive, members[member]) for name, member in names.items()}
    except UnreadableFile:
        raise
    except FileNotFoundError as error:
        raise UnreadableFile(f"There is no file {path}. Check the name and the folder.") from error
    except RecursionError as error:
        raise UnreadableFile(f"{path} cannot be read: it is nested too deeply; {_NOT_A_MODEL}.") from error
    except Exception as error:  # zipfile, json and numpy fail on made-up content in ways of their own
        why = str(error) or type(error).__name__
        raise UnreadableFile(f"{path} is no model, or a damaged one: {why}; {_NOT_A_MODEL}.") from error
    return _update_head(head), arrays


def _update_head(head: dict[str, Any]) -> dict[str, Any]:
    """A head as it is written now, of one as earlier versions wrote it."""
    kind = next((kind for kind in _KINDS if kind in head), None)
    if kind is None or "is" in head:
        return head
    fields = {half: {"type": "mapping", "is": head.get(half)} for half in HALVES}
    return {"schema": head["schema"], "is": {"type": head[kind], "is": fields}}


def _read_folder(folder: Path) -> tuple[dict[str, Any], Arrays]:
    """Return the head and the arrays of a model that an earlier version wrote as a folder."""
    heads = [folder / f"{kind}.json" for kind in _KINDS if (folder / f"{kind}.json").is_file()]
    if not heads:
        raise UnreadableFile(f"{folder} is a folder, and no model: {_NOT_A_MODEL}.")
    head = read_versioned(heads[0], 1, "a saved model")
    arrays = read_arrays(folder / ARRAYS)
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise _refuse_not_finite(folder / ARRAYS, name)
    return _update_head(head), arrays


def _check_members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the members by name, after checking that they are what a model has."""
    members = archive.infolist()
    if len(members) > MOST_MEMBERS:
        raise ValueError(f"it has {len(members):,} parts")
    found: dict[str, zipfile.ZipInfo] = {}
    for member in members:
        name = member.filename
        if name not in (HEAD, _NAMES) and not _ARRAY.fullmatch(name):
            raise ValueError(f"it holds {name!r}, which no model has")
        if name in found:
            raise ValueError(f"it holds {name!r} more than once")
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
            raise ValueError(f"{name!r} is packed or locked, which no part of a model is")
        found[name] = member
    # Several entries may claim the same bytes: together they must not hold more than the file does.
    if sum(member.file_size for member in members) > size:
        raise ValueError("its parts say that they are larger than the file")
    for name in (HEAD, _NAMES):
        if name not in found:
            raise ValueError(f"{name} is missing")
    return found


def _read_json(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    if member.file_size > LARGEST_HEAD:
        raise ValueError(f"{member.filename} takes {member.file_size:,} bytes")
    return json.loads(archive.read(member).decode("utf-8"), parse_constant=_refuse_constant)


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"it holds {word}, which JSON does not have")


def _check_schema(path: Path, head: Any) -> None:
    if not isinstance(head, dict):
        raise ValueError(f"{HEAD} holds {type(head).__name__}")
    got = head.get("schema")
    if got not in _READ or type(got) is not int:
        is_newer = isinstance(got, int) and got > SCHEMA
        advice = "Upgrade tellwhy" if is_newer else "Fit the model again"
        raise UnreadableFile(
            f"{path} has schema {got!r}; this version of tellwhy reads schema {SCHEMA} and earlier ones. "
            f"{advice}."
        )


def _list_names(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]) -> dict[str, str]:
    names = _read_json(archive, members[_NAMES])
    if not isinstance(names, dict) or not all(isinstance(value, str) for value in names.values()):
        raise ValueError("arrays.json does not name arrays")
    held = [name for name in members if name.endswith(".npy")]
    if sorted(names.values()) != sorted(held):
        raise ValueError("arrays.json names other arrays than the file holds")
    return names


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    with archive.open(member) as content:
        check_array(content, member.file_size, member.filename)
    with archive.open(member) as content:
        array = npy.read_array(content, allow_pickle=False)
    if array.dtype.kind not in "biuf" or not array.dtype.isnative:
        raise ValueError(f"{member.filename} holds {array.dtype}; expected numbers of this machine")
    return array


def _check_finite(path: Path, arrays: Mapping[str, Any]) -> None:
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise _refuse_not_finite(path, name)


def _refuse_not_finite(path: Path, name: str) -> UnreadableFile:
    return UnreadableFile(f"{path} holds something else than finite numbers in {name!r}.")


def _check_version(path: Path, head: Mapping[str, Any]) -> None:
    """Raise where the file holds what another version of scikit-learn keeps inside its models."""
    here = sklearn.__version__
    got = str(head.get("scikit-learn", here))
    if got.split(".")[:2] != here.split(".")[:2]:
        raise UnreadableFile(
            f"{path} was saved with scikit-learn {got}; this is {here}, which keeps other things inside its "
            "models. Fit the model again, or install the version that it was saved with."
        )
