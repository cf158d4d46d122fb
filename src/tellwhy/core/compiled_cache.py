"""Where compiled loops keep their machine code: in files that may be damaged or of another version."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

_DIGEST = hashlib.sha256().digest_size


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


class LoopCache(FunctionCache):
    """A cache that is passed over where it cannot be read or written."""

    def __init__(self, function: Any):
        super().__init__(function)
        own = self._impl.locator.get_source_stamp()
        stamp = own, _stamp_of_sources(_find_package(Path(function.__code__.co_filename).parent))
        self._cache_file = _CheckedFile(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was kept for these types; None where that cannot be read."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # a pickle of another version may raise anything
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled for these types, where it can be written."""
        with suppress(OSError):  # a full disk, or one that was made read-only meanwhile
            super().save_overload(sig, data)


def _find_package(folder: Path) -> Path:
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
