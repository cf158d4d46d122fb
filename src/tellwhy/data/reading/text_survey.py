"""One pass over a text file: its encoding, whether it is text at all, its lines and quotation marks."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import AnyStr, Generic

from tellwhy.core.errors import InvalidParameter, UnreadableFile
from tellwhy.data.reading.byte_source import ByteSource

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
    notices: tuple[str, ...] = ()


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
    codec = _known(encoding) if encoding is not None else marked
    blocks = source.blocks() if look is None else _shown_to(look, source.blocks())
    found = _survey_bytes(source, blocks) if codec is None else _survey_decoded(source, blocks, codec)
    if found.n_lines == 0:
        raise UnreadableFile(f"{source.path} is empty; expected a table with a header and data rows.")
    return found


def _shown_to(look: Callable[[bytes], None], blocks: Iterable[bytes]) -> Iterator[bytes]:
    for block in blocks:
        look(block)
        yield block


def _refuse_known_formats(source: ByteSource, head: bytes) -> None:
    for signature, words in _SIGNATURES:
        if head[: len(signature)].lower() == signature.lower():
            raise UnreadableFile(f"{source.path} is not a text table but {words}.")


def _known(encoding: str) -> str:
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
            raise _holds_nul(self.source, line, is_decoded=isinstance(block, str))
        self.n_feeds += block.count(marks.feed)
        self.n_returns += block.count(marks.carriage)
        self.has_quotes = self.has_quotes or marks.quote in block
        self.has_text = self.has_text or bool(block.strip())
        if block:
            self.ends_line = block[-1:] in (marks.feed, marks.carriage)

    def result(self, codec: str, *notices: str) -> TextSurvey:
        # Old Macs end lines by a carriage return alone; everybody else has one line feed a line.
        n_lines = (self.n_feeds or self.n_returns) + (not self.ends_line)
        return TextSurvey(codec, n_lines if self.has_text else 0, self.has_quotes, notices)


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
            f"{tally.n_feeds + _lines_before(error, codec) + 1}. Pass another encoding, or save the file as "
            "UTF-8."
        ) from error
    return tally.result(codec, *([] if codec == "utf-8-sig" else [f"Read the text as {codec}."]))


def _lines_before(error: UnicodeError, codec: str) -> int:
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
            if not bad_line and (offset := _first_invalid(decoder, block)) is not None:
                bad_line = tally.n_feeds + block[:offset].count(b"\n") + 1
        tally.take(block)
    if not bad_line and decoder.getstate()[0]:  # a character cut off at the very end
        bad_line = tally.n_feeds + 1
    if not bad_line:
        return tally.result("utf-8-sig")
    codec, words = ("latin-1", "Latin-1") if lacks_windows else ("cp1252", "Windows-1252")
    notice = (
        f"The text is not UTF-8 (see line {bad_line}); read it as {words}. If letters look wrong, pass the "
        "encoding."
    )
    return tally.result(codec, notice)


def _first_invalid(decoder: codecs.IncrementalDecoder, block: bytes) -> int | None:
    """Return where a block stops being UTF-8, or None; the decoder may hold bytes of the block before."""
    pending = len(decoder.getstate()[0])
    try:
        decoder.decode(block)
    except UnicodeDecodeError as error:
        decoder.reset()
        return max(error.start - pending, 0)
    return None


def _holds_nul(source: ByteSource, line: int, *, is_decoded: bool) -> UnreadableFile:
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
