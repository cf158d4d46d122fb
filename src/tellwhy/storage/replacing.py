"""A folder in the place of another: at every moment the old one or the new one is there, whole."""

from __future__ import annotations

import ctypes
import errno
import filecmp
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from itertools import count, takewhile
from pathlib import Path

from tellwhy.core.errors import CannotWrite, DataNotice
from tellwhy.storage.hidden import NEW, OLD, WRITING, alone, hidden_beside
from tellwhy.storage.manifest import MANIFEST, Manifest, file_names, is_ours, read_manifest

_HERE = -100  # AT_FDCWD: paths are relative to the working folder
_EXCHANGE = 2  # RENAME_EXCHANGE
# What renameat2 says where the kernel or the disk cannot exchange.
_CANNOT = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)
_TRIES = 100  # other processes may replace the same folder at the same time


def standing(folder: Path) -> Path:
    """Return a folder, or the old one where a process died while it replaced it."""
    if folder.exists():
        return folder
    kept = [old for hidden in hidden_beside(folder) for old in sorted(hidden.glob(f"{OLD}*")) if old.is_dir()]
    return kept[0] if kept else folder


def take_place(hidden: Path, target: Path, head: str) -> None:
    """Put the prepared folder where the target is, with all that is in there and not ours."""
    work = hidden / NEW
    settle(work)
    (hidden / WRITING).unlink()  # from here on `new` may be another folder than ours
    with alone(target.parent):
        for _ in range(_TRIES):
            if target.exists():
                _check_ours(target, head)
                _carry(target, work)
            if _swap(hidden, target):
                sync(target.parent)
                return
    raise OSError(errno.EBUSY, "other processes replace it all the time")


def _check_ours(target: Path, head: str) -> None:
    if not is_ours(target, head):
        raise CannotWrite(
            f"{target} was not there, or was another, when the work began: it is left as it is. Choose "
            "another."
        )


def _swap(hidden: Path, target: Path) -> bool:
    """Try once; whether it could be done."""
    work = hidden / NEW
    try:
        if not os.path.lexists(target):
            os.rename(work, target)
        elif not _exchanged(work, target):
            _one_after_the_other(work, target, _free(hidden / OLD))
    except OSError as error:
        # Another process was faster: the target has come, or gone.
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT) and work.exists():
            return False
        raise
    return True


def _exchanged(work: Path, target: Path) -> bool:
    """Exchange two folders in one step, where the system can."""
    if not sys.platform.startswith("linux"):
        return False
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_HERE, os.fsencode(work), _HERE, os.fsencode(target), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _CANNOT:
        return False
    raise OSError(code, os.strerror(code))


def _one_after_the_other(work: Path, target: Path, aside: Path) -> None:
    """Move the old folder aside, then the new one in; whatever happens between, `finish` brings it back."""
    os.rename(target, aside)
    os.rename(work, target)


def finish(hidden: Path, target: Path) -> None:
    """Leave nothing in a hidden folder that is needed: restore the old one, or remove what is ours of it."""
    is_whole = not (hidden / WRITING).exists()
    with alone(target.parent):
        for old in sorted(hidden.glob(f"{OLD}*")):
            if not os.path.lexists(target):
                os.rename(old, target)
        for left in sorted(hidden.iterdir()):
            if left.is_dir() and (left.name != NEW or is_whole):
                clear(left, target)


def clear(folder: Path, target: Path) -> None:
    """Remove a folder; what is in it and not ours goes to the target, if it is not there already."""
    manifest = read_manifest(folder) or Manifest("", {})
    known = {_identity(target / name) for name in file_names(target) if not name.endswith("/")}
    for name in list(file_names(folder)):
        path = folder / name
        if name == MANIFEST or name.endswith("/"):
            continue
        if manifest.lists(folder, name) or _identity(path) in known or _is_copied(path, target / name):
            path.unlink()
        else:
            place = _free_place(target, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            os.rename(path, place)
    (folder / MANIFEST).unlink(missing_ok=True)  # the last file: whoever goes on with this needs it
    for emptied, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):
            os.rmdir(emptied)


def _carry(target: Path, work: Path) -> None:
    """Give the new folder everything of the old one that is not ours, without taking it from there."""
    manifest = read_manifest(target) or Manifest("", {})
    known = {_identity(work / name) for name in file_names(work) if not name.endswith("/")}
    # First those that keep their names, so that none of these is taken by another.
    for name in sorted(file_names(target), key=lambda name: os.path.lexists(work / name)):
        path = target / name
        if name.endswith("/"):
            (work / name).mkdir(parents=True, exist_ok=True)
        elif not manifest.lists(target, name) and _identity(path) not in known:
            place = _free_place(work, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            _link(path, place)
            if place != work / name:
                _tell_kept(target, name, place.relative_to(work))
    shutil.copymode(target, work)
    settle(work)


def _tell_kept(target: Path, name: str, kept: Path) -> None:
    warnings.warn(
        f"{target / name} is not as tellwhy wrote it: it is kept as {kept}.", DataNotice, stacklevel=2
    )


def _link(path: Path, place: Path) -> None:
    """Give a file a second place; where the disk has no links, a copy."""
    try:
        os.link(path, place, follow_symlinks=False)
    except OSError:
        shutil.copy2(path, place, follow_symlinks=False)


def _identity(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino


def _is_copied(path: Path, place: Path) -> bool:
    """Whether a file has been copied to a place, or beside it."""
    if path.is_symlink() or not path.is_file():
        return False
    there = takewhile(os.path.lexists, _names(place))
    return any(copy.is_file() and filecmp.cmp(path, copy, shallow=False) for copy in there)


def _free_place(root: Path, name: str) -> Path:
    """Where to put a file so that it takes no other's place: 'a.csv', else 'a.kept.csv' and so on."""
    place = root
    *folders, last = name.split("/")
    for part in folders:
        place = _free(place / part, may_be_folder=True)
    return _free(place / last)


def _free(path: Path, *, may_be_folder: bool = False) -> Path:
    for place in _names(path):
        if not os.path.lexists(place) or (may_be_folder and place.is_dir() and not place.is_symlink()):
            break
    return place


def _names(path: Path) -> Iterator[Path]:
    """A path, and what else a file may be called that is kept beside it."""
    yield path
    yield path.with_name(f"{path.stem}.kept{path.suffix}")
    for number in count(2):
        yield path.with_name(f"{path.stem}.kept-{number}{path.suffix}")


def settle(folder: Path) -> None:
    """Have everything in a folder written to the disk: a rename may otherwise outlive what it renames."""
    for place, _, files in os.walk(folder):
        for name in files:
            path = Path(place) / name
            if path.is_file() and not path.is_symlink():
                sync(path)
        sync(Path(place))


def sync(path: Path) -> None:
    """Have one file, or the names in one folder, written to the disk."""
    try:
        opened = os.open(path, os.O_RDONLY)
    except PermissionError:  # a file of another user, which was carried over
        return
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # disks that cannot do this for folders
            raise
    finally:
        os.close(opened)
