"""Hidden folders beside a target, in which it is prepared, and what dead processes left in theirs.

A folder `.<name>.tellwhy-…` holds

- `lock`, which its process keeps locked as long as it lives;
- `writing`, as long as `new` is not whole;
- `new`, the folder that is to take the target's place, or after an exchange the one that it replaced;
- `old`, where the system cannot exchange two folders: the one that is being replaced.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no such locks: nothing is tidied up there
    fcntl = None  # type: ignore[assignment]

LOCK = "lock"
WRITING = "writing"
NEW = "new"
OLD = "old"
_LONGEST = 200  # bytes; 255 is what most disks allow
_PATIENCE = 30.0  # seconds; others need the folder for a moment only
_UNLOCKED = 3600.0  # seconds after which a folder without a lock is taken for one of a dead process
Finish = Callable[[Path, Path], None]  # (hidden folder, target)


@contextmanager
def hidden_folder(target: Path, finish: Finish) -> Iterator[Path]:
    """Give a folder beside the target that is this process's own; `finish` ends what happens in it."""
    sweep(target, finish)
    hidden, lock = _locked_folder(target)
    try:
        (hidden / WRITING).touch()
        (hidden / NEW).mkdir()  # as open as the user's other folders; the hidden one is private
        yield hidden
    finally:
        try:
            finish(hidden, target)
            remove(hidden)
        finally:
            os.close(lock)


def hidden_beside(target: Path) -> list[Path]:
    """Hidden folders of a target, as far as they are this user's."""
    try:
        names = [name for name in os.listdir(target.parent) if name.startswith(_prefix(target))]
        paths = [target.parent / name for name in sorted(names)]
        # In a folder that several people share, others could put something there for us to read.
        return [path for path in paths if not path.is_symlink() and path.stat().st_uid == os.geteuid()]
    except (OSError, AttributeError):
        return []


def sweep(target: Path, finish: Finish) -> None:
    """End what dead processes had begun beside a target."""
    for hidden in hidden_beside(target):
        with suppress(OSError), _taken_over(hidden) as is_dead:
            if is_dead:
                finish(hidden, target)
                remove(hidden)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
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
        if (hidden / WRITING).exists() and (hidden / NEW).exists():
            shutil.rmtree(hidden / NEW)
        (hidden / WRITING).unlink(missing_ok=True)
        if set(os.listdir(hidden)) <= {LOCK}:  # else the next process finds the lock and goes on with this
            (hidden / LOCK).unlink(missing_ok=True)
            hidden.rmdir()


def _prefix(target: Path) -> str:
    name = target.name
    if len(os.fsencode(name)) > _LONGEST:  # with what comes behind, it would be too long for a name
        name = f"{name[:32]}-{zlib.crc32(os.fsencode(name)):08x}"
    return f".{name}.tellwhy-"


def _locked_folder(target: Path) -> tuple[Path, int]:
    """Make a hidden folder and lock it; who holds the lock is given as the number of an open file."""
    while True:
        # On the target's own disk, because a folder cannot be renamed across disks.
        hidden = Path(tempfile.mkdtemp(prefix=_prefix(target), dir=target.parent))
        lock = os.open(hidden / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        _lock(lock, wait=True)
        if hidden.exists():  # else another process swept it away before it was locked
            return hidden, lock
        os.close(lock)


def _lock(lock: int, *, wait: bool) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # held by another process, or a disk that has no locks
        return False
    return True


@contextmanager
def _taken_over(hidden: Path) -> Iterator[bool]:
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
