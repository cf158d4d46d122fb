"""JSON that is one object: places of GeoJSON, a list of objects somewhere inside, columns by their names."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tellwhy.core.errors import UnreadableFile
from tellwhy.data.reading.bytes import ByteSource

LARGEST_OBJECT = 2**28  # characters
DEEPEST = 12  # objects inside objects that become columns; what is deeper stays text
_DEEPEST_LIST = 3  # objects around the list that holds the rows
NAME = "name"
PLACES = ("longitude", "latitude")

Record = dict[str, Any]
Decode = Callable[[str], Any]


class Rows(NamedTuple):
    """The rows of a file that is one object, and how they were found, in words."""

    rows: list[Record]
    notice: str


def read_object(source: ByteSource, encoding: str, n_lines: int, decode: Decode) -> Rows | None:
    """Return the rows of a file that is one JSON object; None where it is none, or a single row.

    JSON lines begin with an object too: where the first line holds a whole one and others follow, it is one
    of many.
    """
    with source.open() as stream:
        text = io.TextIOWrapper(stream, encoding=encoding, errors="replace")
        first = next((line for line in text if line.strip()), "")
    if _decoded(first, decode) is not None and n_lines > 1:
        return None
    with source.open() as stream:
        whole = io.TextIOWrapper(stream, encoding=encoding, errors="replace").read(LARGEST_OBJECT + 1)
    value = _decoded(whole, decode) if len(whole) <= LARGEST_OBJECT else None
    return _rows_of(value, str(source.path)) if isinstance(value, dict) else None


def _decoded(text: str, decode: Decode) -> Any:
    try:
        return decode(text)
    except (ValueError, RecursionError):
        return None


def _rows_of(value: Record, place: str) -> Rows | None:
    if value.get("type") == "FeatureCollection" and isinstance(value.get("features"), list):
        told = "longitude and latitude are those of its point, or of the middle of its shape."
        return Rows([_feature(each, place) for each in value["features"]], f"Each feature is a row; {told}")
    lists = dict(_lists_of_objects(value))
    if len(lists) > 1:
        named = ", ".join(f"{name!r} ({len(rows):,})" for name, rows in list(lists.items())[:5])
        raise UnreadableFile(
            f"{place} holds several lists of objects: {named}; expected one table. Save one of them as a "
            "file."
        )
    if lists:
        ((name, rows),) = lists.items()
        return Rows(_flat_rows(rows, place), f"The rows are the {len(rows):,} objects of the list {name!r}.")
    if _are_columns(value):
        return Rows(_from_columns(value), "Each name holds a column.")
    if _are_records(value):
        keyed = [{NAME: name, **record} for name, record in value.items()]
        return Rows(_flat_rows(keyed, place), f"Each name holds a row; the names are the column {NAME!r}.")
    return None


def _flat_rows(rows: list[Record], place: str) -> list[Record]:
    try:
        return [flat(row) for row in rows]
    except ValueError as error:
        raise UnreadableFile(f"{place}: {error}. Give each value a name of its own.") from error


def _lists_of_objects(
    value: Mapping[str, Any], before: str = "", depth: int = 1
) -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if isinstance(inner, list) and inner and all(isinstance(each, dict) for each in inner):
            yield f"{before}{name}", inner
        elif isinstance(inner, dict) and depth < _DEEPEST_LIST:
            yield from _lists_of_objects(inner, f"{before}{name}.", depth + 1)


def _are_columns(value: Record) -> bool:
    lengths = {len(column) if isinstance(column, list) else -1 for column in value.values()}
    return len(lengths) == 1 and lengths.pop() > 1


def _are_records(value: Record) -> bool:
    """Whether each name holds an object with the same names inside."""
    inside = [tuple(record) if isinstance(record, dict) else () for record in value.values()]
    return len(inside) > 1 and bool(inside[0]) and len(set(inside)) == 1 and NAME not in inside[0]


def _from_columns(value: Record) -> list[Record]:
    return [dict(zip(value, cells, strict=True)) for cells in zip(*value.values(), strict=True)]


def flat(record: Mapping[str, Any], before: str = "", depth: int = 1) -> Record:
    """Return a record whose objects inside are columns of their own.

    Examples
    --------
    >>> flat({"id": 7, "place": {"city": "Oslo", "at": {"x": 1}}, "tags": ["a"]})
    {'id': 7, 'place.city': 'Oslo', 'place.at.x': 1, 'tags': ['a']}
    """
    found: Record = {}
    for name, value in record.items():
        is_object = isinstance(value, dict) and depth < DEEPEST
        inner = flat(value, f"{before}{name}.", depth + 1) if is_object and value else {}
        for key, cell in (inner or {f"{before}{name}": None if value == {} else value}).items():
            if key in found:
                raise ValueError(f"the name {key!r} occurs more than once in an object")
            found[key] = cell
    return found


def _feature(value: Any, place: str) -> Record:
    """A feature of GeoJSON as a row: its properties, and where it is."""
    if not isinstance(value, dict) or not isinstance(value.get("properties") or {}, dict):
        raise UnreadableFile(
            f"{place}: a feature is not as GeoJSON has it; expected an object with properties."
        )
    (row,) = _flat_rows([value.get("properties") or {}], place)
    geometry = value.get("geometry")
    if not isinstance(geometry, dict) or geometry.get("type") is None:
        return row
    shape = geometry["type"]
    if shape != "Point":
        row.setdefault("geometry", str(shape))
    middle = _middle(geometry.get("coordinates"))
    for name, coordinate in zip(PLACES, middle, strict=False):
        row[name if name not in row else f"geometry.{name}"] = coordinate
    return row


def _middle(coordinates: Any) -> list[float]:
    """The middle of the smallest and the largest longitude, and of the latitudes; nothing of no positions."""
    positions = list(_positions(coordinates))
    if not positions:
        return []
    return [(min(axis) + max(axis)) / 2 for axis in zip(*positions, strict=True)]


def _positions(coordinates: Any) -> Iterator[tuple[float, float]]:
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
