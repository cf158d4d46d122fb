"""The bytes of a file, also when it is packed in .gz or .zip.

It is opened as often as needed, and never unpacked to disk.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, cast

from tellwhy.core.errors import UnreadableFile

LARGEST_UNPACKED = 4 * 2**30  # a small archive can unpack to more than a machine holds
LARGEST_WORKBOOK = 2 * 2**30  # its cells take several times as much memory as its text
_BLOCK = 4 * 2**20
_UNPACKING_ERRORS = (
    EOFError,
    zlib.error,
    gzip.BadGzipFile,
    zipfile.BadZipFile,
    RuntimeError,  # a zip file with a password
    NotImplementedError,  # a zip file packed in a way that Python does not know
    UnicodeDecodeError,  # a zip file whose members have names that are no text
    struct.error,
)


@dataclass(frozen=True)
class ByteSource:
    """A file's content: `path` is what the user gave, `name` what is inside, which tells the format."""

    path: Path
    name: str
    packing: str = "none"  # "none" | "gzip" | "zip"
    member: str = ""

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Give the unpacked content as a binary stream; what goes wrong on the way is an `UnreadableFile`."""
        # What is not packed cannot surprise anybody by its size.
        limit = sys.maxsize if self.packing == "none" else LARGEST_UNPACKED
        with ExitStack() as stack:
            with _name_reading_errors(self.path):
                inner = stack.enter_context(self._unpack(stack))
            yield io.BufferedReader(_Guarded(inner, self.path, limit), buffer_size=2**20)

    def _unpack(self, stack: ExitStack) -> IO[bytes]:
        if self.packing == "gzip":
            return cast(IO[bytes], gzip.GzipFile(self.path, "rb"))
        if self.packing == "zip":
            return stack.enter_context(zipfile.ZipFile(self.path)).open(self.member)
        return self.path.open("rb")

    def blocks(self) -> Iterator[bytes]:
        """Yield the unpacked content in blocks of a few megabytes."""
        if self.packing == "none":  # without a detour, which would copy every byte once more
            with _name_reading_errors(self.path), self.path.open("rb", buffering=0) as file:
                while block := file.read(_BLOCK):
                    yield block
            return
        with self.open() as stream:
            while block := stream.read(_BLOCK):
                yield block

    def head(self, size: int) -> bytes:
        """Return the first bytes of the unpacked content."""
        with self.open() as stream:
            return stream.read(size)


class _Guarded(io.RawIOBase):
    """A stream that refuses to give more than `limit` bytes and says in words what goes wrong."""

    def __init__(self, inner: IO[bytes], path: Path, limit: int) -> None:
        self._inner = inner
        self._path = path
        self._left = limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        with _name_reading_errors(self._path):
            block = self._inner.read(len(buffer))
        buffer[: len(block)] = block
        self._left -= len(block)
        if self._left < 0:
            raise refuse_too_large(self._path)
        return len(block)


@contextmanager
def _name_reading_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except _UNPACKING_ERRORS as error:
        raise UnreadableFile(
            f"{path} cannot be unpacked ({error}): it is damaged, cut short or protected by a password. "
            "Fetch it again, or unpack it yourself and pass what was inside."
        ) from error
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read: {error.strerror or error}.") from error


def refuse_too_large(path: Path, limit: int | None = None) -> UnreadableFile:
    """Return the error for content that unpacks to more than the limit."""
    return UnreadableFile(
        f"{path} unpacks to more than {(limit or LARGEST_UNPACKED) / 2**30:g} GiB, the most that is "
        "accepted. Split the table into smaller files."
    )


def locate(path: Path) -> ByteSource:
    """Find out how a file is packed, or raise for what is no readable file at all."""
    check_is_file(path)
    with ByteSource(path, path.name).open() as stream:
        head = stream.read(4)  # the content tells how a file is packed; its name may not
    suffix = path.suffix.lower()
    if head.startswith(b"\x1f\x8b"):
        name = path.name[:-3] if suffix == ".gz" else path.name
        return ByteSource(path, name, "gzip")
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _locate_in_zip(path)
    if suffix in (".gz", ".zip", ".xlsx", ".xlsm"):
        what = {".gz": "gzip-compressed", ".zip": "a zip archive"}.get(suffix, "an Excel workbook")
        raise UnreadableFile(f"{path} is not {what}, although its name says so. Rename it or fetch it again.")
    return ByteSource(path, path.name)


def check_is_file(path: Path) -> None:
    """Raise for a folder, a pipe, a device, an empty file, and where there is nothing."""
    with _name_reading_errors(path):
        if path.is_dir():
            raise UnreadableFile(f"{path} is a folder; expected a file. Name one file inside it.")
        if not path.exists():
            raise UnreadableFile(f"There is no file {path}. Check the name and the folder.")
        if not path.is_file():
            raise UnreadableFile(
                f"{path} is a pipe or a device; expected a file. Save its content to a file first."
            )
        if path.stat().st_size == 0:
            raise UnreadableFile(f"{path} is empty (0 bytes); expected a table with a header and data rows.")


def _locate_in_zip(path: Path) -> ByteSource:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if not entry.filename.endswith("/")]
    except (zipfile.BadZipFile, OSError, ValueError, LookupError, NotImplementedError, struct.error) as error:
        raise UnreadableFile(f"{path} is a damaged zip file ({error}). Fetch it again.") from error
    if any(entry.filename == "xl/workbook.xml" for entry in entries):  # an .xlsx file is a zip archive
        if sum(entry.file_size for entry in entries) > LARGEST_WORKBOOK:
            raise refuse_too_large(path, LARGEST_WORKBOOK)
        return ByteSource(path, path.with_suffix(".xlsx").name)
    names = [e.filename for e in entries if not e.filename.startswith("__MACOSX/")]
    names = [name for name in names if not name.endswith((".DS_Store", "Thumbs.db"))]
    if len(names) != 1:
        listed = ", ".join(repr(name) for name in names[:10]) + (", …" if len(names) > 10 else "")
        what = f"{len(names)} files ({listed})" if names else "no file"
        raise UnreadableFile(
            f"{path} holds {what}; expected exactly one table. Unpack it and pass one of the files."
        )
    return ByteSource(path, names[0].rsplit("/", 1)[-1], "zip", names[0])


def file_fingerprint(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, read in blocks."""
    digest = hashlib.sha256()
    for block in ByteSource(path, path.name).blocks():
        digest.update(block)
    return digest.hexdigest()
