"""Rows of a table: which are judged and which are ordinary, how they are read, and how to look them up."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pandas as pd
from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype, is_object_dtype

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.progress import stage
from tellwhy.core.score import Floats, Integers
from tellwhy.data import Table, as_table, read_table
from tellwhy.data.columns.dates import Dates, describe_order, hours_of_day
from tellwhy.data.columns.names import list_names, names_identifiers
from tellwhy.data.columns.reading import Role, find_stored_kind, read_dates, read_numbers_or_missing
from tellwhy.data.columns.roles import ReadColumns, read_columns
from tellwhy.data.columns.times import WrittenTimes
from tellwhy.data.places import find_file, find_line, is_marked
from tellwhy.data.sources import STANDARD_INPUT, is_query, read_sources
from tellwhy.data.table import TableLike
from tellwhy.kinds.request import Request, check_column, find_rows_equal_to, split_marker
from tellwhy.results.notice import Notice
from tellwhy.results.result import Finding
from tellwhy.verdicts.seen_values import measure

BY_HOUR = "; compared by the hour of day"  # how a date was read whose day says nothing

if TYPE_CHECKING:
    from tellwhy.kinds.segments import Context
    from tellwhy.kinds.table_model import TableModel


def read_source(data: str | Path | Sequence[str | Path] | TableLike) -> Table:
    """Return a table from a file name, several (their rows are joined), or from what is in memory."""
    if isinstance(data, Table):
        return data
    if isinstance(data, (str, Path)):
        stage("reading", data)
        return read_table(data)
    if isinstance(data, (list, tuple)) and all(isinstance(name, (str, Path)) for name in data):
        return read_sources(data)
    return as_table(cast(TableLike, data))


def read_named(
    names: Sequence[str], *, sheet: str | None = None, db: str | Path | None = None
) -> Path | Table:
    """Return what a command was given to read: one file as it is named, or the table of anything else."""
    is_file = len(names) == 1 and names[0] != STANDARD_INPUT and sheet is None and db is None
    return Path(names[0]) if is_file and not is_query(names[0]) else read_sources(names, sheet=sheet, db=db)


@dataclass(frozen=True)
class Selection:
    """Rows to score and rows to learn from, features only, with their columns read as `roles` says.

    `said` tells how columns were read, `counted` what was counted in these very rows. `rows[i]` is the
    0-based data row of frame position i. `own` holds the frame positions of the reference rows where these
    are rows of the table itself, and is None for a separate reference. `context` holds the segments that rows
    are judged in, if any. `emptied` counts the cells of each column that a finding set missing, and
    `uncompared` names the rows (as `rows` does) of each column whose cells are not compared.
    """

    frame: pd.DataFrame
    rows: Integers
    reference: pd.DataFrame
    own: Integers | None
    words: str
    is_clean: bool  # whether the user vouches for the reference rows
    roles: Mapping[str, Role] = field(default_factory=dict)
    said: tuple[Notice, ...] = ()
    counted: tuple[Notice, ...] = ()
    context: Context | None = None
    emptied: Mapping[str, int] = field(default_factory=dict)
    uncompared: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def with_hours(self) -> Selection:
        """Put the hour of day in the place of dates that else only tell in which order rows came."""
        hours = {name: _read_hours(self, name) for name, role in self.roles.items() if role.orders}
        found = {name: pair for name, pair in hours.items() if pair is not None}
        if not found:
            return self
        frame = self.frame.assign(**{name: pair[0] for name, pair in found.items()})
        reference = self.reference.assign(**{name: pair[1] for name, pair in found.items()})
        roles = dict(self.roles)
        for name in found:
            roles[name] = Role("number", f"{roles[name].words}{BY_HOUR}")
        said = tell_hours(found, self.roles)
        reference = frame if self.reference is self.frame else reference
        return replace(self, frame=frame, reference=reference, roles=roles, said=(*self.said, *said))

    def is_clock(self, name: str) -> bool:
        """Whether the numbers of a column are hours of the day."""
        role = self.roles.get(name)
        return role is not None and (role.words == WrittenTimes.words or role.words.endswith(BY_HOUR))

    def with_cells(self, frame: pd.DataFrame) -> Selection:
        """Take other cells for the same rows, also where they are the reference."""
        emptied = count_emptied(self.frame, frame)
        if self.own is None:
            return replace(self, frame=frame, emptied=emptied)
        is_all = self.reference is self.frame
        reference = frame if is_all else frame.iloc[self.own]
        return replace(self, frame=frame, reference=reference, emptied=emptied)

    def learning_from(self, reference_rows: Integers) -> Selection:
        """Keep only some of the reference rows to learn from."""
        own = None if self.own is None else self.own[reference_rows]
        return replace(self, reference=self.reference.iloc[reference_rows], own=own)

    def without(self, frame_rows: Integers, reference_rows: Integers) -> Selection:
        """Keep only some frame positions and, of a separate reference, some of its own."""
        kept = replace(self, frame=self.frame.iloc[frame_rows], rows=self.rows[frame_rows])
        if self.context is not None:
            kept = replace(kept, context=self.context.without(frame_rows, reference_rows))
        if self.own is None:
            return replace(kept, reference=self.reference.iloc[reference_rows])
        own = np.flatnonzero(np.isin(frame_rows, self.own))  # counted among the rows that are kept
        return replace(kept, reference=kept.frame.iloc[own], own=own)

    def context_columns(self) -> list[str]:
        """Columns that tell a row's segment: every row is compared within its own, so they tell no more."""
        return [] if self.context is None else [n for n in self.context.by if n in self.frame.columns]

    def compared(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The rows to score and to learn from as they are compared: relative to their segments, if any."""
        if self.context is None:
            return self.frame, self.reference
        frame = self.context.scored_frame(self.frame)
        is_all = self.reference is self.frame
        return frame, frame if is_all else self.context.reference_frame(self.reference)


def count_emptied(before: pd.DataFrame, after: pd.DataFrame) -> dict[str, int]:
    """How many cells of each column are missing after findings, and were not before."""
    changed = [name for name in after.columns if after[name] is not before[name]]
    counts = {str(name): int((after[name].isna() & before[name].notna()).sum()) for name in changed}
    return {name: n for name, n in counts.items() if n}


def select(table: Table, request: Request) -> Selection:
    """Work out the scored rows, the reference rows and the feature columns of a request."""
    frame = choose_features(table, request)
    read = read_as_told(frame, None, request.told_kinds(table, list(frame.columns)))
    roles = _mark_ordering_dates(take_as_named(read, request.columns), read.frame)
    everyone = np.arange(len(frame))
    words = "all rows of the table"
    chosen = Selection(
        read.frame, everyone, read.frame, everyone, words, False, roles, tuple(dict.fromkeys(read.said))
    )
    if request.normal is None:
        return chosen
    column, value = split_marker(table, request.normal)
    if value is None:
        raise InvalidParameter(
            f"normal must be 'COLUMN=VALUE'. Got {request.normal!r}, which names a column alone."
        )
    own = find_rows_equal_to(table, column, value)
    words = f"the rows with {column} = {value}"
    return replace(chosen, reference=read.frame.iloc[own], own=own, words=words, is_clean=True)


def read_reference(table: Table, reference: Table, request: Request) -> tuple[Table, Request]:
    """Ordinary rows in the columns that a request uses of a table, and what is asked of them."""
    if request.normal is not None:
        raise InvalidParameter("Give either a reference table or normal='COLUMN=VALUE', not both.")
    features = list(choose_features(table, request).columns)
    by = list(dict.fromkeys(request.by))
    for name in by:
        check_column(table, name)
        check_column(reference, name)
    aside = [name for name in by if name not in features]
    missing = [name for name in features if name not in reference.frame.columns]
    if missing:
        raise InvalidInput(
            f"The reference {reference.source} lacks the column(s) {', '.join(map(repr, missing[:5]))} of "
            f"{table.source}. Leave them out with exclude, or give a reference with the same columns."
        )
    used = None if request.columns is None else features
    kinds: dict[str, Any] = dict(request.told_kinds(table, [*features, *aside]))
    asked = replace(request, id_column=None, label=None, columns=used, exclude=aside, **kinds)
    return replace(reference, frame=reference.frame[[*features, *aside]]), asked


def choose_features(table: Table, request: Request) -> pd.DataFrame:
    """Columns that are asked for, less those that mark or name rows and those excluded."""
    dropped = request.not_features(table)
    frame = table.frame.drop(columns=dropped)
    if request.columns is not None:
        frame = frame[[name for name in request.columns if name not in dropped]]
    frame = frame.drop(columns=[name for name in request.exclude if name in frame.columns])
    if frame.shape[1] == 0:
        raise InvalidInput(
            f"No column of {table.source} is left to use as a feature; check columns and exclude."
        )
    return frame


def read_as_told(
    frame: pd.DataFrame, roles: Mapping[str, Role] | None, told: Mapping[str, Sequence[str]]
) -> ReadColumns:
    """Read columns as the user says (see `Request.told_kinds`), the others as `roles` or their cells say."""
    return read_columns(
        frame,
        category=told["category"],
        number=told["number"],
        date=told["date"],
        text=told["text"],
        roles=roles,
    )


def take_as_named(read: ReadColumns, columns: Sequence[str] | None) -> dict[str, Role]:
    """Take whole numbers that the user named for numbers, even if they look like names of rows."""
    named = set(columns or ())
    return {
        name: Role("number", "whole numbers")
        if name in named and role.kind == "identifier" and pd.api.types.is_numeric_dtype(read.frame[name])
        else role
        for name, role in read.roles.items()
    }


def _mark_ordering_dates(roles: Mapping[str, Role], frame: pd.DataFrame) -> dict[str, Role]:
    """Mark the dates that only tell in which order rows came."""
    found = dict(roles)
    for name, role in roles.items():
        if role.kind == "date":
            found[name] = replace(role, orders=describe_order(read_dates(frame, name, "iso"), None))
    return found


def _read_hours(selection: Selection, name: str) -> tuple[Floats, Floats] | None:
    """Hours of day of the scored rows and of the reference rows; None where either has none to speak of."""
    frame = hours_of_day(read_dates(selection.frame, name, "iso"))
    reference = hours_of_day(read_dates(selection.reference, name, "iso"))
    return None if frame is None or reference is None else (frame, reference)


MOST_LINES = 1_000  # of a finding; nobody looks more of them up by hand


TITLES = ("title", "name")
OWN = 0.9  # share of rows whose title is their own


def find_title_column(frame: pd.DataFrame, roles: Mapping[str, Role]) -> str | None:
    """The column that names rows, where nobody said which does: names of rows, keys, or a title."""
    for name, role in roles.items():
        if role.kind != "identifier" or not _is_own(frame, name):
            continue
        if not is_numeric_dtype(frame[name]) or names_identifiers(name):
            return name
    return next((name for name in roles if name.lower() in TITLES and _is_own(frame, name)), None)


def _is_own(frame: pd.DataFrame, name: str) -> bool:
    return name in frame.columns and bool(frame[name].nunique() >= OWN * len(frame))


def write_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with the cells that the table has, in columns that any file can hold."""
    kept = rows.reset_index(drop=True)
    kept.attrs = {}
    for name in kept.columns:
        cells = kept[name]
        if is_object_dtype(cells.dtype):  # cells of several kinds, such as numbers among words
            kept[name] = cells.map(_write_text, na_action="ignore")
    return kept


def _write_text(cell: object) -> str:
    return cell if isinstance(cell, str) else str(cell)


def add_lines(findings: Sequence[Finding], frame: pd.DataFrame) -> list[Finding]:
    """Add the lines of the file to findings, where they are known."""
    if not is_marked(frame):
        return list(findings)
    made = []
    for finding in findings:
        found = [(find_line(frame, row), find_file(frame, row)) for row in finding.rows[:MOST_LINES]]
        lines = [line for line, _ in found if line is not None]
        files = [file for line, file in found if line is not None and file is not None]
        made.append(replace(finding, lines=lines, files=files))
    return made


_SUITS = {"number": ("number",), "boolean": ("boolean", "number"), "date": ("date",)}


@dataclass(frozen=True, eq=False)
class NewRows:
    """Rows to judge, read.

    Attributes
    ----------
    frame
        The features, read as the model's roles say.
    said
        What could not be read so.
    """

    frame: pd.DataFrame
    said: list[Notice]


def read_new_rows(model: TableModel, table: Table) -> NewRows:
    """Read the features of a table as the model's were; cells that cannot be are missing, and told."""
    used = dict.fromkeys([*model.encoder.columns_, *model.by_roles])
    check_has_columns(table, used, model.table_columns, model.source)
    read = read_as_roles(table, model.roles)
    return NewRows(read.frame, read.said)


def read_as_roles(table: Table, roles: Mapping[str, Role]) -> ReadColumns:
    """Read columns as others were; cells that cannot be are missing, and told."""
    # A column that was read but not used may be absent: it is an empty one.
    read = read_columns(table.frame.reindex(columns=list(roles)), roles=roles)
    frame = read.frame.copy(deep=False)
    said = list(read.said)
    for name, role in roles.items():
        cells = _convert_to_kind(frame[name], role)
        if cells is not None:
            n_lost = int((cells.isna() & frame[name].notna()).sum())
            frame[name] = cells
            if n_lost:
                said.append(Notice("not_read_so", {"column": name, "n": n_lost, "kind": role.kind}))
    return replace(read, frame=frame, said=said)


def check_has_columns(table: Table, used: Iterable[str], known: Collection[str], source: str) -> None:
    """Raise if a column that a model uses is not there; say which may be the same under another name."""
    absent = [name for name in used if name not in table.frame.columns]
    if not absent:
        return
    new = [name for name in table.frame.columns if name not in known]
    near = difflib.get_close_matches(absent[0], new, n=1, cutoff=0.5)
    hint = f" Was {absent[0]!r} renamed to {near[0]!r}?" if near else ""
    raise InvalidInput(
        f"{table.source} lacks {len(absent)} column(s) that the model was fitted on ({source}): "
        f"{list_names(absent)}.{hint} It has: {list_names(list(table.frame.columns))}. Rename or add "
        "them, or fit the model again without them."
    )


def _convert_to_kind(series: pd.Series, role: Role) -> pd.Series | None:
    """A column that is stored as something else than before; None where nothing is to be done."""
    if role.kind not in _SUITS or series.isna().all() or find_stored_kind(series) in _SUITS[role.kind]:
        return None
    name = str(series.name)
    own = read_columns(series.to_frame(name))
    if own.roles[name].kind == role.kind:
        return own.frame[name]
    if role.kind == "date":
        text = series.astype(object).map(lambda cell: cell if isinstance(cell, str) else None)
        return pd.to_datetime(text, errors="coerce", format="ISO8601")
    if role.kind == "boolean":
        return pd.Series(pd.array([None] * len(series), dtype="boolean"), index=series.index)
    return pd.Series(read_numbers_or_missing(series), index=series.index)


class OtherTimes(NamedTuple):
    """Dates that are not compared: what is told of them, and the rows of each column."""

    told: list[Notice]
    rows: dict[str, frozenset[int]]


def drop_other_times(model: TableModel, frame: pd.DataFrame) -> tuple[pd.DataFrame, OtherTimes]:
    """Compare no dates after those of the fitting: time goes on, which is no oddity of a row.

    Nor earlier ones, where more rows have them than chance explains: a whole period that was not seen. The
    middle of the known dates stands in their place: a gap would be odd in a column that never had one.
    """
    told = []
    rows: dict[str, frozenset[int]] = {}
    found = frame
    for name, kind in model.encoder.kinds_.items():
        seen = model.seen.get(name)
        if kind != "date" or seen is None or not seen.has_range:
            continue
        days = measure(frame[name], "date")
        sides = {"later": days > seen.high}
        known = read_dates(model.reference, name, "iso")
        if "earlier" in describe_order(read_dates(frame, name, "iso"), known):
            sides["earlier"] = days < seen.low
        for side, is_beyond in sides.items():
            if is_beyond.any():
                found = found.assign(**{name: found[name].mask(is_beyond, _middle_of(known, found[name]))})
                rows[name] = rows.get(name, frozenset()) | set(np.flatnonzero(is_beyond).tolist())
                told.append(Notice("other_dates", {"column": name, "n": int(is_beyond.sum()), "side": side}))
    return found, OtherTimes(told, rows)


def _middle_of(known: Dates, column: pd.Series) -> pd.Timestamp | None:
    """The middle of known dates as a column writes its own; a gap where that is not as dates."""
    told = np.sort(known[~np.isnat(known)])
    if not len(told) or not is_datetime64_any_dtype(column):
        return None
    zone = getattr(column.dtype, "tz", None)
    return pd.Timestamp(told[len(told) // 2]).tz_localize(zone, ambiguous=True, nonexistent="shift_forward")


def put_hours(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Put the hour of day in the place of dates that else only tell in which order rows came."""
    found = {}
    for name in names:
        stamps = pd.to_datetime(frame[name], errors="coerce").dt.tz_localize(None)
        values = stamps.to_numpy(dtype="datetime64[us]")
        found[name] = (values - values.astype("datetime64[D]")) / np.timedelta64(1, "h")
    return frame.assign(**found) if found else frame


def tell_hours(columns: Iterable[str], roles: Mapping[str, Role]) -> list[Notice]:
    """Say of which dates the hour of day is compared, as they only tell the order of rows."""
    return [Notice("hour_compared", {"column": name, "orders": roles[name].orders}) for name in columns]
