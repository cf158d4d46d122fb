"""Files and folders written whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tellwhy.core.errors import CannotWrite
from tellwhy.storage.hidden import NEW, hidden_folder
from tellwhy.storage.manifest import MANIFEST, is_ours, write_manifest
from tellwhy.storage.replacing import clear, finish, settle, sync, take_place

RESERVED = ("report.html",)  # later commands write it into folders that are there already


@contextmanager
def new_folder(target: Path, *, marker: str) -> Iterator[Path]:
    """Give a temporary folder that takes the target's place when the block ends without an error.

    An existing target is replaced only if it is empty or its manifest says that tellwhy wrote it, with the
    file `marker`. What is in it and not on its manifest is kept.
    """
    place = _checked_place(target, marker)
    with _told(target), hidden_folder(place, finish) as hidden:
        with _named(hidden / NEW, target):
            yield hidden / NEW
        write_manifest(hidden / NEW, marker, RESERVED)
        take_place(hidden, place, marker)


def check_new_folder(target: Path, *, marker: str) -> None:
    """Raise now what `new_folder` would raise: for work that takes long before there is anything to write."""
    place = _checked_place(target, marker)
    with _told(target), hidden_folder(place, finish):
        pass


@contextmanager
def private_folder(target: Path) -> Iterator[Path]:
    """Give a folder beside the target that is gone afterwards: for what processes tell each other."""
    with _told(target), hidden_folder(target, finish) as hidden:
        yield hidden / NEW


@contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """Let libraries put their temporary files into a folder, where the system has no place for them."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        tempfile.tempdir = str(folder)
        try:
            yield
        finally:
            tempfile.tempdir = None
    else:
        yield


def remove_folder(folder: Path, *, marker: str) -> None:
    """Remove a folder that tellwhy wrote; what is in it and not ours stays."""
    if not (folder / MANIFEST).exists() or not is_ours(folder, marker) or folder.is_symlink():
        return
    with _told(folder), hidden_folder(folder, finish) as hidden:
        # In one step: half a folder would look like a damaged one.
        os.rename(folder, hidden / "gone")
        clear(hidden / "gone", folder)


def _checked_place(target: Path, marker: str) -> Path:
    """Return where a folder is to be written: a symbolic link stays, what it leads to is replaced."""
    try:
        place = target.resolve() if target.is_symlink() else target
        if place.exists() and not is_ours(place, marker):
            raise CannotWrite(
                f"{target} exists and was not written by tellwhy (it has no {MANIFEST} that names {marker}): "
                "choose another, or move it away."
            )
        place.parent.mkdir(parents=True, exist_ok=True)
    except CannotWrite:
        raise
    except (OSError, RuntimeError) as error:  # links that lead in a circle are a RuntimeError
        why = getattr(error, "strerror", None) or error
        raise CannotWrite(f"Cannot write to {target.parent}: {why}.") from error
    return place


@contextmanager
def _told(target: Path) -> Iterator[None]:
    """Turn errors of the system into one that names the target."""
    try:
        yield
    except CannotWrite:
        raise
    except OSError as error:
        raise CannotWrite(
            f"Cannot write {target}: {error.strerror or error}. Nothing was written."
        ) from error


@contextmanager
def _named(work: Path, target: Path) -> Iterator[None]:
    """Let errors name a file by the place that it was to have, and not by where it was prepared."""
    try:
        yield
    except CannotWrite as error:
        raise CannotWrite(str(error).replace(str(work), str(target))) from error


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Give a temporary file name that takes the target's place when the block ends without an error."""
    _check_plain_file(target)
    # Beside the target, so that the last step is a rename on one disk, which cannot stop half-way; in a
    # private folder, so that nobody can put a link there for us to write through.
    with _told(target), hidden_folder(target, finish) as hidden:
        work = hidden / NEW / target.name
        yield work
        settle(hidden / NEW)
        os.replace(work, target)
        sync(target.parent)


def _check_plain_file(target: Path) -> None:
    """Raise for what is no file of its own: a link, whose target may be anything, a device, a folder."""
    try:
        mode = target.lstat().st_mode
    except OSError:  # there is nothing yet, or the folder is not there, which is told when it is written
        return
    if stat.S_ISREG(mode):
        return
    kinds = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a folder"}
    what = kinds.get(stat.S_IFMT(mode), "a device or a pipe")
    raise CannotWrite(f"Cannot write {target}: it is {what}; expected a file, or nothing yet. Name another.")
