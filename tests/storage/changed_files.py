"""Model files with something else inside, as somebody may have made them."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def members_of(path: Path) -> dict[str, bytes]:
    """What a file holds, by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(path: Path, members: Mapping[str, bytes]) -> None:
    """Write a file that holds these."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def head_of(path: Path) -> dict[str, Any]:
    """The JSON of a file."""
    head: dict[str, Any] = json.loads(members_of(path)["model.json"])
    return head


def arrays_of(path: Path) -> dict[str, Any]:
    """The arrays of a file, by their names in the model."""
    members = members_of(path)
    names = json.loads(members["arrays.json"])
    return {name: np.load(io.BytesIO(members[member])) for name, member in names.items()}


def array_of(path: Path, ending: str) -> Any:
    """The array whose name ends so."""
    return next(array for name, array in arrays_of(path).items() if name.endswith(ending))


def changed(path: Path, change: Callable[[Any], Any], arrays: Mapping[str, Any] | None = None) -> None:
    """Give a file another head, and other arrays, named by their endings."""
    members = members_of(path)
    head = json.loads(members["model.json"])
    names = json.loads(members["arrays.json"])
    change(head)
    members["model.json"] = json.dumps(head).encode()
    for ending, array in (arrays or {}).items():
        target = io.BytesIO()
        np.save(target, array, allow_pickle=True)
        members[next(member for name, member in names.items() if name.endswith(ending))] = target.getvalue()
    pack(path, members)


def with_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Give a file other arrays, named by their endings."""
    changed(path, lambda _: None, arrays)


def inside(head: Any, steps: Sequence[Any]) -> Any:
    """A part of the model of a head; `params` and `learned` are those of the model itself."""
    inner = head["is"]["is"]
    for step in steps:
        inner = inner[step]
        if inner is head["is"]["is"].get(step) and step in ("params", "learned"):
            inner = inner["is"]
    return inner


def edited(path: Path, place: Sequence[Any], value: Any) -> None:
    """Change one entry of the model in a file."""

    def change(head: Any) -> None:
        inside(head, place[:-1])[place[-1]] = value

    changed(path, change)
