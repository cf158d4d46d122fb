"""`read_columns`: what each column of a table is, and its cells as numbers, dates or labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from tellwhy.core.errors import InvalidParameter
from tellwhy.data.columns.choosing import unknown_column
from tellwhy.data.columns.number_roles import role_of_numbers
from tellwhy.data.columns.reading import Outcome, Reading, Role, read_as, reread
from tellwhy.data.columns.text_roles import role_of_text
from tellwhy.data.columns.values import stored_kind
from tellwhy.data.columns.written.dates import WrittenDates
from tellwhy.data.table import TableLike, as_frame


@dataclass(frozen=True, eq=False)
class ReadColumns:
    """A table whose columns are typed, what each column is, and what to tell its owner.

    Attributes
    ----------
    frame
        The same rows and columns in the same order. Numbers are float64 or int64, dates datetime64, booleans
        bool (or pandas' boolean, where cells are missing), numbers that are codes a pandas category; all
        others as they were.
    roles
        What each column is.
    notices
        One sentence on each column that was not read as it stands.
    """

    frame: pd.DataFrame
    roles: dict[str, Role]
    notices: list[str]


@dataclass(frozen=True)
class _Asked:
    """The columns that their owner told the kind of."""

    kinds: Mapping[str, str]
    formats: Mapping[str, str] = field(default_factory=dict)


def read_columns(
    frame: TableLike,
    *,
    category: Sequence[str] = (),
    number: Sequence[str] = (),
    date: Sequence[str] = (),
    text: Sequence[str] = (),
    roles: Mapping[str, Role] | None = None,
) -> ReadColumns:
    """Read the columns of a table as people write them, and say how each was read.

    Money, percentages, measurements, thousands, dates, times and yes/no written as text become numbers, dates
    and booleans where nine in ten filled cells agree on one way of writing; the other cells become missing,
    and their number is told. Whole numbers that name things (status, postal code) become categories.

    Parameters
    ----------
    frame
        A table in memory, of any kind that `as_table` reads; it is not changed.
    category, number, date, text
        Columns that are to be read so, whatever they look like. A date may be 'COLUMN=FORMAT', with a format
        of `strptime`.
    roles
        Roles of a table read before: columns of the same name are read alike.

    Examples
    --------
    >>> orders = pd.DataFrame({"price": ["$1,299.00", "$5", "-$7"], "status": [200, 404, 200]})
    >>> read = read_columns(orders)
    >>> read.frame["price"].tolist(), read.roles["price"].words
    ([1299.0, 5.0, -7.0], 'money in $')
    >>> read.notices[1]
    'status: HTTP status codes, used as categories.'
    """
    given = as_frame(frame)
    asked = _asked(given, {"category": category, "number": number, "date": date, "text": text})
    known = roles or {}
    found = {name: _read_one(given, name, asked, known.get(name)) for name in given.columns}
    found = _agreed_on_dates(given, found)
    typed = given.copy(deep=False)
    for name, outcome in found.items():
        if outcome.values is not None:
            typed[name] = outcome.values
    notices = [f"{name}: {outcome.notice}" for name, outcome in found.items() if outcome.notice]
    return ReadColumns(typed, {name: outcome.role for name, outcome in found.items()}, notices)


def _asked(frame: pd.DataFrame, given: Mapping[str, Sequence[str]]) -> _Asked:
    kinds: dict[str, str] = {}
    formats: dict[str, str] = {}
    for kind, entries in given.items():
        for entry in entries:
            parts = [entry] if entry in frame.columns else entry.rsplit("=", maxsplit=1)
            name = parts[0]
            if name not in frame.columns:
                raise unknown_column(name, list(frame.columns))
            if kinds.get(name, kind) != kind:
                raise InvalidParameter(f"Column {name!r} cannot be both {kinds[name]} and {kind}; name one.")
            kinds[name] = kind
            if len(parts) == 2:
                formats[name] = parts[1]
    return _Asked(kinds, formats)


def _read_one(frame: pd.DataFrame, name: str, asked: _Asked, known: Role | None) -> Outcome:
    series = frame[name]
    if name in asked.kinds:
        return read_as(series, asked.kinds[name], asked.formats.get(name, ""))
    if series.isna().all():
        return Outcome(Role("empty", "no values"))
    if known is not None and known.kind != "empty":
        return reread(series, known)
    kind = stored_kind(series)
    if kind == "number":
        return role_of_numbers(series)
    if kind == "text":
        return role_of_text(series)
    return _role_of_typed(series, kind)


def _role_of_typed(series: pd.Series, kind: str) -> Outcome:
    """Return the role of a column whose type says what it is."""
    words = {"boolean": "yes or no", "date": "dates", "category": "categories"}[kind]
    if series.nunique(dropna=True) == 1:
        return Outcome(Role("constant", f"one value, {words}"))
    return Outcome(Role(kind, words))


def _agreed_on_dates(frame: pd.DataFrame, found: dict[str, Outcome]) -> dict[str, Outcome]:
    """Read dates that could be day or month first as the certain ones of the same table are."""
    readings = {n: o.role.reading for n, o in found.items() if isinstance(o.role.reading, WrittenDates)}
    certain = {
        reading.layout
        for reading in readings.values()
        if isinstance(reading, WrittenDates) and reading.is_certain and reading.layout.endswith("first")
    } & {"day first", "month first"}
    if len(certain) != 1:
        return found
    layout = certain.pop()
    for name, reading in readings.items():
        if isinstance(reading, WrittenDates) and not reading.is_certain:
            settled = replace(reading, layout=layout, is_certain=True)
            found[name] = reread(frame[name], Role("date", settled.words, settled))
    return found


__all__ = ["Outcome", "ReadColumns", "Reading", "Role", "read_columns"]
