"""JSON lines (one object a line), JSON lists of objects, and JSON that is one object.

A list is read one element after the other: a large one is never held whole. One object is read as the places
of GeoJSON, as the list of objects somewhere inside it, or as columns by their names.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TextIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.json as arrow_json
from numpy.typing import NDArray

from tellwhy.core.errors import UnreadableFile
from tellwhy.data.columns.labels import are_beyond
from tellwhy.data.places import mark_lines, show_cell
from tellwhy.data.reading.arrow_frames import frame_from_arrow
from tellwhy.data.reading.bytes import ByteSource
from tellwhy.data.reading.cells import MOST_CELLS, blank_missing, make_frame
from tellwhy.data.reading.survey import TextSurvey, survey_text
from tellwhy.data.table import check_unique
from tellwhy.results.notice import Notice

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
            yield _read_element(text, decoder)
            if text.sign() != ",":
                break
            text.at += 1
    if (sign := text.sign()) != "]":
        raise ValueError(f"found {sign!r} after an element; expected ',' or ']'" if sign else "it ends early")
    text.at += 1
    if sign := text.sign():
        raise ValueError(f"found {sign!r} after the end of the list")


def _read_element(text: _Text, decoder: json.JSONDecoder) -> Any:
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


def read_json(source: ByteSource, *, encoding: str | None) -> tuple[pd.DataFrame, list[Notice]]:
    """Return the rows of JSON lines, of a list of objects, or of one object that holds them; and notices."""
    names = _Names()
    survey = survey_text(source, encoding, look=names.look)
    with source.open() as stream:
        text = io.TextIOWrapper(stream, encoding=survey.encoding, errors="replace")
        is_list = text.read(4096).lstrip().startswith("[")
    told = None if is_list else _read_whole(source, survey)
    if told is not None:
        frame, how = told
        return frame, [*survey.said, how]
    frame = _read_list(source, survey) if is_list else _read_lines(source, survey, names)
    if len(frame) == 0 or len(frame.columns) == 0:
        raise UnreadableFile(f'{source.path} holds no rows with values; expected objects such as {{"a": 1}}.')
    return frame, list(survey.said)


def _read_whole(source: ByteSource, survey: TextSurvey) -> tuple[pd.DataFrame, Notice] | None:
    """The rows of a file that is one object: of GeoJSON, or of a list inside."""
    found = read_object(source, survey.encoding, survey.n_lines, decode_with(unique_names))
    if found is None:
        return None
    frame = make_frame(found.rows, str(source.path))
    check_unique([str(name) for name in frame.columns], where=str(source.path))
    if len(frame) == 0 or len(frame.columns) == 0:
        raise UnreadableFile(f"{source.path} holds no rows with values. {found.how.text}")
    return frame, found.how


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
        frame = make_frame(_read_objects(source, survey), str(source.path))
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
        self.n_opened += int(np.count_nonzero(_find_openings(block)))
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
        before = np.searchsorted(np.flatnonzero(_find_openings(block)), [*ends, len(block)])
        counts = np.diff(before, prepend=0)
        counts[0] += opened
        opened = int(counts[-1])
        if counts.max() > DEEPEST:
            return True
    return False


def _find_openings(block: bytes) -> NDArray[np.bool_]:
    signs = np.frombuffer(block, dtype=np.uint8)
    return np.asarray((signs == ord("{")) | (signs == ord("[")))


def _has_long_numbers(table: pa.Table) -> bool:
    return any(pa.types.is_floating(c.type) and are_beyond(c, 2**63) for c in table.columns)


def _read_objects(source: ByteSource, survey: TextSurvey) -> Iterator[dict[str, Any]]:
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
                raise _refuse_no_object(f"{source.path}, line {number}", value)
            yield value


def _read_list(source: ByteSource, survey: TextSurvey) -> pd.DataFrame:
    return make_frame(_read_elements(source, survey), str(source.path))


def _read_elements(source: ByteSource, survey: TextSurvey) -> Iterator[dict[str, Any]]:
    position = -1
    with source.open() as stream:
        text = io.TextIOWrapper(stream, encoding=survey.encoding, errors="replace")
        try:
            for position, record in enumerate(list_elements(text)):
                if not isinstance(record, dict):
                    raise _refuse_no_object(f"{source.path}, element {position} of the list", record)
                yield flatten(record)
        except UnreadableFile:
            raise
        except (ValueError, RecursionError) as error:
            raise UnreadableFile(
                f"{source.path}, element {position + 1} of the list: not valid JSON ({error}). Check that it "
                "was saved whole."
            ) from error


def _refuse_no_object(place: str, found: object) -> UnreadableFile:
    return UnreadableFile(
        f'{place}: found {show_cell(found)}; expected an object with named values, such as {{"a": 1}}.'
    )


LARGEST_OBJECT = 2**28  # characters
DEEPEST_OBJECT = 12  # objects inside objects that become columns; what is deeper stays text
_DEEPEST_LIST = 3  # objects around the list that holds the rows
NAME = "name"
PLACES = ("longitude", "latitude")

Record = dict[str, Any]
Decode = Callable[[str], Any]


class Rows(NamedTuple):
    """The rows of a file that is one object, and how they were found."""

    rows: list[Record]
    how: Notice


def read_object(source: ByteSource, encoding: str, n_lines: int, decode: Decode) -> Rows | None:
    """Return the rows of a file that is one JSON object; None where it is none, or a single row.

    JSON lines begin with an object too: where the first line holds a whole one and others follow, it is one
    of many.
    """
    with source.open() as stream:
        text = io.TextIOWrapper(stream, encoding=encoding, errors="replace")
        first = next((line for line in text if line.strip()), "")
    if _decode(first, decode) is not None and n_lines > 1:
        return None
    with source.open() as stream:
        whole = io.TextIOWrapper(stream, encoding=encoding, errors="replace").read(LARGEST_OBJECT + 1)
    value = _decode(whole, decode) if len(whole) <= LARGEST_OBJECT else None
    return _find_rows(value, str(source.path)) if isinstance(value, dict) else None


def _decode(text: str, decode: Decode) -> Any:
    try:
        return decode(text)
    except (ValueError, RecursionError):
        return None


def _find_rows(value: Record, place: str) -> Rows | None:
    if value.get("type") == "FeatureCollection" and isinstance(value.get("features"), list):
        return Rows([_read_feature(each, place) for each in value["features"]], Notice("features_are_rows"))
    lists = dict(_find_lists_of_objects(value))
    if len(lists) > 1:
        named = ", ".join(f"{name!r} ({len(rows):,})" for name, rows in list(lists.items())[:5])
        raise UnreadableFile(
            f"{place} holds several lists of objects: {named}; expected one table. Save one of them as a "
            "file."
        )
    if lists:
        ((name, rows),) = lists.items()
        return Rows(_flatten_rows(rows, place), Notice("rows_of_list", {"n": len(rows), "list": name}))
    if _are_columns(value):
        return Rows(_read_columns_of_object(value), Notice("names_hold_columns"))
    if _are_records(value):
        keyed = [{NAME: name, **record} for name, record in value.items()]
        return Rows(_flatten_rows(keyed, place), Notice("names_hold_rows", {"column": NAME}))
    return None


def _flatten_rows(rows: list[Record], place: str) -> list[Record]:
    try:
        return [flatten(row) for row in rows]
    except ValueError as error:
        raise UnreadableFile(f"{place}: {error}. Give each value a name of its own.") from error


def _find_lists_of_objects(
    value: Mapping[str, Any], before: str = "", depth: int = 1
) -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if isinstance(inner, list) and inner and all(isinstance(each, dict) for each in inner):
            yield f"{before}{name}", inner
        elif isinstance(inner, dict) and depth < _DEEPEST_LIST:
            yield from _find_lists_of_objects(inner, f"{before}{name}.", depth + 1)


def _are_columns(value: Record) -> bool:
    lengths = {len(column) if isinstance(column, list) else -1 for column in value.values()}
    return len(lengths) == 1 and lengths.pop() > 1


def _are_records(value: Record) -> bool:
    """Whether each name holds an object with the same names inside."""
    inside = [tuple(record) if isinstance(record, dict) else () for record in value.values()]
    return len(inside) > 1 and bool(inside[0]) and len(set(inside)) == 1 and NAME not in inside[0]


def _read_columns_of_object(value: Record) -> list[Record]:
    return [dict(zip(value, cells, strict=True)) for cells in zip(*value.values(), strict=True)]


def flatten(record: Mapping[str, Any], before: str = "", depth: int = 1) -> Record:
    """Return a record whose objects inside are columns of their own.

    Examples
    --------
    >>> flatten({"id": 7, "place": {"city": "Oslo", "at": {"x": 1}}, "tags": ["a"]})
    {'id': 7, 'place.city': 'Oslo', 'place.at.x': 1, 'tags': ['a']}
    """
    found: Record = {}
    for name, value in record.items():
        is_object = isinstance(value, dict) and depth < DEEPEST_OBJECT
        inner = flatten(value, f"{before}{name}.", depth + 1) if is_object and value else {}
        for key, cell in (inner or {f"{before}{name}": None if value == {} else value}).items():
            if key in found:
                raise ValueError(f"the name {key!r} occurs more than once in an object")
            found[key] = cell
    return found


def _read_feature(value: Any, place: str) -> Record:
    """A feature of GeoJSON as a row: its properties, and where it is."""
    if not isinstance(value, dict) or not isinstance(value.get("properties") or {}, dict):
        raise UnreadableFile(
            f"{place}: a feature is not as GeoJSON has it; expected an object with properties."
        )
    (row,) = _flatten_rows([value.get("properties") or {}], place)
    geometry = value.get("geometry")
    if not isinstance(geometry, dict) or geometry.get("type") is None:
        return row
    shape = geometry["type"]
    if shape != "Point":
        row.setdefault("geometry", str(shape))
    middle = _find_middle(geometry.get("coordinates"))
    for name, coordinate in zip(PLACES, middle, strict=False):
        row[name if name not in row else f"geometry.{name}"] = coordinate
    return row


def _find_middle(coordinates: Any) -> list[float]:
    """The middle of the smallest and the largest longitude, and of the latitudes; nothing of no positions."""
    positions = list(_list_positions(coordinates))
    if not positions:
        return []
    return [(min(axis) + max(axis)) / 2 for axis in zip(*positions, strict=True)]


def _list_positions(coordinates: Any) -> Iterator[tuple[float, float]]:
    """Pairs of longitude and latitude, however deep the lists are that hold them."""
    waiting = [coordinates]
    while waiting:
        value = waiting.pop()
        if not isinstance(value, list) or not value:
            continue
        if all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in value):
            if len(value) > 1:
                yield float(value[0]), float(value[1])
        else:
            waiting.extend(value)


def decode_with(names: Callable[[list[tuple[str, Any]]], Record]) -> Decode:
    """A decoder of JSON that makes objects by a function of their pairs."""
    return lambda text: json.loads(text, object_pairs_hook=names)
