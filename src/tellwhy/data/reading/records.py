"""Rows that come one by one as Python values (JSON, Excel), gathered into typed columns."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

from tellwhy.data.reading.arrow_frames import frame_from_arrow
from tellwhy.data.reading.text_cells import MISSING_WORDS


def frame_from_records(records: Iterable[Mapping[str, object]]) -> pd.DataFrame:
    """Return one column per name, in order of first appearance; absent values are missing.

    A column is numbers, booleans or dates when all its values are; any mixture is kept as text.
    """
    columns: dict[str, list[Any]] = {}
    n_rows = 0
    for record in records:
        for name, value in record.items():
            column = columns.setdefault(str(name), [])
            column.extend([None] * (n_rows - len(column)))  # rows before that lacked the name
            column.append(_plain(value))
        n_rows += 1
    arrays = {}
    for name in list(columns):
        column = columns.pop(name)  # Python's values are let go column by column: they take most memory
        arrays[name] = _typed([*column, *[None] * (n_rows - len(column))])
    return frame_from_arrow(pa.table(arrays))


def _plain(value: object) -> object:
    if isinstance(value, str):
        trimmed = value.strip()
        return None if trimmed.lower() in MISSING_WORDS else trimmed
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return datetime.datetime(value.year, value.month, value.day)  # one type for days and times
    return value


def _typed(values: list[Any]) -> pa.Array:
    # Types are compared, not asked for by isinstance: True is also an int.
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int} and all(v is None or -(2**63) <= v < 2**63 for v in values):
        return pa.array(values, pa.int64())
    if kinds <= {int, float}:
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds == {datetime.datetime}:
        return pa.array(values, pa.timestamp("us"))
    return pa.array([None if v is None else str(v) for v in values], pa.string())
