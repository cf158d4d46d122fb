"""JSON lines and lists.

A JSON list, one element after the other: a large one is never held whole.

JSON lines (one object a line) and JSON lists of objects.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, TextIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.json as arrow_json
from numpy.typing import NDArray

from tellwhy.core.errors import UnreadableFile
from tellwhy.data.columns.labels import are_beyond
from tellwhy.data.places import mark_lines, shown
from tellwhy.data.reading.arrow_frames import frame_from_arrow
from tellwhy.data.reading.bytes import ByteSource
from tellwhy.data.reading.cells import MOST_CELLS, blank_missing, frame_from_records
from tellwhy.data.reading.nested_json import decode_with, flat, read_object
from tellwhy.data.reading.survey import TextSurvey, survey_text
from tellwhy.data.table import check_unique

_PIECE = 2**20  # characters that are read at a time
LARGEST_ELEMENT = 2**28  # characters
_NEAR_END = 64  # an error this close to the end of what was read may be due to the end alone
_SPACE = " \t\n\r"


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; one that has a name twice would lose a value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} occurs more than once in an object")
    return found


class _Text:
    """Text that is read on when more of it is needed."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.held = ""
        self.at = 0
        self.is_whole = False

    def more(self) -> bool:
        """Read on, as much again as is held; False at the end."""
        rest = len(self.held) - self.at
        piece = self.stream.read(max(_PIECE, rest))
        self.held = self.held[self.at :] + piece
        self.at = 0
        self.is_whole = not piece
        return not self.is_whole

    def sign(self) -> str:
        """The next character that is no space, which is not passed; nothing at the end."""
        while True:
            while self.at < len(self.held):
                if self.held[self.at] not in _SPACE:
                    return self.held[self.at]
                self.at += 1
            if not self.more():
                return ""


def list_elements(stream: TextIO) -> Iterator[Any]:
    """Yield the elements of a JSON list; what is wrong with it is a ValueError or a RecursionError."""
    text = _Text(stream)
    decoder = json.JSONDecoder(object_pairs_hook=unique_names)
    if text.sign() != "[":
        raise ValueError("expected a list")
    text.at += 1
    if text.sign() != "]":
        while True:
            text.sign()
            yield _element(text, decoder)
            if text.sign() != ",":
                break
            text.at += 1
    if (sign := text.sign()) != "]":
        raise ValueError(f"found {sign!r} after an element; expected ',' or ']'" if sign else "it ends early")
    text.at += 1
    if sign := text.sign():
        raise ValueError(f"found {sign!r} after the end of the list")


def _element(text: _Text, decoder: json.JSONDecoder) -> Any:
    while True:
        try:
            value, end = decoder.raw_decode(text.held, text.at)
        except json.JSONDecodeError as error:
            is_cut = error.pos >= len(text.held) - _NEAR_END or error.msg.startswith("Unterminated")
            if not is_cut or len(text.held) - text.at > LARGEST_ELEMENT or not text.more():
                raise
            continue
        if end == len(text.held) and not text.is_whole:  # a number may go on
            text.more()
            continue
        text.at = end
        return value


DEEPEST = 500  # brackets inside brackets
_SMALL = 2**20  # bytes of a file whose every name is looked at
_WINDOW = 2**12  # bytes that are looked at in every
_STRIDE = 2**18
_NAME = re.compile(rb'"([^"\\]*)"\s*:')


def read_json(source: ByteSource, *, encoding: str | None) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of JSON lines, of a list of objects, or of one object that holds them; and notices."""
    names = _Names()
    survey = survey_text(source, encoding, look=names.look)
    with source.open() as stream:
        text = io.TextIOWrapper(stream, encoding=survey.encoding, errors="replace")
        is_list = text.read(4096).lstrip().startswith("[")
    told = None if is_list else _read_whole(source, survey)
    if told is not None:
        frame, notices = told
        return frame, [*survey.notices, *notices]
    frame = _read_list(source, survey) if is_list else _read_lines(source, survey, names)
    if len(frame) == 0 or len(frame.columns) == 0:
        raise UnreadableFile(f'{source.path} holds no rows with values; expected objects such as {{"a": 1}}.')
    return frame, list(survey.notices)


def _read_whole(source: ByteSource, survey: TextSurvey) -> tuple[pd.DataFrame, list[str]] | None:
    """The rows of a file that is one object: of GeoJSON, or of a list inside."""
    found = read_object(source, survey.encoding, survey.n_lines, decode_with(unique_names))
    if found is None:
        return None
    frame = frame_from_records(found.rows, str(source.path))
    check_unique([str(name) for name in frame.columns], where=str(source.path))
    if len(frame) == 0 or len(frame.columns) == 0:
        raise UnreadableFile(f"{source.path} holds no rows with values. {found.notice}")
    return frame, [found.notice]


def _read_lines(source: ByteSource, survey: TextSurvey, names: _Names) -> pd.DataFrame:
    frame = None
    if survey.encoding == "utf-8-sig" and names.suit_arrow(source, survey.n_lines):
        try:
            with source.open() as stream:
                table = arrow_json.read_json(stream)
            # Whole numbers that Arrow's integers cannot hold became floats: Python's can.
            frame = None if _has_long_numbers(table) else frame_from_arrow(blank_missing(table))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            frame = None  # a bad line, or types that change between lines: the slower reader tells which
    if frame is None:
        frame = frame_from_records(_objects(source, survey), str(source.path))
    check_unique([str(name) for name in frame.columns], where=str(source.path))
    if survey.n_lines == len(frame):
        mark_lines(frame, 1)
    return frame


class _Names:
    """What is seen of brackets and names while a file is surveyed.

    Arrow does not survive very deep brackets, nor very many names. The slower reader refuses what is too
    deep, and counts cells as it goes.
    """

    def __init__(self) -> None:
        self.n_opened = 0
        self.seen: Counter[bytes] = Counter()
        self.share = 1.0  # of the bytes, that were looked at

    def look(self, block: bytes) -> None:
        """Count the brackets of a block, and the names in parts of it."""
        self.n_opened += int(np.count_nonzero(_opens(block)))
        if not self.seen and len(block) <= _SMALL:
            self.seen.update(_NAME.findall(block))
            return
        self.share = _WINDOW / _STRIDE
        for start in range(0, len(block), _STRIDE):
            self.seen.update(_NAME.findall(block, start, start + _WINDOW))

    def suit_arrow(self, source: ByteSource, n_lines: int) -> bool:
        """Tell whether Arrow may read the lines."""
        # A name seen once stands for others that stand between the samples.
        n_once = sum(count == 1 for count in self.seen.values())
        if (len(self.seen) + n_once * (1 / self.share - 1)) * n_lines > MOST_CELLS:
            return False
        # One object a line is what most files have.
        return self.n_opened <= n_lines + DEEPEST or not _has_deep_line(source)


def _has_deep_line(source: ByteSource) -> bool:
    opened = 0  # by the line that goes on from the block before
    for block in source.blocks():
        ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n"))
        before = np.searchsorted(np.flatnonzero(_opens(block)), [*ends, len(block)])
        counts = np.diff(before, prepend=0)
        counts[0] += opened
        opened = int(counts[-1])
        if counts.max() > DEEPEST:
            return True
    return False


def _opens(block: bytes) -> NDArray[np.bool_]:
    signs = np.frombuffer(block, dtype=np.uint8)
    return np.asarray((signs == ord("{")) | (signs == ord("[")))


def _has_long_numbers(table: pa.Table) -> bool:
    return any(pa.types.is_floating(c.type) and are_beyond(c, 2**63) for c in table.columns)


def _objects(source: ByteSource, survey: TextSurvey) -> Iterator[dict[str, Any]]:
    with source.open() as stream:
        text = io.TextIOWrapper(stream, encoding=survey.encoding, errors="replace")
        for number, line in enumerate(text, start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line, object_pairs_hook=unique_names)
            except (ValueError, RecursionError) as error:
                raise UnreadableFile(
                    f"{source.path}, line {number}: not valid JSON ({error}); expected one object a line, "
                    'such as {"a": 1}. Fix or remove that line.'
                ) from error
            if not isinstance(value, dict):
                raise _not_an_object(f"{source.path}, line {number}", value)
            yield value


def _read_list(source: ByteSource, survey: TextSurvey) -> pd.DataFrame:
    return frame_from_records(_elements(source, survey), str(source.path))


def _elements(source: ByteSource, survey: TextSurvey) -> Iterator[dict[str, Any]]:
    position = -1
    with source.open() as stream:
        text = io.TextIOWrapper(stream, encoding=survey.encoding, errors="replace")
        try:
            for position, record in enumerate(list_elements(text)):
                if not isinstance(record, dict):
                    raise _not_an_object(f"{source.path}, element {position} of the list", record)
                yield flat(record)
        except UnreadableFile:
            raise
        except (ValueError, RecursionError) as error:
            raise UnreadableFile(
                f"{source.path}, element {position + 1} of the list: not valid JSON ({error}). Check that it "
                "was saved whole."
            ) from error


def _not_an_object(place: str, found: object) -> UnreadableFile:
    return UnreadableFile(
        f'{place}: found {shown(found)}; expected an object with named values, such as {{"a": 1}}.'
    )
