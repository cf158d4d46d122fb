"""The list of what tellwhy wrote into a folder: only what is on it is ever removed.

`manifest.json` stands in every folder that tellwhy writes. It holds the name, the size and a checksum of each
file. A file with another name, or one that was changed since, is the user's.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

MANIFEST = "manifest.json"
SCHEMA = 1
WRITER = "tellwhy"
BEFORE = {"result.json": ("run.json", "media.json")}  # heads that earlier versions wrote in its place
_PIECE = 2**20


@dataclass(frozen=True)
class Manifest:
    """What one folder holds of ours.

    Attributes
    ----------
    head
        The file that says what kind of folder it is.
    files
        Size and checksum of each file, by its name relative to the folder, with slashes.
    reserved
        Names that are ours whatever they hold: files that a later command writes into the folder.
    """

    head: str
    files: dict[str, tuple[int, int]]
    reserved: tuple[str, ...] = ()

    def lists(self, folder: Path, name: str) -> bool:
        """Whether a file of the folder is one that tellwhy wrote, and as it was written."""
        if name in self.reserved or name == MANIFEST:
            return True
        if name not in self.files:
            return False
        path = folder / name
        return not path.is_symlink() and measure_file(path) == self.files[name]


def list_file_names(folder: Path) -> Iterator[str]:
    """Names of everything below a folder that is no folder itself, relative to it; links are not followed.

    A folder that is empty counts as such a thing, with a slash behind its name.
    """
    for place, folders, files in os.walk(folder):
        inside = Path(place).relative_to(folder)
        linked = [name for name in folders if (Path(place) / name).is_symlink()]
        for name in sorted(files + linked):
            yield (PurePosixPath(inside) / name).as_posix()
        if not folders and not files and Path(place) != folder:
            yield PurePosixPath(inside).as_posix() + "/"


def write_manifest(folder: Path, head: str, reserved: Sequence[str] = ()) -> None:
    """Write the list of what a folder holds now."""
    files = {}
    for name in list_file_names(folder):
        path = folder / name
        if path.is_file() and name != MANIFEST:
            size, checksum = measure_file(path)
            files[name] = {"bytes": size, "crc32": f"{checksum:08x}"}
    told = {"schema": SCHEMA, "written_by": WRITER, "head": head, "files": files, "reserved": list(reserved)}
    (folder / MANIFEST).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest | None:
    """Return the list of a folder, or None where there is none that can be trusted."""
    path = folder / MANIFEST
    try:
        if path.is_symlink() or not path.is_file():
            return None
        told = json.loads(path.read_text(encoding="utf-8"))
        if (told["schema"], told["written_by"]) != (SCHEMA, WRITER):
            return None
        files = {str(name): (int(of["bytes"]), int(of["crc32"], 16)) for name, of in told["files"].items()}
        reserved = tuple(str(name) for name in told["reserved"])
        return Manifest(str(told["head"]), files, reserved)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def is_ours(folder: Path, head: str) -> bool:
    """Whether a folder is empty, or one that tellwhy wrote with this head."""
    if not folder.is_dir():
        return False
    if not any(folder.iterdir()):
        return True
    manifest = read_manifest(folder)
    return (
        manifest is not None
        and manifest.head in (head, *BEFORE.get(head, ()))
        and manifest.head in manifest.files
    )


def measure_file(path: Path) -> tuple[int, int]:
    """Return the bytes of a file, and the checksum of what it holds."""
    size = checksum = 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            checksum = zlib.crc32(piece, checksum)
            size += len(piece)
    return size, checksum
