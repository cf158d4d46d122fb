"""Compiled loops, kept on disk between processes where that can be done safely.

numba keeps what it compiled beside the source, else in the user's own folder. Where neither can be written,
it would refuse to compile; from a file that is damaged, it would raise or crash. Here loops are then compiled
again.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

# numba takes settings from a file in the working folder, which may be anybody's: among them where compiled
# code is kept, which it runs. What is set here, though empty, goes before that file.
for _setting in ("NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES"):
    os.environ.setdefault(_setting, "")

import numba  # noqa: E402
from numba.core.caching import FunctionCache, IndexDataCacheFile  # noqa: E402

_DIGEST = hashlib.sha256().digest_size


def njit(*, cache: bool = False, **options: Any) -> Callable[[Any], Any]:
    """`numba.njit` with these options, whose cache may fail without harm.

    Examples
    --------
    >>> @njit(nogil=True)
    ... def twice(x):
    ...     return 2 * x
    >>> twice(4)
    8
    """

    def decorated(function: Any) -> Any:
        made = numba.njit(**options)(function)
        # There is no cache to set where numba is told to compile nothing, and no place for one where
        # nothing can be written: numba then raises a RuntimeError.
        if cache and hasattr(made, "enable_caching"):
            with suppress(RuntimeError):
                made._cache = _Cache(function)
        return made

    return decorated


class _CheckedFile(IndexDataCacheFile):
    """Files that end with a checksum: one that is damaged is as one that is not there."""

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[Any]:
        with io.BytesIO() as kept:
            yield kept
            held = kept.getvalue()
        with super()._open_for_write(filepath) as file:
            file.write(held + hashlib.sha256(held).digest())  # what follows a pickle is not read

    def _load_index(self) -> Any:
        if not _is_whole(self._index_path):
            return {}
        try:
            return super()._load_index()
        except Exception:  # it names what an earlier version of the package had, and this one has not
            return {}

    def _load_data(self, name: str) -> Any:
        if not _is_whole(self._data_path(name)):
            raise OSError(f"{name} is damaged")  # numba compiles again
        return super()._load_data(name)


class _Cache(FunctionCache):
    """A cache that is passed over where it cannot be read or written."""

    def __init__(self, function: Any):
        super().__init__(function)
        own = self._impl.locator.get_source_stamp()
        stamp = own, _stamp_of_sources(_package_of(Path(function.__code__.co_filename).parent))
        self._cache_file = _CheckedFile(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # a pickle of another version may raise anything
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):  # a full disk, or one that was made read-only meanwhile
            super().save_overload(sig, data)


def _package_of(folder: Path) -> Path:
    """The folder of the whole package that a folder belongs to; itself where it belongs to none."""
    while (folder.parent / "__init__.py").is_file():
        folder = folder.parent
    return folder


@lru_cache
def _stamp_of_sources(folder: Path) -> bytes:
    """Digest of all files that the compiled loops of a package may be made of.

    A loop that was kept holds what it calls from other files, too, and numba looks only at its own. Without
    this, a newer version of the package would run loops of both.
    """
    folders = sorted({path.parent for path in folder.rglob("_compiled*.py")})
    digest = hashlib.sha256()
    for path in (path for held in folders for path in sorted(held.glob("*.py"))):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()


def _is_whole(path: str) -> bool:
    try:
        held = Path(path).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(held[:-_DIGEST]).digest() == held[-_DIGEST:]
