"""One file that holds a saved model: `model.json` and the arrays beside it, in a zip that packs nothing.

Nothing is compressed, so that a file can never unpack to more than it takes on the disk. Nothing is unpacked
to the disk either: names of members lead nowhere. What each array says of itself must agree with the room
that it takes (`array_files`), and nothing is ever unpickled. The same model gives the same bytes.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from tellwhy.core.errors import UnreadableFile
from tellwhy.storage.documents import Arrays, Misfit, check_arrays, check_regular, plain
from tellwhy.storage.files import new_file

HEAD = "model.json"
SCHEMA = 1
LARGEST_HEAD = 256 * 2**20  # bytes of JSON; a model whose labels take more was not meant to be one
MOST_MEMBERS = 100_000
_WHEN = (1980, 1, 1, 0, 0, 0)  # no clock: the same model gives the same bytes
_ARRAY = re.compile(r"[^/\\:\x00-\x1f]{1,4000}\.npy")
_NOT_A_MODEL = "expected a file that `tellwhy.save` or `tellwhy fit --save` wrote"


def write_model_file(path: Path, head: Mapping[str, Any], arrays: Mapping[str, Any]) -> Path:
    """Write a model file, whole or not at all."""
    text = json.dumps(plain({"schema": SCHEMA, **head}), ensure_ascii=False, allow_nan=False)
    names = {name: f"{place:05d}.npy" for place, name in enumerate(arrays)}
    members = {HEAD: text.encode("utf-8", errors="backslashreplace")}
    members["arrays.json"] = json.dumps(names, ensure_ascii=False).encode("utf-8", errors="backslashreplace")
    with new_file(path) as work, zipfile.ZipFile(work, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(_member(name), content)
        for name, array in arrays.items():
            archive.writestr(_member(names[name]), _bytes_of(array))
    return path


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, date_time=_WHEN)
    member.external_attr = 0o600 << 16
    return member


def _bytes_of(array: Any) -> bytes:
    target = io.BytesIO()
    npy.write_array(target, np.asanyarray(array), allow_pickle=False)  # in its own order in memory
    return target.getvalue()


def read_model_file(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Return the head and the arrays of a model file, or raise `UnreadableFile`.

    Nothing is made from what they say: see `storage.codec.Decoder`.
    """
    try:
        check_regular(path)
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            size = file.seek(0, 2)
            members = _checked_members(archive, size)
            head = _json_of(archive, members[HEAD])
            _check_schema(path, head)
            names = _names_of(archive, members)
            arrays = {name: _array_of(archive, members[member]) for name, member in names.items()}
    except UnreadableFile:
        raise
    except FileNotFoundError as error:
        raise UnreadableFile(f"There is no file {path}. Check the name and the folder.") from error
    except RecursionError as error:
        raise UnreadableFile(f"{path} cannot be read: it is nested too deeply; {_NOT_A_MODEL}.") from error
    except Exception as error:  # zipfile, json and numpy fail on made-up content in ways of their own
        why = str(error) or type(error).__name__
        raise UnreadableFile(f"{path} is no model, or a damaged one: {why}; {_NOT_A_MODEL}.") from error
    return head, arrays


def _checked_members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the members by name, after checking that they are what a model has."""
    members = archive.infolist()
    if len(members) > MOST_MEMBERS:
        raise ValueError(f"it has {len(members):,} parts")
    found: dict[str, zipfile.ZipInfo] = {}
    for member in members:
        name = member.filename
        if name not in (HEAD, "arrays.json") and not _ARRAY.fullmatch(name):
            raise ValueError(f"it holds {name!r}, which no model has")
        if name in found:
            raise ValueError(f"it holds {name!r} more than once")
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
            raise ValueError(f"{name!r} is packed or locked, which no part of a model is")
        found[name] = member
    # Several entries may claim the same bytes: together they must not hold more than the file does.
    if sum(member.file_size for member in members) > size:
        raise ValueError("its parts say that they are larger than the file")
    for name in (HEAD, "arrays.json"):
        if name not in found:
            raise ValueError(f"{name} is missing")
    return found


def _json_of(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    if member.file_size > LARGEST_HEAD:
        raise ValueError(f"{member.filename} takes {member.file_size:,} bytes")
    return json.loads(archive.read(member).decode("utf-8"), parse_constant=_no_constant)


def _no_constant(word: str) -> Any:
    raise ValueError(f"it holds {word}, which JSON does not have")


def _check_schema(path: Path, head: Any) -> None:
    if not isinstance(head, dict):
        raise ValueError(f"{HEAD} holds {type(head).__name__}")
    got = head.get("schema")
    if got != SCHEMA or isinstance(got, bool):
        is_newer = isinstance(got, int) and got > SCHEMA
        advice = "Upgrade tellwhy" if is_newer else "Fit the model again"
        raise UnreadableFile(
            f"{path} has schema {got!r}; this version of tellwhy reads schema {SCHEMA}. {advice}."
        )


def _names_of(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]) -> dict[str, str]:
    names = _json_of(archive, members["arrays.json"])
    if not isinstance(names, dict) or not all(isinstance(value, str) for value in names.values()):
        raise ValueError("arrays.json does not name arrays")
    held = [name for name in members if name.endswith(".npy")]
    if sorted(names.values()) != sorted(held):
        raise ValueError("arrays.json names other arrays than the file holds")
    return names


def _array_of(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    content = io.BytesIO(archive.read(member))
    check_arrays(content)
    array = npy.read_array(content, allow_pickle=False)
    if array.dtype.kind not in "biuf" or not array.dtype.isnative:
        raise ValueError(f"{member.filename} holds {array.dtype}; expected numbers of this machine")
    return array


def check_finite(path: Path, arrays: Mapping[str, Any]) -> None:
    """Raise `UnreadableFile` where an array holds what is no number, or an infinite one."""
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise UnreadableFile(f"{path} holds something else than finite numbers in {name!r}.")


def unfit(path: Path, name: str, misfit: Misfit) -> UnreadableFile:
    """Return the error of a file whose parts do not fit together."""
    return UnreadableFile(
        f"{path} does not hold a working {name}: in {HEAD}, key {misfit.key!r}, {misfit.why}."
    )
