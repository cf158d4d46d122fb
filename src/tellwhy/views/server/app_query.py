"""Tests of rows as DuckDB takes them: a condition on a column, and a text that is searched for."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tellwhy.core.errors import InvalidParameter

SIGNS = {"=": "=", "!=": "<>", "<": "<", ">": ">", "<=": "<=", ">=": ">=", "~": "contains"}
_CONDITION = re.compile(r"\s*(?P<sign>!=|<=|>=|=|<|>|~)\s*(?P<value>.*?)\s*")
_DAY = re.compile(r"\d{4}-")
ROW = "row number of tellwhy"  # the column of cells that numbers rows from 0


def write_search(text: str, kinds: Mapping[str, str]) -> tuple[str, list[Any]]:
    """Where a text is looked for: in what is told of rows, and in their cells.

    A text holds it, a number equals it, a date begins with it: to write a million numbers as text would
    take seconds.
    """
    tests = ["contains(lower(concat_ws(' ', 'row ' || l.row, e.name, e.said)), lower(?))"]
    values: list[Any] = [text]
    for name, kind in kinds.items():
        column = f"c.{quote(name)}"
        if name == ROW or kind == "BOOLEAN":
            continue
        if kind == "VARCHAR":
            tests.append(f"contains(lower({column}), lower(?))")
            values.append(text)
        elif kind.startswith(("TIMESTAMP", "DATE")):
            if _DAY.match(text):
                tests.append(f"starts_with({column}::VARCHAR, ?)")
                values.append(text)
        elif _is_number(text):
            tests.append(f"{column} = ?")
            values.append(float(text))
    return f"({' OR '.join(tests)})", values


def write_condition(text: str, columns: Sequence[str]) -> tuple[str, list[Any]]:
    """A condition on a column as a test and its values."""
    # A column's name may hold a sign: the longest name that fits is meant.
    names = sorted((n for n in columns if text.startswith(n)), key=len, reverse=True)
    shape = _CONDITION.fullmatch(text[len(names[0]) :]) if names else None
    if shape is None:
        raise InvalidParameter(
            f"{text!r} is no condition on a column. Write one as: age > 40, city = Oslo, city ~ osl "
            "(holds it), or age = (is missing)."
        )
    column = f"c.{quote(names[0])}"
    sign = shape["sign"]
    value = shape["value"]
    if not value:
        return f"{column} IS {'NOT ' if sign == '!=' else ''}NULL", []
    if sign == "~":
        return f"contains(lower({column}::VARCHAR), lower(?))", [value]
    if _is_number(value):
        return f"try_cast({column} AS DOUBLE) {SIGNS[sign]} ?", [float(value)]
    return f"{column}::VARCHAR {SIGNS[sign]} ?", [value]


def quote(name: str) -> str:
    """A name as it stands in a query."""
    return '"' + name.replace('"', '""') + '"'


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
