"""Files and folders written whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tellwhy.core.errors import CannotWrite


@contextmanager
def new_folder(target: Path, *, marker: str) -> Iterator[Path]:
    """Give a temporary folder that takes the target's place when the block ends without an error.

    An existing target is replaced only if it is empty or holds the file `marker`, which says that it is ours.
    """
    work = _work_folder(target, marker)
    try:
        yield work
        _take_place(work, target)
    except OSError as error:
        raise CannotWrite(
            f"Cannot write {target}: {error.strerror or error}. Nothing was written."
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def check_new_folder(target: Path, *, marker: str) -> None:
    """Raise now what `new_folder` would raise: for work that takes long before there is anything to write."""
    shutil.rmtree(_work_folder(target, marker), ignore_errors=True)


def _work_folder(target: Path, marker: str) -> Path:
    if target.exists() and not _is_ours(target, marker):
        raise CannotWrite(
            f"{target} exists and was not written by tellwhy (it has no {marker}): choose another."
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # On the target's own disk, because a folder cannot be renamed across disks.
        return Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise CannotWrite(f"Cannot write to {target.parent}: {error.strerror or error}.") from error


def _is_ours(target: Path, marker: str) -> bool:
    return target.is_dir() and ((target / marker).is_file() or not any(target.iterdir()))


def _take_place(work: Path, target: Path) -> None:
    os.chmod(work, 0o777 & ~_umask())  # mkdtemp makes it private
    if not target.exists():
        work.rename(target)
        return
    # A folder cannot take the place of a full one in one step: the old one moves aside, and back on failure.
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent)) / "old"
    target.rename(aside)
    try:
        work.rename(target)
    except OSError:
        aside.rename(target)
        raise
    finally:
        shutil.rmtree(aside.parent, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)  # there is no other way to read it than to set it
    os.umask(mask)
    return mask


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Give a temporary file name that takes the target's place when the block ends without an error."""
    # Beside the target, so that the last step is a rename on one disk, which cannot stop half-way. The
    # number of the process keeps two processes apart that write the same file.
    work = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield work
        os.replace(work, target)
    except OSError as error:
        raise CannotWrite(
            f"Cannot write {target}: {error.strerror or error}. Nothing was written."
        ) from error
    finally:
        work.unlink(missing_ok=True)


def plain(value: object) -> Any:
    """Turn numpy scalars, arrays, paths and tuples into what JSON can hold."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(v) for v in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)  # JSON has no notation for NaN and infinity
    return value if isinstance(value, (str, int, float)) or value is None else str(value)
