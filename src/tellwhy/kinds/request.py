"""What the user asked of a table, and the rows and columns this means."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.params import (
    Fit,
    Rule,
    Rules,
    boolean,
    integer,
    none,
    one_of,
    real,
    seed,
    validate_parameters,
)
from tellwhy.core.score import Integers
from tellwhy.data import Table

_TEXT = Rule("text", lambda value: isinstance(value, str))
_TEXTS = Rule(
    "a list of column names", lambda v: not isinstance(v, str) and all(isinstance(c, str) for c in v)
)


@dataclass(frozen=True, kw_only=True)
class Request:
    """Settings of `explain_table`, checked once.

    Attributes
    ----------
    normal
        'COLUMN=VALUE': rows with that value are the reference; the column is no feature.
    id_column
        Column that names rows in the output; it is no feature.
    detector, method
        Names in the registry, or 'auto'.
    top
        How many rows to rank and explain at least.
    alarms, contamination, fdr
        Where alarms begin: a largest number of them, a share of the rows, or an expected share of false
        alarms among them; the last, at 10 %, by default.
    columns, exclude
        Columns to use, and columns not to.
    category, number, date, text
        Columns that are to be read so, whatever they look like; a date may be 'COLUMN=FORMAT'.
    by
        Columns whose values make segments: a row is compared with the rows that share them, from wide to
        narrow where there are several.
    label
        'COLUMN', 'COLUMN=VALUE' or 'COLUMN!=VALUE' (every other value) that marks true anomalies; it
        evaluates detection and is never a feature.
    missing
        'impute', 'drop' or 'error'.
    second_opinions
        Whether other methods explain the same rows, to see how far they agree: this may take longer than the
        explanation.
    random_state
        Seed of every draw.
    """

    normal: str | None = None
    id_column: str | None = None
    detector: str = "auto"
    method: str = "auto"
    top: int = 10
    alarms: int | None = None
    contamination: float | None = None
    fdr: float | None = None
    columns: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    category: Sequence[str] = ()
    number: Sequence[str] = ()
    date: Sequence[str] = ()
    text: Sequence[str] = ()
    by: Sequence[str] = ()
    label: str | None = None
    missing: str = "impute"
    second_opinions: bool = False
    random_state: int = 0

    _parameters: ClassVar[dict[str, Rules]] = {
        "normal": (none, _TEXT),
        "id_column": (none, _TEXT),
        "detector": _TEXT,
        "method": _TEXT,
        "top": integer(1, 10_000),
        "alarms": (none, integer(1)),
        "contamination": (none, real(0, 0.5, closed="right")),
        "fdr": (none, real(0, 1)),
        "columns": (none, _TEXTS),
        "exclude": _TEXTS,
        "category": _TEXTS,
        "number": _TEXTS,
        "date": _TEXTS,
        "text": _TEXTS,
        "by": _TEXTS,
        "label": (none, _TEXT),
        "missing": one_of("impute", "drop", "error"),
        "second_opinions": boolean,
        "random_state": seed,
    }

    def __post_init__(self) -> None:
        validate_parameters(self)
        rules = {"alarms": self.alarms, "contamination": self.contamination, "fdr": self.fdr}
        given = [name for name, value in rules.items() if value is not None]
        if len(given) > 1:
            raise InvalidParameter(
                f"Give one of alarms, contamination and fdr. Got {' and '.join(given)}: each says by itself "
                "where alarms begin."
            )

    def not_features(self, table: Table) -> list[str]:
        """Columns that mark or name rows, after checking that they and the others asked for exist."""
        marked = [] if self.normal is None else [split_marker(table, self.normal)[0]]
        marked += [] if self.label is None else [split_label(table, self.label).column]
        named = [] if self.id_column is None else [self.id_column]
        for name in (*named, *(self.columns or ()), *self.exclude):
            check_column(table, name)
        return [*marked, *named]

    def told_kinds(self, table: Table, features: Collection[str]) -> dict[str, list[str]]:
        """Kinds that the user told of the features, as `read_columns` takes them; a name must exist."""
        told = {"category": self.category, "number": self.number, "date": self.date, "text": self.text}
        found: dict[str, list[str]] = {}
        for kind, entries in told.items():
            columns = {entry: split_marker(table, entry)[0] for entry in entries}
            found[kind] = [entry for entry, column in columns.items() if column in features]
        return found

    def _require(self) -> Iterator[Fit]:
        yield "top", self.top >= 1, True  # what else may be in it was checked when it was made


def check_column(table: Table, name: str) -> None:
    """Raise unless the table has the column; suggest the nearest name."""
    import difflib

    if name in table.frame.columns:
        return
    near = difflib.get_close_matches(name, list(table.frame.columns), n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    listed = ", ".join(repr(c) for c in table.frame.columns[:10])
    more = ", …" if table.frame.shape[1] > 10 else ""
    raise InvalidInput(f"{table.source} has no column {name!r}.{hint} Its columns are: {listed}{more}.")


def split_marker(table: Table, text: str) -> tuple[str, str | None]:
    """Column and value of 'COLUMN=VALUE'; the value is None for 'COLUMN'. A column's name may hold an '='."""
    if text in table.frame.columns:
        return text, None
    parts = text.rsplit("=", maxsplit=1)
    check_column(table, parts[0])
    return parts[0], parts[1]


class Label(NamedTuple):
    """What marks true anomalies: a value of a column, any but that value, or a value yet to be found."""

    column: str
    value: str | None
    negated: bool = False


def split_label(table: Table, text: str) -> Label:
    """Read 'COLUMN', 'COLUMN=VALUE' or 'COLUMN!=VALUE'; names of columns may hold these signs too."""
    parts = text.rsplit("!=", maxsplit=1)
    is_name = text in table.frame.columns or f"{parts[0]}!" in table.frame.columns
    if len(parts) == 2 and not is_name:
        check_column(table, parts[0])
        return Label(parts[0], parts[1].strip(), negated=True)
    return Label(*split_marker(table, text))


def find_rows_equal_to(table: Table, column: str, value: str) -> Integers:
    """Rows whose cell, written as text, is the value ('1', '1.0' and 'True' as the table shows them)."""
    cells = table.frame[column]
    as_text = cells.map(write_cell)
    found = np.flatnonzero((as_text == value.strip()).to_numpy())
    if not len(found):
        common = ", ".join(repr(v) for v in as_text.value_counts().index[:6])
        raise InvalidInput(
            f"No row of {table.source} has {column} = {value!r}. Its most common values are: {common}."
        )
    return found


def write_cell(cell: Any) -> str:
    """A cell as a person would write it: 1 rather than 1.0."""
    if isinstance(cell, (float, np.floating)) and np.isfinite(cell) and float(cell).is_integer():
        return str(int(cell))
    return str(cell).strip()
