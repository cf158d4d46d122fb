"""What may be replaced: a file that tellwhy wrote, known by a sign in its first bytes; never an input.

A name that is typed wrongly costs nobody a thesis: any other file is refused, before the work begins and
again when it is written, unless `allowed` says otherwise.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from tellwhy.core.errors import CannotWrite

MODEL_SIGN = b"model.json"  # the first member of a model file
PAGE_SIGN = b'<meta name="generator" content="tellwhy"'
CHANGES_SIGN = b"row,line,column,old,new,why,probability"  # the header of a list of repairs
NEVER = b"\0nothing bears this\0"  # for files of the user's own form: what is there already stays
_SEEN = 4096  # bytes of a file in which its sign stands

_any_file: ContextVar[bool] = ContextVar("any_file", default=False)
_inputs: ContextVar[tuple[Path, ...]] = ContextVar("inputs", default=())


@contextmanager
def allowed(*, force: bool = False, inputs: Iterable[str | Path] = ()) -> Iterator[None]:
    """Let what is written here replace any file (`force`), but none of the inputs."""
    before = _any_file.set(force)
    read_before = _inputs.set(tuple(Path(name) for name in inputs))
    try:
        yield
    finally:
        _any_file.reset(before)
        _inputs.reset(read_before)


def check_replaceable(target: Path, sign: bytes | None) -> None:
    """Raise for a target that must not be replaced; without a sign, any plain file but an input may be."""
    try:
        mode = target.lstat().st_mode
    except OSError:  # there is nothing yet, or the folder is not there, which is told when it is written
        return
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a folder"}
        what = kinds.get(stat.S_IFMT(mode), "a device or a pipe")
        raise CannotWrite(
            f"Cannot write {target}: it is {what}; expected a file, or nothing yet. Name another."
        )
    if any(_is_same(target, name) for name in _inputs.get()):
        raise CannotWrite(f"Cannot write {target}: it is what is to be read. Name another file.")
    if sign is None or _any_file.get() or _has_sign(target, sign):
        return
    raise CannotWrite(
        f"{target} is there already, and tellwhy did not write it: it is left as it is. Name another file, "
        "or move it away; the command line replaces it with --force."
    )


def _is_same(target: Path, name: Path) -> bool:
    try:
        return os.path.samefile(target, name)
    except (OSError, ValueError):  # a query, a pipe, a pattern: no file
        return False


def _has_sign(target: Path, sign: bytes) -> bool:
    """Whether a file is empty, or begins as what tellwhy writes there."""
    try:
        with target.open("rb") as file:
            head = file.read(_SEEN)
    except OSError as error:
        raise CannotWrite(
            f"Cannot write {target}: what is there cannot be read: {error.strerror or error}."
        ) from error
    return not head or sign in head
