"""What is asked to be seen of the rows of a result, and its conditions as DuckDB takes them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from tellwhy.core.errors import InvalidParameter

LIKELY = 0.5  # probability from which on a cell is rather wrong than right
PAGE = 50  # rows that are listed at once
MOST_PAGE = 500
SHOWN = ("alarms", "undecided", "benign", "confirmed", "explained", "all")


@dataclass(frozen=True)
class View:
    """What is asked to be seen of the rows; a query of an address holds it.

    Attributes
    ----------
    show
        Which rows: alarms, the undecided among them, benign ones, confirmed ones, all explained ones, all.
    search
        Words that the name, the reasons or a cell of a row hold.
    main
        Column that is the first reason.
    cause
        Number of a cause; 0: any.
    where
        A condition on a column, as "age > 40", "city = Oslo", "city ~ osl", or "age =" for missing cells.
    sort
        "rank", "row", "score", "p", "name" or a column of the table; with a minus, downwards.
    page, size
        Which page, from 1, of how many rows.
    group
        Whether rows with one cause are one line.
    columns
        Columns of the table that are listed beside the reasons.
    """

    show: str = "alarms"
    search: str = ""
    main: str = ""
    cause: int = 0
    where: str = ""
    sort: str = "rank"
    page: int = 1
    size: int = PAGE
    group: bool = False
    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, query: Mapping[str, str]) -> View:
        """Read a view from the query of an address; what is not there is as usual.

        Examples
        --------
        >>> View.of({"show": "all", "sort": "-score", "page": "2"})
        View(show='all', search='', main='', cause=0, where='', sort='-score', page=2, size=50, ...)
        """
        show = query.get("show") or "alarms"
        if show not in SHOWN:
            raise InvalidParameter(f"show must be one of {', '.join(SHOWN)}. Got {show!r}.")
        return cls(
            show=show,
            search=query.get("search", "").strip()[:200],
            main=query.get("main", ""),
            cause=_whole(query, "cause", 0, 10**9, usual=0),
            where=query.get("where", "").strip()[:300],
            sort=query.get("sort") or "rank",
            page=_whole(query, "page", 1, 10**9, usual=1),
            size=_whole(query, "size", 1, MOST_PAGE, usual=PAGE),
            group=query.get("group", "") in ("1", "on", "true"),
            columns=tuple(name for name in query.get("columns", "").split("\t") if name),
        )

    @classmethod
    def parse(cls, text: str) -> View:
        """Read a view from a query as a person writes it.

        Examples
        --------
        >>> View.parse("show=all&where=price > 100").where
        'price > 100'
        """
        return cls.of(dict(parse_qsl(text, keep_blank_values=True)))

    def query(self) -> str:
        """The view as a query, without what is as usual."""
        usual = View()
        told = {name: getattr(self, name) for name in self.__dataclass_fields__}
        changed = {name: value for name, value in told.items() if value != getattr(usual, name)}
        if self.columns:
            changed["columns"] = "\t".join(self.columns)
        if self.group:
            changed["group"] = 1
        return urlencode(changed)


def _whole(query: Mapping[str, str], name: str, low: int, high: int, *, usual: int) -> int:
    text = query.get(name) or str(usual)
    if not text.isdigit() or not low <= int(text) <= high:
        raise InvalidParameter(f"{name} must be a whole number from {low} to {high:,}. Got {text[:40]!r}.")
    return int(text)


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
