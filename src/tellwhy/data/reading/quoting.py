"""Quotation marks that swallow lines: one that is never closed makes a single cell of all that follows.

Such a file reads without an error, with rows missing. Where rows and lines do not agree, the rows are counted
again from the text itself, and quotation marks must stand where they open and close cells.
"""

from __future__ import annotations

import csv
import io
import sys
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.errors import UnreadableFile
from tellwhy.data.reading.byte_source import ByteSource
from tellwhy.data.reading.text_survey import TextSurvey

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
    for row, last in _strict_rows(source, survey, delimiter):
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
    for block in _blocks(source, survey.encoding):
        if not tally.take(np.frombuffer(block, dtype=np.uint8)):
            return False
    return tally.finish() == n_records


def _blocks(source: ByteSource, encoding: str) -> Iterator[bytes]:
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


def _strict_rows(
    source: ByteSource, survey: TextSurvey, delimiter: str
) -> Iterator[tuple[list[str] | None, int]]:
    """Yield each row and its last line, by the standard library's reader; None for a row it refuses."""
    with source.open() as stream, long_cells():
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
def long_cells() -> Iterator[None]:
    """Let the standard library's reader take cells of any length while this block runs."""
    before = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        yield
    finally:
        csv.field_size_limit(before)
