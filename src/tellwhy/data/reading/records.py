"""Rows that come one by one as Python values (JSON, Excel), gathered into typed columns."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

from tellwhy.core.errors import UnreadableFile
from tellwhy.data.reading.arrow_frames import frame_from_arrow
from tellwhy.data.reading.byte_source import LARGEST_UNPACKED
from tellwhy.data.reading.text_cells import MISSING_WORDS

MOST_CELLS = LARGEST_UNPACKED // 8


def frame_from_records(records: Iterable[Mapping[str, object]], place: str = "The table") -> pd.DataFrame:
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
            column.append(value if type(value) is float or type(value) is int else _plain(value))
        n_rows += 1
    arrays = {}
    for name in list(columns):
        column = columns.pop(name)  # Python's values are let go column by column: they take most memory
        before = [None] * firsts[name]
        arrays[_whole(name)] = _typed([*before, *column, *[None] * (n_rows - len(before) - len(column))])
    return frame_from_arrow(pa.table(arrays))


def _plain(value: object) -> object:
    if isinstance(value, str):
        trimmed = value.strip()
        return None if trimmed.lower() in MISSING_WORDS else trimmed
    if isinstance(value, (dict, list)):
        return nested_words(value)
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return datetime.datetime(value.year, value.month, value.day)  # one type for days and times
    return value


def nested_words(value: object) -> str:
    """Return a nested value as text."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError as error:
        raise UnreadableFile("A value is nested too deeply to be read. Flatten it first.") from error


def _typed(values: list[Any]) -> pa.Array:
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
    return text_array([None if v is None else str(v) for v in values])


def _would_be_equal(values: list[Any]) -> bool:
    """Tell whether whole numbers that no integer of a table holds differ, and would not as floats."""
    long = {v for v in values if type(v) is int and not -(2**63) <= v < 2**63}
    try:
        return len({float(v) for v in long}) < len(long)
    except OverflowError:  # more digits than any float has
        return True


def text_array(cells: list[str | None]) -> pa.Array:
    """Return text; half of a character, which no file can hold, is written out in its code."""
    try:
        return pa.array(cells, pa.string())
    except UnicodeEncodeError:
        return pa.array([None if cell is None else _whole(cell) for cell in cells], pa.string())


def _whole(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
