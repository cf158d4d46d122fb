"""A file that only ever grows: one JSON object a line, appended under a lock, on the disk before it is told.

Two processes that append at once lose nothing. A line that was cut short by a crash is passed over, and the
next one begins on a line of its own.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tellwhy.core.errors import CannotWrite, UnreadableFile
from tellwhy.storage.documents import make_plain
from tellwhy.storage.folders import lock_file, sync

LARGEST = 256 * 2**20  # bytes; more was not written by people
_OPEN = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def append_lines(path: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    """Append entries, all of them or none; they are on the disk when this returns.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = Path(folder, "journal.jsonl")
    ...     append_lines(place, [{"a": 1}])
    ...     append_lines(place, [{"a": 2}])
    ...     read_lines(place)
    [{'a': 1}, {'a': 2}]
    """
    if not entries:
        return
    text = "".join(json.dumps(make_plain(dict(entry)), ensure_ascii=False) + "\n" for entry in entries)
    is_new = not os.path.lexists(path)
    try:
        with _locked(path) as file:
            before = os.fstat(file).st_size
            text = text if _ends_whole(file, before) else "\n" + text
            _write_all(file, text.encode("utf-8", errors="surrogatepass"), before)
            os.fsync(file)
        if is_new:
            sync(path.parent)
    except OSError as error:
        raise CannotWrite(f"Cannot write {path}: {error.strerror or error}. Nothing was added.") from error


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the entries of a journal, the oldest first; none where there is no such file."""
    try:
        size = path.stat().st_size
        if not stat.S_ISREG(path.lstat().st_mode) or size > LARGEST:
            raise UnreadableFile(f"{path} is no plain file of at most {LARGEST:,} bytes; move it away.")
        raw = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UnreadableFile(f"Cannot read {path}: {error.strerror or error}.") from error
    *whole, _cut = raw.split(b"\n")
    return [entry for number, line in enumerate(whole, start=1) for entry in _read_line(path, number, line)]


def _read_line(path: Path, number: int, line: bytes) -> list[dict[str, Any]]:
    if not line.strip():
        return []
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return []  # what a crash cut short, before another line was begun
    if not isinstance(entry, dict):
        raise UnreadableFile(f"{path}, line {number}: expected a JSON object, got {str(entry)[:40]!r}.")
    return [entry]


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    file = os.open(path, _OPEN, 0o666)
    try:
        lock_file(file)
        yield file
    finally:
        os.close(file)


def _ends_whole(file: int, size: int) -> bool:
    if not size:
        return True
    os.lseek(file, size - 1, os.SEEK_SET)
    return os.read(file, 1) == b"\n"


def _write_all(file: int, data: bytes, before: int) -> None:
    """Write everything, or leave the file as it was: a full disk keeps no half of a line."""
    try:
        while data:
            data = data[os.write(file, data) :]
    except OSError:
        os.ftruncate(file, before)
        raise
