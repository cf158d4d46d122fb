"""Large files of delimited text, cut between rows into parts that are read by themselves."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple

import numpy as np

from tellwhy.core.errors import UnreadableFile
from tellwhy.data.reading.byte_source import ByteSource, locate
from tellwhy.data.reading.dialect import Dialect, detect_dialect

PART_BYTES = 16 * 2**20
_SCANNED = 8 * 2**20
_SAMPLE = 4 * 2**20


class Cut(NamedTuple):
    """One part of a text file: its bytes, and the rows before it."""

    begin: int
    end: int
    first_row: int
    n_rows: int


@dataclass(frozen=True)
class TextPart(ByteSource):
    """Some rows of a text file, below its header; opened as if they were a file."""

    begin: int = 0
    end: int = 0
    header_end: int = 0

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Give the header and the rows as one stream."""
        yield io.BytesIO(self._content())

    def blocks(self) -> Iterator[bytes]:
        """Yield the content at once: it was cut to be small."""
        yield self._content()

    def head(self, size: int) -> bytes:
        """Return the first bytes."""
        return self._content()[:size]

    def _content(self) -> bytes:
        try:
            with self.path.open("rb") as file:
                header = file.read(self.header_end)
                file.seek(self.begin)
                rows = file.read(self.end - self.begin)
        except OSError as error:
            raise UnreadableFile(f"{self.path} cannot be read: {error.strerror or error}.") from error
        if len(header) + len(rows) < self.header_end + self.end - self.begin:
            raise UnreadableFile(f"{self.path} became shorter while it was read.")
        return header + rows


@dataclass(frozen=True)
class TextLayout:
    """How a text file is written, so that each of its parts is read alike."""

    delimiter: str
    decimal: str
    encoding: str
    header_end: int


def layout_of(path: Path) -> TextLayout | None:
    """Find out how a file is written; None where it cannot be cut: packed, or without a header."""
    source = locate(path)
    head = source.head(_SAMPLE)
    if source.packing != "none" or b"\n" not in head or head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None
    encoding = _encoding(head)
    dialect: Dialect = detect_dialect(source, encoding)
    if dialect.n_header_lines == 0:
        return None
    end = 0
    for _ in range(dialect.n_header_lines):
        end = head.find(b"\n", end) + 1
        if end == 0:
            return None
    return TextLayout(dialect.delimiter, dialect.decimal, encoding, end)


def _encoding(head: bytes) -> str:
    try:
        head[: head.rfind(b"\n")].decode("utf-8")
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"


def cuts_of(path: Path, layout: TextLayout, part_bytes: int = PART_BYTES) -> list[Cut]:
    """Cut a file after rows, into parts of about so many bytes; a quoted cell may hold line ends."""
    cuts: list[Cut] = []
    begin = layout.header_end
    first_row = 0
    n_rows = 0
    for end, n_so_far in _row_ends(path, layout.header_end, part_bytes):
        n_rows = n_so_far
        cuts.append(Cut(begin, end, first_row, n_rows - first_row))
        begin = end
        first_row = n_rows
    return [cut for cut in cuts if cut.n_rows]


def _row_ends(path: Path, start: int, part_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield (offset after a row, rows so far) about every `part_bytes` bytes, and at the end."""
    with path.open("rb") as file:
        file.seek(start)
        yield from _scan(file, start, part_bytes)


def _scan(file: IO[bytes], start: int, part_bytes: int) -> Iterator[tuple[int, int]]:
    offset = start
    is_quoted = False
    n_rows = 0
    wanted = start + part_bytes
    line_has_text = False  # whether the line that a piece ended in has any character yet
    while piece := file.read(_SCANNED):
        block = np.frombuffer(piece, dtype=np.uint8)
        parity = (np.cumsum(block == ord('"')) + is_quoted) & 1
        feeds = np.flatnonzero((block == ord("\n")) & (parity == 0))
        is_row = _are_rows(block, feeds, line_has_text)
        rows_after = n_rows + np.cumsum(is_row)
        for place in _wanted_ends(feeds, offset, wanted, part_bytes):
            yield offset + int(feeds[place]) + 1, int(rows_after[place])
            wanted = offset + int(feeds[place]) + 1 + part_bytes
        n_rows += int(is_row.sum())
        rest = block[feeds[-1] + 1 :] if len(feeds) else block
        line_has_text = (line_has_text and not len(feeds)) or _has_text(rest)
        is_quoted = bool(parity[-1])
        offset += len(block)
    if offset > start:
        yield offset, n_rows + line_has_text


def _wanted_ends(feeds: np.ndarray, offset: int, wanted: int, part_bytes: int) -> Iterator[int]:
    """Places of the line ends to cut at."""
    place = int(np.searchsorted(feeds, wanted - offset))
    while place < len(feeds):
        yield place
        after = int(feeds[place]) + 1 + part_bytes
        place = int(np.searchsorted(feeds, after))


def _are_rows(block: np.ndarray, feeds: np.ndarray, began: bool) -> np.ndarray:
    """Whether the line before each line end holds anything: blank lines are no rows."""
    starts = np.concatenate([[0], feeds[:-1] + 1]) if len(feeds) else feeds
    lengths = feeds - starts
    before = block[np.maximum(feeds - 1, 0)]
    is_blank = (lengths == 0) | ((lengths == 1) & (before == ord("\r")))
    if len(is_blank) and began:
        is_blank[0] = False
    return ~is_blank


def _has_text(rest: np.ndarray) -> bool:
    return bool(((rest != ord("\r")) & (rest != ord("\n"))).any())
