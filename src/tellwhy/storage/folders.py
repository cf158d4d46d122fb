"""Files and folders written whole or not at all: under a hidden name, settled on the disk, then renamed.

At every moment the old one or the new one is there, whole, whatever happens to the process. What is prepared
lies beside its target, in a folder `.<name>.tellwhy-…` that holds

- `lock`, which its process keeps locked as long as it lives;
- `new`, the folder that is to take the target's place;
- `old`, the one that is being replaced: `standing` finds it where a process died between the two renames, and
  the next that writes there brings it back.
"""

from __future__ import annotations

import errno
import filecmp
import os
import shutil
import tempfile
import time
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count, takewhile
from pathlib import Path

from tellwhy.core.errors import CannotWrite, DataNotice
from tellwhy.storage.manifest import (
    MANIFEST,
    Manifest,
    is_ours,
    list_file_names,
    read_manifest,
    write_manifest,
)
from tellwhy.storage.overwriting import check_replaceable

try:
    import fcntl
except ImportError:  # Windows has no such locks: nothing is tidied up there
    fcntl = None  # type: ignore[assignment]

RESERVED = ("report.html",)  # later commands write it into folders that are there already
LOCK = "lock"
NEW = "new"
OLD = "old"
_LONGEST = 200  # bytes; 255 is what most disks allow
_PATIENCE = 30.0  # seconds; others need the folder for a moment only
_UNLOCKED = 3600.0  # seconds after which a folder without a lock is taken for one of a dead process
_TRIES = 100  # other processes may replace the same folder at the same time


@contextmanager
def new_folder(target: Path, *, marker: str) -> Iterator[Path]:
    """Give a temporary folder that takes the target's place when the block ends without an error.

    An existing target is replaced only if it is empty or its manifest says that tellwhy wrote it, with the
    file `marker`. What is in it and not on its manifest is kept.
    """
    place = _check_place(target, marker)
    with _name_target(target), hidden_folder(place) as hidden:
        with _name_errors(hidden / NEW, target):
            yield hidden / NEW
        write_manifest(hidden / NEW, marker, RESERVED)
        take_place(hidden, place, marker)


def check_new_folder(target: Path, *, marker: str) -> None:
    """Raise now what `new_folder` would raise: for work that takes long before there is anything to write."""
    place = _check_place(target, marker)
    with _name_target(target), hidden_folder(place):
        pass


@contextmanager
def private_folder(target: Path) -> Iterator[Path]:
    """Give a folder beside the target that is gone afterwards: for what processes tell each other."""
    with _name_target(target), hidden_folder(target) as hidden:
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
    with _name_target(folder), hidden_folder(folder) as hidden:
        # In one step: half a folder would look like a damaged one.
        os.rename(folder, hidden / "gone")
        clear(hidden / "gone", folder)


def _check_place(target: Path, marker: str) -> Path:
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
def _name_target(target: Path) -> Iterator[None]:
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
def _name_errors(work: Path, target: Path) -> Iterator[None]:
    """Let errors name a file by the place that it was to have, and not by where it was prepared."""
    try:
        yield
    except CannotWrite as error:
        raise CannotWrite(str(error).replace(str(work), str(target))) from error


@contextmanager
def new_file(target: Path, *, sign: bytes | None = None) -> Iterator[Path]:
    """Give a temporary file name that takes the target's place when the block ends without an error.

    A file that is there already is replaced if it bears the sign of those that tellwhy writes there; None
    stands for files inside of our own folders.
    """
    check_replaceable(target, sign)
    # Beside the target, so that the last step is a rename on one disk, which cannot stop half-way; in a
    # private folder, so that nobody can put a link there for us to write through.
    with _name_target(target), hidden_folder(target) as hidden:
        work = hidden / NEW / target.name
        yield work
        put_in_place(work, target)


def put_in_place(work: Path, target: Path) -> None:
    """Give a file that is whole its name; on the disk it is before it has it."""
    sync(work)
    os.replace(work, target)
    sync(target.parent)


def check_new_file(target: Path, *, sign: bytes | None = None) -> None:
    """Raise now what `new_file` would raise: for work that takes long before there is anything to write."""
    check_replaceable(target, sign)
    with _name_target(target), hidden_folder(target):
        pass


def find_standing(folder: Path) -> Path:
    """Return a folder, or the old one where a process died while it replaced it."""
    if folder.exists():
        return folder
    kept = [old for hidden in list_hidden(folder) for old in sorted(hidden.glob(f"{OLD}*")) if old.is_dir()]
    return kept[0] if kept else folder


def take_place(hidden: Path, target: Path, head: str) -> None:
    """Put the prepared folder where the target is, with all that is in there and not ours."""
    work = hidden / NEW
    settle(work)
    with lock_alone(target.parent):
        for _ in range(_TRIES):
            if target.exists():
                _check_ours(target, head)
                _move_over(target, work)
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
        if os.path.lexists(target):
            os.rename(target, _find_free(hidden / OLD))  # whatever happens now, `finish` brings it back
        os.rename(work, target)
    except OSError as error:
        # Another process was faster: the target has come, or gone.
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT) and work.exists():
            return False
        raise
    return True


def finish(hidden: Path, target: Path) -> None:
    """Leave nothing in a hidden folder that is needed: restore the old one, or remove what is ours of it."""
    with lock_alone(target.parent):
        for old in sorted(hidden.glob(f"{OLD}*")):
            if not os.path.lexists(target):
                os.rename(old, target)
        for left in sorted(hidden.iterdir()):
            if left.is_dir() and left.name != NEW:
                clear(left, target)


def clear(folder: Path, target: Path) -> None:
    """Remove a folder; what is in it and not ours goes to the target, if it is not there already."""
    manifest = read_manifest(folder) or Manifest("", {})
    known = {_read_identity(target / name) for name in list_file_names(target) if not name.endswith("/")}
    for name in list(list_file_names(folder)):
        path = folder / name
        if name == MANIFEST or name.endswith("/"):
            continue
        if manifest.lists(folder, name) or _read_identity(path) in known or _is_copied(path, target / name):
            path.unlink()
        else:
            place = _find_free_place(target, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            os.rename(path, place)
    (folder / MANIFEST).unlink(missing_ok=True)  # the last file: whoever goes on with this needs it
    for emptied, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):
            os.rmdir(emptied)


def _move_over(target: Path, work: Path) -> None:
    """Give the new folder everything of the old one that is not ours, without taking it from there."""
    manifest = read_manifest(target) or Manifest("", {})
    known = {_read_identity(work / name) for name in list_file_names(work) if not name.endswith("/")}
    # First those that keep their names, so that none of these is taken by another.
    for name in sorted(list_file_names(target), key=lambda name: os.path.lexists(work / name)):
        path = target / name
        if name.endswith("/"):
            (work / name).mkdir(parents=True, exist_ok=True)
        elif not manifest.lists(target, name) and _read_identity(path) not in known:
            place = _find_free_place(work, name)
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


def _read_identity(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino


def _is_copied(path: Path, place: Path) -> bool:
    """Whether a file has been copied to a place, or beside it."""
    if path.is_symlink() or not path.is_file():
        return False
    there = takewhile(os.path.lexists, _list_names(place))
    return any(copy.is_file() and filecmp.cmp(path, copy, shallow=False) for copy in there)


def _find_free_place(root: Path, name: str) -> Path:
    """Where to put a file so that it takes no other's place: 'a.csv', else 'a.kept.csv' and so on."""
    place = root
    *folders, last = name.split("/")
    for part in folders:
        place = _find_free(place / part, may_be_folder=True)
    return _find_free(place / last)


def _find_free(path: Path, *, may_be_folder: bool = False) -> Path:
    for place in _list_names(path):
        if not os.path.lexists(place) or (may_be_folder and place.is_dir() and not place.is_symlink()):
            break
    return place


def _list_names(path: Path) -> Iterator[Path]:
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


@contextmanager
def hidden_folder(target: Path) -> Iterator[Path]:
    """Give a folder beside the target that is this process's own."""
    sweep(target)
    hidden, lock = _lock_folder(target)
    try:
        (hidden / NEW).mkdir()  # as open as the user's other folders; the hidden one is private
        yield hidden
    finally:
        try:
            finish(hidden, target)
            remove(hidden)
        finally:
            os.close(lock)


def list_hidden(target: Path) -> list[Path]:
    """Hidden folders of a target, as far as they are this user's."""
    try:
        names = [name for name in os.listdir(target.parent) if name.startswith(_name_prefix(target))]
        paths = [target.parent / name for name in sorted(names)]
        # In a folder that several people share, others could put something there for us to read.
        return [path for path in paths if not path.is_symlink() and path.stat().st_uid == os.geteuid()]
    except (OSError, AttributeError):
        return []


def sweep(target: Path) -> None:
    """End what dead processes had begun beside a target."""
    for hidden in list_hidden(target):
        with suppress(OSError), _take_over(hidden) as is_dead:
            if is_dead:
                finish(hidden, target)
                remove(hidden)


@contextmanager
def lock_alone(folder: Path) -> Iterator[None]:
    """Keep other processes of ours from replacing anything in a folder meanwhile."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        until = time.monotonic() + _PATIENCE
        # Where there are no such locks, or one is held for ever, go on: what is there is then checked again.
        while not _lock(opened, wait=False) and time.monotonic() < until:
            time.sleep(0.01)
        yield
    finally:
        os.close(opened)


def remove(hidden: Path) -> None:
    """Remove a hidden folder that has been emptied of everything that matters."""
    with suppress(OSError):
        if (hidden / NEW).exists():
            shutil.rmtree(hidden / NEW)
        (hidden / "writing").unlink(missing_ok=True)  # of earlier versions
        if set(os.listdir(hidden)) <= {LOCK}:  # else the next process finds the lock and goes on with this
            (hidden / LOCK).unlink(missing_ok=True)
            hidden.rmdir()


def _name_prefix(target: Path) -> str:
    name = target.name
    if len(os.fsencode(name)) > _LONGEST:  # with what comes behind, it would be too long for a name
        name = f"{name[:32]}-{zlib.crc32(os.fsencode(name)):08x}"
    return f".{name}.tellwhy-"


def _lock_folder(target: Path) -> tuple[Path, int]:
    """Make a hidden folder and lock it; who holds the lock is given as the number of an open file."""
    while True:
        # On the target's own disk, because a folder cannot be renamed across disks.
        hidden = Path(tempfile.mkdtemp(prefix=_name_prefix(target), dir=target.parent))
        lock = os.open(hidden / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        _lock(lock, wait=True)
        if hidden.exists():  # else another process swept it away before it was locked
            return hidden, lock
        os.close(lock)


def lock_file(opened: int) -> None:
    """Wait until no other process of ours holds this open file; closing it lets go of it."""
    _lock(opened, wait=True)


def _lock(lock: int, *, wait: bool) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # held by another process, or a disk that has no locks
        return False
    return True


@contextmanager
def _take_over(hidden: Path) -> Iterator[bool]:
    """Lock the folder of another process; whether this could be done says whether that one is dead."""
    try:
        lock = os.open(hidden / LOCK, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        yield time.time() - hidden.stat().st_mtime > _UNLOCKED
        return
    try:
        yield fcntl is not None and _lock(lock, wait=False)
    finally:
        os.close(lock)
