"""What each column is for.

What a column of numbers is: quantities, points in time, codes, or names of rows.

What a column of text is: numbers, dates or yes and no in people's writing; labels, names, or sentences.

`read_columns`: what each column of a table is, and its cells as numbers, dates or labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.score import Floats
from tellwhy.data.columns.dates import WrittenDates, find_dates
from tellwhy.data.columns.kinds import CONSTANT, IDENTIFIER, judge_numbers, refuse_unknown_column
from tellwhy.data.columns.labels import EXACT, WrittenBooleans, find_booleans, keep_digits
from tellwhy.data.columns.names import (
    are_zero_led,
    names_a_kind,
    names_a_place,
    names_a_time,
    names_things,
    split_name,
)
from tellwhy.data.columns.numbers import WrittenNumbers, find_mixed_signs, find_numbers
from tellwhy.data.columns.reading import (
    ENOUGH,
    Outcome,
    Reading,
    Role,
    find_stored_kind,
    make_category,
    make_outcome,
    read_as,
    read_numbers_or_missing,
    read_typed,
    reread,
    sample_of,
    trim_text,
)
from tellwhy.data.columns.times import find_epoch, find_times
from tellwhy.data.table import TableLike, as_frame
from tellwhy.results.notice import Notice, say_all

MOST_KINDS = 100  # distinct numbers under a name such as status or type
_HTTP = {*range(100, 104), *range(200, 209), 226, *range(300, 309), *range(400, 452), *range(500, 512)}
_HTTP_NAMES = {"http", "status", "response", "code", "rc"}


def find_role_of_numbers(series: pd.Series) -> Outcome:
    """Find out what a column of numbers is; only codes and points in time change its cells."""
    name = str(series.name)
    values = read_numbers_or_missing(series)
    filled = values[np.isfinite(values)]
    if not len(filled):
        return Outcome(Role("number", "numbers"))
    return _find_long_names(series, values) or _find_role_of_quantities(series, name, filled)


def _find_role_of_quantities(series: pd.Series, name: str, filled: Floats) -> Outcome:
    verdict = judge_numbers(name, filled, keep_numbering=False)
    if verdict.reason == CONSTANT:
        return Outcome(Role("constant", "one number"))
    if verdict.kind == "boolean":
        return Outcome(Role("boolean", "0 or 1"))
    if names_a_time(name) and (reading := find_epoch(filled)) is not None:
        return make_outcome(series, reading, read_typed(series, reading))
    if verdict.reason == IDENTIFIER:
        return Outcome(Role("identifier", "a number of its own for every row"))
    return _find_codes(series, name, filled) or Outcome(Role("number", _describe_number(name, filled)))


def _find_long_names(series: pd.Series, values: Floats) -> Outcome | None:
    """Return whole numbers of so many digits that some are equal as floats as what they are: names."""
    if not pd.api.types.is_integer_dtype(series.dtype):
        return None
    filled = series[np.abs(values) > EXACT]
    n_distinct = filled.nunique()
    if n_distinct == len(np.unique(values[np.abs(values) > EXACT])):
        return None
    if 2 * n_distinct > len(filled):
        return Outcome(Role("identifier", "numbers that name things"))
    role = Role("category", "numbers that name things")
    return Outcome(role, make_category(series), Notice("used_as_categories", {"as": role.words}))


def _find_codes(series: pd.Series, name: str, filled: Floats) -> Outcome | None:
    """Return whole numbers that name things as categories; None for numbers that measure or count."""
    is_kind = names_a_kind(name)
    if not (is_kind or names_a_place(name) or names_things(name)) or not _are_whole(filled):
        return None
    distinct = np.unique(filled)
    is_measured = (filled < 0).mean() > 1 - ENOUGH  # a few may stand for 'unknown'
    if is_measured or (is_kind and len(distinct) > MOST_KINDS):
        return None
    if 2 * len(distinct) > len(filled) and len(filled) >= 10:
        return None if is_kind else Outcome(Role("identifier", "numbers that name things"))
    role = Role("category", _describe_codes(name, distinct))
    return Outcome(role, make_category(series), Notice("used_as_categories", {"as": role.words}))


def _are_whole(filled: Floats) -> bool:
    # A glance at the first cells tells most measurements apart.
    return bool((filled[:100] == np.round(filled[:100])).all() and (filled == np.round(filled)).all())


def _describe_codes(name: str, distinct: Floats) -> str:
    if names_a_place(name):
        return "postal codes"
    if not _HTTP_NAMES.isdisjoint(split_name(name)) and all(int(code) in _HTTP for code in distinct):
        return "HTTP status codes"
    return "numbers that name things" if names_things(name) else "codes"


def _describe_number(name: str, filled: Floats) -> str:
    if not _are_whole(filled):
        return "numbers"
    if split_name(name)[-1:] in (["year"], ["jahr"]) and filled.min() >= 1500 and filled.max() <= 2200:
        return "years"
    return "whole numbers"


MAX_CATEGORIES = 50
_WHOLE = re.compile(r"^\d{1,4}$")
_PLAIN = re.compile(r"^-?\d+(\.\d+)?$")
_LETTERS = re.compile(r"^[A-Za-z]{1,2}$")
_SENTENCE = 3  # words from which a text of its own in every row is one that was written, not a name


def find_role_of_text(series: pd.Series) -> Outcome:
    """Find out what a column of text is, and read it."""
    cells = trim_text(series)
    probe = sample_of(cells)
    if probe and (outcome := _read(series, cells, probe)) is not None:
        return outcome
    role = _find_role_of_labels(cells, probe, str(series.name))
    if role.kind in ("constant", "identifier") or not (signs := find_mixed_signs(probe)):
        return Outcome(role)
    words = f"amounts in {', '.join(signs[:3])}{' …' if len(signs) > 3 else ''}"
    notice = Notice("mixed_signs", {"as": words, "kind": role.kind})
    return Outcome(Role(role.kind, words), notice=notice)


def _find_role_of_labels(cells: pa.Array, probe: Sequence[str], name: str) -> Role:
    """Tell categories, names of rows and sentences apart, by the same counts as an encoder does."""
    n_filled = len(cells) - cells.null_count
    n_distinct = pc.count_distinct(cells).as_py()
    if n_distinct <= 1:
        return (
            Role("constant", "one value") if n_filled == len(cells) else Role("category", "one label or none")
        )
    is_own = n_distinct == n_filled
    if are_zero_led(probe, name) or (_are_digits(probe) and keep_digits(cells, name)):
        words = "postal codes" if names_a_place(name) else "codes"
        return Role("category", words) if 2 * n_distinct <= n_filled else Role("identifier", words)
    if is_own or (n_distinct > MAX_CATEGORIES and 2 * n_distinct > n_filled):
        if np.mean([find_numbers([cell]) is not None for cell in probe]) >= 0.5:
            return Role("text", "numbers mixed with text")
        is_written = np.mean([len(cell.split()) for cell in probe]) >= _SENTENCE
        return Role("text", "short text") if is_written or not is_own else Role("identifier", "names of rows")
    return Role("category", "categories")


def _are_digits(probe: Sequence[str]) -> bool:
    return sum(cell.isdigit() for cell in probe) >= ENOUGH * len(probe)


def _read(series: pd.Series, cells: pa.Array, probe: Sequence[str]) -> Outcome | None:
    """Return the column read in the one way that nine in ten of its cells agree on, or None."""
    reading = find_reading(probe, str(series.name))
    if reading is None:
        return None
    read = read_typed(series, reading, cells)
    n_filled = len(cells) - cells.null_count
    # A third word beside yes and no is a label of its own, not a mistake.
    allowed = 0.01 if isinstance(reading, WrittenBooleans) else 1 - ENOUGH
    if read.is_bad.sum() > allowed * n_filled:
        return None
    outcome = make_outcome(series, reading, read)
    is_plain = isinstance(reading, WrittenNumbers) and reading.is_plain
    if is_plain and not names_a_time(str(series.name)) and keep_digits(cells, str(series.name)):
        return None  # names of things: as numbers, some would be equal that are not
    return _ask_numbers(outcome, str(series.name)) if is_plain else outcome


def _ask_numbers(read: Outcome, name: str) -> Outcome:
    """Ask of plain numbers in text what is asked of numbers: they may be codes, flags or points in time."""
    found = find_role_of_numbers(read.values.rename(name))
    if found.role.kind == "number":
        return read
    values = read.values if found.values is None else found.values
    return Outcome(found.role, values, found.notice or read.notice)


def find_reading(probe: Sequence[str], name: str) -> Reading | None:
    """Return the way in which nine in ten of some cells are written, or None for words."""
    if (booleans := find_booleans(probe)) is not None:
        return booleans
    # Most text shows in its first cells that it is neither number nor date.
    if sum(any(sign.isdigit() for sign in cell) for cell in probe) < ENOUGH * len(probe):
        return None
    if are_zero_led(probe, name) or _mixes_codes(probe):
        return None
    if sum(_PLAIN.match(cell) is not None for cell in probe) >= ENOUGH * len(probe):
        return find_numbers(probe)  # no date is written so: the question would cost more than the answer
    is_time = names_a_time(name)
    return find_dates(probe, name_is_date=is_time) or find_times(probe) or find_numbers(probe)


def _mixes_codes(probe: Sequence[str]) -> bool:
    """Tell whether small whole numbers stand beside a few labels that recur, as chromosomes 1 … 22, X, Y."""
    others = {cell for cell in probe if _LETTERS.match(cell)}
    numbers = set(probe).difference(others)
    recurs = others and all(probe.count(cell) > 1 for cell in others)
    return bool(recurs) and len(numbers) <= MAX_CATEGORIES and all(_WHOLE.match(cell) for cell in numbers)


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
    said
        How each column was read that was not read as it stands; `notices` are its sentences.
    """

    frame: pd.DataFrame
    roles: dict[str, Role]
    said: list[Notice]

    @property
    def notices(self) -> list[str]:
        """One sentence on each column that was not read as it stands."""
        return say_all(self.said)


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
    asked = _collect_asked(given, {"category": category, "number": number, "date": date, "text": text})
    known = roles or {}
    found = {name: _read_one(given, name, asked, known.get(name)) for name in given.columns}
    found = _agree_on_dates(given, found)
    typed = given.copy(deep=False)
    for name, outcome in found.items():
        if outcome.values is not None:
            typed[name] = outcome.values
    said = [each.notice.beside(column=name) for name, each in found.items() if each.notice is not None]
    return ReadColumns(typed, {name: outcome.role for name, outcome in found.items()}, said)


def _collect_asked(frame: pd.DataFrame, given: Mapping[str, Sequence[str]]) -> _Asked:
    kinds: dict[str, str] = {}
    formats: dict[str, str] = {}
    for kind, entries in given.items():
        for entry in entries:
            parts = [entry] if entry in frame.columns else entry.rsplit("=", maxsplit=1)
            name = parts[0]
            if name not in frame.columns:
                raise refuse_unknown_column(name, list(frame.columns))
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
    kind = find_stored_kind(series)
    if kind == "number":
        return find_role_of_numbers(series)
    if kind == "text":
        return find_role_of_text(series)
    return _find_role_of_typed(series, kind)


def _find_role_of_typed(series: pd.Series, kind: str) -> Outcome:
    """Return the role of a column whose type says what it is."""
    words = {"boolean": "yes or no", "date": "dates", "category": "categories"}[kind]
    if series.nunique(dropna=True) == 1:
        return Outcome(Role("constant", f"one value, {words}"))
    return Outcome(Role(kind, words))


def _agree_on_dates(frame: pd.DataFrame, found: dict[str, Outcome]) -> dict[str, Outcome]:
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
