"""Encoding and quotation marks of a text file.

One pass over a text file: its encoding, whether it is text at all, its lines and quotation marks.

Quotation marks that swallow lines: one that is never closed makes a single cell of all that follows.

Such a file reads without an error, with rows missing. Where rows and lines do not agree, the rows are counted
again from the text itself, and quotation marks must stand where they open and close cells.
"""

from __future__ import annotations

import codecs
import csv
import io
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import AnyStr, Generic

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.errors import InvalidParameter, UnreadableFile
from tellwhy.data.reading.bytes import ByteSource
from tellwhy.results.notice import Notice

_MARKS = (  # longest first: the mark of UTF-16 begins that of UTF-32
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
SINGLE_BYTE = ("cp1252", "latin-1")  # what text that is not UTF-8 is taken for
_NOT_IN_WINDOWS_1252 = bytes([0x81, 0x8D, 0x8F, 0x90, 0x9D])
_SIGNATURES = (
    (b"\xd0\xcf\x11\xe0", "an old Excel (.xls) or Office file: save it as .xlsx or CSV"),
    (b"\x89HDF", "an HDF5 file"),
    (b"SQLite format 3", "an SQLite database: export one of its tables as CSV"),
    (b"ARROW1", "an Arrow (Feather) file: save it as Parquet"),
    (b"\x93NUMPY", "a numpy array: load it with numpy and pass the array"),
    (b"BZh", "bzip2-compressed: unpack it first"),
    (b"\xfd7zXZ", "xz-compressed: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed: unpack it first"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"<!doctype html", "a web page: the download probably gave an error or a login page"),
    (b"<html", "a web page: the download probably gave an error or a login page"),
)


@dataclass(frozen=True)
class TextSurvey:
    """What a text file is made of."""

    encoding: str  # a Python codec
    n_lines: int
    has_quotes: bool
    said: tuple[Notice, ...] = ()


def survey_text(
    source: ByteSource, encoding: str | None = None, *, look: Callable[[bytes], None] | None = None
) -> TextSurvey:
    """Read a text file once and return its encoding, number of lines and whether it quotes cells.

    UTF-8 (with or without byte order mark) and UTF-16/32 (with the mark) are recognised with certainty; any
    other text is read as Windows-1252, or as Latin-1 where bytes occur that Windows-1252 lacks, and a notice
    says so. `look` is shown every block of bytes on the way.
    """
    head = source.head(4096)
    _refuse_known_formats(source, head)
    marked = next((codec for mark, codec in _MARKS if head.startswith(mark)), None)
    codec = _check_encoding(encoding) if encoding is not None else marked
    blocks = source.blocks() if look is None else _show_blocks(look, source.blocks())
    found = _survey_bytes(source, blocks) if codec is None else _survey_decoded(source, blocks, codec)
    if found.n_lines == 0:
        raise UnreadableFile(f"{source.path} is empty; expected a table with a header and data rows.")
    return found


def _show_blocks(look: Callable[[bytes], None], blocks: Iterable[bytes]) -> Iterator[bytes]:
    for block in blocks:
        look(block)
        yield block


def _refuse_known_formats(source: ByteSource, head: bytes) -> None:
    for signature, words in _SIGNATURES:
        if head[: len(signature)].lower() == signature.lower():
            raise UnreadableFile(f"{source.path} is not a text table but {words}.")


def _check_encoding(encoding: str) -> str:
    try:
        codec = codecs.lookup(encoding).name
    except LookupError as error:
        raise InvalidParameter(
            f"There is no text encoding {encoding!r}; expected a name such as 'utf-8', 'windows-1252' or "
            "'utf-16'."
        ) from error
    return "utf-8-sig" if codec == "utf-8" else codec


@dataclass(frozen=True)
class _Marks(Generic[AnyStr]):
    """Characters that are looked for, in bytes or in decoded text."""

    nul: AnyStr
    feed: AnyStr
    carriage: AnyStr
    quote: AnyStr


class _Tally(Generic[AnyStr]):
    """Counts lines and looks for quotation marks in blocks of bytes or of decoded text."""

    def __init__(self, source: ByteSource, marks: _Marks[AnyStr]) -> None:
        self.source = source
        self.marks: _Marks[AnyStr] = marks
        self.n_feeds = 0
        self.n_returns = 0
        self.has_quotes = False
        self.has_text = False
        self.ends_line = False

    def take(self, block: AnyStr) -> None:
        marks = self.marks
        if marks.nul in block:
            line = self.n_feeds + block[: block.index(marks.nul)].count(marks.feed) + 1
            raise _refuse_nul(self.source, line, is_decoded=isinstance(block, str))
        self.n_feeds += block.count(marks.feed)
        self.n_returns += block.count(marks.carriage)
        self.has_quotes = self.has_quotes or marks.quote in block
        self.has_text = self.has_text or bool(block.strip())
        if block:
            self.ends_line = block[-1:] in (marks.feed, marks.carriage)

    def result(self, codec: str, *said: Notice) -> TextSurvey:
        # Old Macs end lines by a carriage return alone; everybody else has one line feed a line.
        n_lines = (self.n_feeds or self.n_returns) + (not self.ends_line)
        return TextSurvey(codec, n_lines if self.has_text else 0, self.has_quotes, said)


def _survey_decoded(source: ByteSource, blocks: Iterable[bytes], codec: str) -> TextSurvey:
    tally = _Tally(source, _Marks("\0", "\n", "\r", '"'))
    decoder = codecs.getincrementaldecoder(codec)()
    try:
        for block in blocks:
            tally.take(decoder.decode(block))
        tally.take(decoder.decode(b"", final=True))
    except UnicodeError as error:
        raise UnreadableFile(
            f"{source.path} is not {codec} text: {getattr(error, 'reason', error)} in line "
            f"{tally.n_feeds + _count_lines_before(error, codec) + 1}. Pass another encoding, or save the "
            "file as UTF-8."
        ) from error
    return tally.result(codec, *([] if codec == "utf-8-sig" else [Notice("read_as", {"encoding": codec})]))


def _count_lines_before(error: UnicodeError, codec: str) -> int:
    """Count the line ends of the block that could not be decoded, up to where it failed."""
    if not isinstance(error, UnicodeDecodeError):
        return 0
    return error.object[: error.start].decode(codec, errors="replace").count("\n")


def _survey_bytes(source: ByteSource, blocks: Iterable[bytes]) -> TextSurvey:
    """Survey text whose encoding nobody told: UTF-8 if every byte agrees, else a Windows or Latin one."""
    tally = _Tally(source, _Marks(b"\0", b"\n", b"\r", b'"'))
    decoder = codecs.getincrementaldecoder("utf-8")()
    bad_line = 0
    lacks_windows = False
    for block in blocks:
        # Plain ASCII needs no decoding, unless the block before ended within a character.
        if not block.isascii() or decoder.getstate()[0]:
            lacks_windows = lacks_windows or len(block.translate(None, _NOT_IN_WINDOWS_1252)) < len(block)
            if not bad_line and (offset := _find_first_invalid(decoder, block)) is not None:
                bad_line = tally.n_feeds + block[:offset].count(b"\n") + 1
        tally.take(block)
    if not bad_line and decoder.getstate()[0]:  # a character cut off at the very end
        bad_line = tally.n_feeds + 1
    if not bad_line:
        return tally.result("utf-8-sig")
    codec, words = ("latin-1", "Latin-1") if lacks_windows else ("cp1252", "Windows-1252")
    return tally.result(codec, Notice("not_utf8", {"line": bad_line, "encoding": words}))


def _find_first_invalid(decoder: codecs.IncrementalDecoder, block: bytes) -> int | None:
    """Return where a block stops being UTF-8, or None; the decoder may hold bytes of the block before."""
    pending = len(decoder.getstate()[0])
    try:
        decoder.decode(block)
    except UnicodeDecodeError as error:
        decoder.reset()
        return max(error.start - pending, 0)
    return None


def _refuse_nul(source: ByteSource, line: int, *, is_decoded: bool) -> UnreadableFile:
    head = b"" if is_decoded else source.head(4096)
    pairs = len(head) // 2
    # In UTF-16, every other byte of Latin letters is zero.
    for zeros, codec in ((head[1::2], "utf-16-le"), (head[0::2], "utf-16-be")):
        if pairs > 8 and zeros.count(0) > 0.7 * pairs:
            return UnreadableFile(
                f"{source.path} looks like UTF-16 text without its byte order mark. Pass the encoding "
                f"{codec!r}, or save the file as UTF-8."
            )
    return UnreadableFile(
        f"{source.path} holds a NUL byte in line {line}: it is a binary file or a damaged text file; "
        "expected text (CSV, TSV, JSON lines), Parquet or Excel. Export the table again."
    )


OPEN_QUOTE = "a quotation mark opened there is probably never closed"
_QUOTE = 34
_FEED = 10
_RETURN = 13
# In these encodings the bytes of quotation marks and line ends are nothing else.
_BYTE_WISE = ("utf-8-sig", "cp1252", "latin-1", "iso8859-1", "ascii")


def check_rows(source: ByteSource, survey: TextSurvey, delimiter: str, n_records: int) -> None:
    """Raise where a text holds other rows (the header among them) than were read from it."""
    if _is_sound(source, survey, delimiter, n_records):
        return
    found = 0
    line = 0  # where the row before ended
    for row, last in _read_strict_rows(source, survey, delimiter):
        if row is None and last > line + 1:
            raise UnreadableFile(
                f"{source.path}, line {line + 1}: the row that begins there goes on to line {last}, where "
                f"its quotation marks do not fit; {OPEN_QUOTE}. Fix that line."
            )
        found += row is None or bool(row)
        line = last
    if found != n_records:
        raise UnreadableFile(
            f"{source.path} was read as {n_records:,} rows (with the header), but its text holds {found:,}: "
            "rows would be lost. Check its quotation marks and line ends in an editor."
        )


def _is_sound(source: ByteSource, survey: TextSurvey, delimiter: str, n_records: int) -> bool:
    """Count the rows in one fast pass that expects quotation marks only where they open and close cells."""
    tally = _Records(delimiter)
    for block in _read_blocks(source, survey.encoding):
        if not tally.take(np.frombuffer(block, dtype=np.uint8)):
            return False
    return tally.finish() == n_records


def _read_blocks(source: ByteSource, encoding: str) -> Iterator[bytes]:
    if encoding in _BYTE_WISE:
        mark = BOM_UTF8
        for block in source.blocks():
            if block := block.removeprefix(mark):
                yield block
            mark = b""  # only the first block begins with it
        return
    with source.open() as stream:
        text = io.TextIOWrapper(stream, encoding=encoding, errors="replace", newline="")
        while piece := text.read(2**21):
            yield piece.encode("utf-8", errors="replace")


@dataclass
class _Records:
    """Rows of a text, counted block by block."""

    delimiter: str
    n_records: int = 0
    n_quotes: int = 0
    before: int = _FEED  # the byte before the block
    has_content: bool = False  # whether the last line of the block before goes on in this one
    closes_last: bool = False  # whether the block before ended with a mark that closes a cell

    def take(self, block: NDArray[np.uint8]) -> bool:
        """Count the rows of a block; False where a quotation mark stands inside a cell."""
        quotes = np.flatnonzero(block == _QUOTE)
        if not self._fit(block, quotes) or self._has_lone_return(block, quotes):
            return False
        ends = np.flatnonzero(block == _FEED)
        is_outside = (self.n_quotes + np.searchsorted(quotes, ends)) % 2 == 0
        ends = ends[is_outside]
        # A line without anything but its end is no row; the first line goes on from the block before.
        before = np.concatenate(([-1], ends[:-1])) if len(ends) else ends
        sizes = ends - before - 1
        is_blank = (sizes == 0) | ((sizes == 1) & (block[ends - 1] == _RETURN))
        if len(ends):
            is_blank[0] &= not self.has_content
        self.n_records += int((~is_blank).sum())
        rest = block[ends[-1] + 1 :] if len(ends) else block
        goes_on = bool(len(rest)) and not (len(rest) == 1 and rest[0] == _RETURN)
        self.has_content = goes_on or (self.has_content and not len(ends))
        self.n_quotes += len(quotes)
        self.before = int(block[-1])
        self.closes_last = bool(len(quotes)) and quotes[-1] == len(block) - 1 and self.n_quotes % 2 == 0
        return True

    def _fit(self, block: NDArray[np.uint8], quotes: NDArray[np.int64]) -> bool:
        """Tell whether every mark that opens follows a cell's end, and every one that closes is its end."""
        between = np.zeros(256, dtype=bool)  # which bytes stand between cells
        between[[_QUOTE, _FEED, _RETURN, ord(self.delimiter)]] = True
        if self.closes_last and not between[block[0]]:
            return False
        opens = quotes[self.n_quotes % 2 :: 2]
        closes = quotes[1 - self.n_quotes % 2 :: 2]
        previous = np.where(opens > 0, block[np.maximum(opens - 1, 0)], self.before)
        following = block[closes[closes < len(block) - 1] + 1]
        return bool(between[previous].all() and between[following].all())

    def _has_lone_return(self, block: NDArray[np.uint8], quotes: NDArray[np.int64]) -> bool:
        """Tell whether a carriage return without a line feed ends a row, as on old Macs."""
        if self.before == _RETURN and block[0] != _FEED and self.n_quotes % 2 == 0:
            return True
        returns = np.flatnonzero(block[:-1] == _RETURN)
        lone = returns[block[returns + 1] != _FEED]
        return bool(((self.n_quotes + np.searchsorted(quotes, lone)) % 2 == 0).any())

    def finish(self) -> int:
        """Number of rows; -1 where a cell is still open."""
        return -1 if self.n_quotes % 2 else self.n_records + self.has_content


def _read_strict_rows(
    source: ByteSource, survey: TextSurvey, delimiter: str
) -> Iterator[tuple[list[str] | None, int]]:
    """Yield each row and its last line, by the standard library's reader; None for a row it refuses."""
    with source.open() as stream, allow_long_cells():
        text = io.TextIOWrapper(stream, encoding=survey.encoding, errors="replace", newline="")
        rows = csv.reader(text, delimiter=delimiter, strict=True)
        while True:
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error:
                yield None, rows.line_num
                continue
            yield row, rows.line_num


@contextmanager
def allow_long_cells() -> Iterator[None]:
    """Let the standard library's reader take cells of any length while this block runs."""
    before = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        yield
    finally:
        csv.field_size_limit(before)
