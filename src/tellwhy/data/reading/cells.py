"""Text to typed cells; records to columns.

Cells that came as text: missing ones, stray spaces, numbers written for people (1.234,5 or 1,234.5).

Rows that come one by one as Python values (JSON, Excel), gathered into typed columns.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tellwhy.core.errors import UnreadableFile
from tellwhy.data.columns.labels import keep_digits
from tellwhy.data.reading.arrow_frames import frame_from_arrow
from tellwhy.data.reading.bytes import LARGEST_UNPACKED
from tellwhy.results.notice import Notice

MISSING_WORDS = ("", "na", "n/a", "nan", "null", "none", "-", "?")
"""Cells that count as missing, in any letter case and with spaces around them."""

_PROBE = 200
_SPACES = (" ", "\u00a0", "\u202f", "'", "’")


def list_missing_spellings() -> list[str]:
    """Return every spelling of the missing words, for readers that compare letter by letter.

    Examples
    --------
    >>> "N/a" in list_missing_spellings(), "nil" in list_missing_spellings()
    (True, False)
    """
    spelled = []
    for word in MISSING_WORDS:
        spelled += ["".join(letters) for letters in product(*({c.lower(), c.upper()} for c in word))]
    return sorted(spelled)


def blank_missing(table: pa.Table) -> pa.Table:
    """Trim the cells of text columns, and make those missing that hold a missing word."""
    columns = [_blank_cells(c) if pa.types.is_string(c.type) else c for c in table.columns]
    return pa.table(columns, names=table.column_names)


def _blank_cells(column: pa.ChunkedArray) -> pa.ChunkedArray:
    trimmed = pc.utf8_trim_whitespace(column)
    is_missing = pc.is_in(pc.utf8_lower(trimmed), value_set=pa.array(MISSING_WORDS))
    return pc.if_else(is_missing, None, trimmed)


def separate_encodings(table: pa.Table, codec: str) -> tuple[pa.Table, list[Notice]]:
    """Read the cells and names as UTF-8 that are, in text that as a whole is not; return also notices.

    Such files are made by joining others. Words of another encoding are next to never valid UTF-8 by chance:
    'Ã¨' would have to be meant.
    """
    columns = []
    read: dict[str, str] = {}
    n_read = 0
    for column in table.columns:
        found, n_cells = (
            _separate_cells(column, codec, read) if pa.types.is_string(column.type) else (column, 0)
        )
        columns.append(found)
        n_read += n_cells
    names = [read_as_utf8(name, codec) or name for name in table.column_names]
    if not read and names == table.column_names:
        return table, []
    examples = [*read.values(), *(name for name in names if name not in table.column_names)]
    said = Notice("mixed_encodings", {"n": n_read, "example": examples[0]})
    return pa.table(columns, names=names), [said]


def _separate_cells(column: pa.ChunkedArray, codec: str, read: dict[str, str]) -> tuple[pa.ChunkedArray, int]:
    """The column with the cells read as UTF-8 that are, and their number; `read` gets what was read."""
    is_plain = pc.fill_null(pc.string_is_ascii(column), True)
    odd = pc.unique(column.filter(pc.invert(is_plain))).to_pylist()
    known = {text: meant for text in odd if (meant := read_as_utf8(text, codec)) is not None}
    if not known:
        return column, 0
    read.update(known)
    place = pc.index_in(column, value_set=pa.array(known))
    meant = pc.take(pa.array(known.values()), place)
    return pc.coalesce(meant, column), len(column) - place.null_count


def read_as_utf8(text: str, codec: str) -> str | None:
    """Read what was read by another codec as UTF-8; None where it is plain or cannot be."""
    if text.isascii():
        return None
    try:
        return text.encode(codec).decode("utf-8")
    except UnicodeError:
        return None


def read_numbers(table: pa.Table, *, decimal: str, is_sure: bool) -> tuple[pa.Table, list[Notice]]:
    """Read the text columns that hold only numbers, but codes of digits; return the table and notices.

    A separator of thousands is believed only when it cannot be a decimal sign: it occurs twice in a number,
    beside a decimal sign, or the file's decimal sign is known (`is_sure`) to be the other one.
    """
    said: list[Notice] = []
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        read = column
        if pa.types.is_string(column.type) and not keep_digits(column, name):
            plain = _read_numbers(column, decimal)
            written = None if plain is not None else _find_written_numbers(column, decimal, is_sure)
            if written is not None:
                said.append(Notice("numbers_for_people", {"column": name, "example": written.example}))
                plain = written.numbers
            read = column if plain is None else plain
        columns.append(read)
    return pa.table(columns, names=table.column_names), said


def _read_numbers(column: pa.ChunkedArray, decimal: str) -> pa.ChunkedArray | None:
    # Where commas are decimal signs, a point separates thousands: 1.234 is no 1.234.
    has_points = decimal != "." and pc.any(pc.match_substring(column, ".")).as_py()
    for kind in (pa.int64(),) if has_points else (pa.int64(), pa.float64()):
        try:
            column.slice(0, _PROBE).cast(kind)  # most text fails here, before a million cells are cast
            return column.cast(kind)
        except pa.ArrowInvalid:
            continue
    return None


@dataclass(frozen=True)
class _Written:
    """Numbers read from how people write them, and one of them before and after: '1.234,5 is 1234.5'."""

    numbers: pa.ChunkedArray
    example: str


def _find_written_numbers(column: pa.ChunkedArray, decimal: str, is_sure: bool) -> _Written | None:
    other = "," if decimal == "." else "."
    for mark, group in [(decimal, other), (other, decimal), *((decimal, space) for space in _SPACES)]:
        believes = group in _SPACES or (is_sure and mark == decimal)
        if not _read_all_written(column, mark, group, believes):
            continue
        plain = pc.replace_substring(pc.replace_substring(column, group, ""), mark, ".")
        before = pc.drop_null(column)[0].as_py()
        after = pc.drop_null(plain)[0].as_py()
        return _Written(plain.cast(pa.float64()), f"{before} is {after}")
    return None


def _read_all_written(column: pa.ChunkedArray, mark: str, group: str, believes: bool) -> bool:
    m = re.escape(mark)
    g = re.escape(group)
    accepted = rf"^[+-]?(\d{{1,3}}({g}\d{{3}})+|\d+)({m}\d+)?([eE][+-]?\d+)?$"
    # Beyond doubt: two groups, a group and a decimal sign, other than three digits after a decimal sign.
    proof = rf"{g}\d{{3}}{g}|{g}\d{{3}}{m}\d|{m}(\d{{1,2}}|\d{{4,}})$|^[+-]?0{m}\d"
    if believes:
        proof = rf"{proof}|^[+-]?[1-9]\d{{0,2}}{g}\d{{3}}"
    values = pc.drop_null(column)
    probe = values.slice(0, _PROBE)
    if len(probe) == 0 or not pc.all(pc.match_substring_regex(probe, accepted)).as_py():
        return False
    is_accepted = pc.all(pc.match_substring_regex(values, accepted)).as_py()
    return bool(is_accepted and pc.any(pc.match_substring_regex(values, proof)).as_py())


MOST_CELLS = LARGEST_UNPACKED // 8


def make_frame(records: Iterable[Mapping[str, object]], place: str = "The table") -> pd.DataFrame:
    """Return one column per name, in order of first appearance; absent values are missing.

    A column is numbers, booleans or dates when all its values are; any mixture is kept as text. `place` is
    how messages call the file.
    """
    columns: dict[str, list[Any]] = {}
    firsts: dict[str, int] = {}  # row in which a name first occurs
    n_rows = 0
    for record in records:
        if len(columns) * n_rows > MOST_CELLS:
            raise UnreadableFile(
                f"{place} has {len(columns):,} names of values in its first {n_rows:,} rows: a table of "
                f"more than {MOST_CELLS:,} cells, most of them empty. Use fewer names."
            )
        for name, value in record.items():
            column = columns.get(name)
            if column is None:
                column = columns.setdefault(name, [])
                firsts[name] = n_rows
            if len(column) < n_rows:  # rows before lacked the name; those before its first are not held
                column.extend([None] * (n_rows - firsts[name] - len(column)))
            # Most cells are numbers, which need no closer look.
            column.append(value if type(value) is float or type(value) is int else _make_plain(value))
        n_rows += 1
    arrays = {}
    for name in list(columns):
        column = columns.pop(name)  # Python's values are let go column by column: they take most memory
        before = [None] * firsts[name]
        arrays[_write_whole(name)] = _make_typed(
            [*before, *column, *[None] * (n_rows - len(before) - len(column))]
        )
    return frame_from_arrow(pa.table(arrays))


def _make_plain(value: object) -> object:
    if isinstance(value, str):
        trimmed = value.strip()
        return None if trimmed.lower() in MISSING_WORDS else trimmed
    if isinstance(value, (dict, list)):
        return write_nested(value)
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return datetime.datetime(value.year, value.month, value.day)  # one type for days and times
    return value


def write_nested(value: object) -> str:
    """Return a nested value as text."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError as error:
        raise UnreadableFile("A value is nested too deeply to be read. Flatten it first.") from error


def _make_typed(values: list[Any]) -> pa.Array:
    # Types are compared, not asked for by isinstance: True is also an int.
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} and not _would_be_equal(values):
        if kinds == {int} and all(v is None or -(2**63) <= v < 2**63 for v in values):
            return pa.array(values, pa.int64())
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds == {datetime.datetime}:
        return pa.array(values, pa.timestamp("us"))
    if kinds == {datetime.timedelta}:
        return pa.array(values, pa.duration("us"))
    return make_text([None if v is None else str(v) for v in values])


def _would_be_equal(values: list[Any]) -> bool:
    """Tell whether whole numbers that no integer of a table holds differ, and would not as floats."""
    long = {v for v in values if type(v) is int and not -(2**63) <= v < 2**63}
    try:
        return len({float(v) for v in long}) < len(long)
    except OverflowError:  # more digits than any float has
        return True


def make_text(cells: list[str | None]) -> pa.Array:
    """Return text; half of a character, which no file can hold, is written out in its code."""
    try:
        return pa.array(cells, pa.string())
    except UnicodeEncodeError:
        return pa.array([None if cell is None else _write_whole(cell) for cell in cells], pa.string())


def _write_whole(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
