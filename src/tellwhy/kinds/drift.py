"""What changed between two tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from tellwhy.core.arrays import draw_sample
from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.progress import stage
from tellwhy.core.score import Integers
from tellwhy.data import Table
from tellwhy.data.columns.dates import Dates, WrittenDates, describe_order, write_iso
from tellwhy.data.columns.reading import Role, read_dates
from tellwhy.data.columns.roles import ReadColumns
from tellwhy.kinds.table_rows import read_as_told
from tellwhy.results.notice import Notice, say_all
from tellwhy.verdicts.column_drift import Drift, compare_hours, compare_missing, compare_values
from tellwhy.verdicts.samples import adjust_p_values
from tellwhy.words.numbers import write_value

if TYPE_CHECKING:
    pass


LEVEL = 0.01  # chance that anything is said to have drifted though nothing has
MOST_ROWS = 200_000  # of each table whose numbers are compared; more would take longer and say the same


@dataclass(frozen=True, eq=False)
class Difference:
    """What changed from an old table to a new one.

    Attributes
    ----------
    old, new
        Where the tables came from.
    n_rows
        Numbers of rows, of the old and the new table.
    drifts
        Every comparison made: those that drifted first, by their size.
    new_columns, gone_columns
        Columns that only one of the tables has.
    changed
        Columns that are read otherwise in the new table: column → (words before, words after).
    ordering
        Columns that only tell in which order rows came, with the periods of both tables, in words.
    not_compared
        Columns that both tables have and that were not compared, with the reason.
    said
        How the columns were read; `notices` are its sentences.
    """

    old: str
    new: str
    n_rows: tuple[int, int]
    level: float
    drifts: list[Drift]
    new_columns: list[str]
    gone_columns: list[str]
    changed: dict[str, tuple[str, str]]
    ordering: dict[str, str]
    not_compared: dict[str, str]
    roles: dict[str, str]
    said: list[Notice]

    @property
    def notices(self) -> list[str]:
        """How the columns were read, one sentence each."""
        return say_all(self.said)

    @property
    def drifted(self) -> list[Drift]:
        """The comparisons that differ by more than chance, the largest difference first."""
        return [drift for drift in self.drifts if drift.drifted]


def diff_from_read(
    old: Table,
    known: ReadColumns,
    new: Table,
    *,
    cleaned: pd.DataFrame,
    level: float = LEVEL,
    seed: int = 0,
) -> Difference:
    """Tell what changed from a table that was read before.

    Parameters
    ----------
    old, new
        The tables; of the old one only the names of its columns are needed.
    known
        Columns of the old one, as they were read; cells that a finding explains are missing.
    cleaned
        The same of the new one, read as the old one was.
    level
        Chance that anything is said to have drifted though nothing has.
    seed
        Of the rows that are compared where there are many.
    """
    nothing: dict[str, list[str]] = {kind: [] for kind in ("category", "number", "date", "text")}
    shared = [name for name in list_shared(old, new, set()) if name in known.frame.columns]
    first = ReadColumns(known.frame[shared], {name: known.roles[name] for name in shared}, list(known.said))
    pair = read_pair(first, new.frame[shared], nothing)
    alike = [name for name in shared if name not in pair.changed]
    frame = pair.new.frame.assign(**{name: cleaned[name].array for name in alike})
    pair = replace(pair, new=replace(pair.new, frame=frame))
    return compare_pair(old, new, pair, exclude=(), level=level, seed=seed)


def compare_pair(
    old: Table,
    new: Table,
    pair: Pair,
    *,
    exclude: Sequence[str],
    level: float,
    seed: int,
    by: Sequence[str] = (),
) -> Difference:
    """Compare what two tables share, column by column, or segment by segment."""
    stage("comparing columns")
    found = _Comparison(pair, np.random.default_rng(seed))
    drifts = found.drifts()
    if by:  # those columns themselves, and what belongs to no segment, are compared as a whole
        drifts = [drift for drift in drifts if drift.column in {*by, *found.ordering}]
        drifts += _compare_by(pair, by, {*by, *found.ordering}, seed)
    drifts = _correct_p_values(drifts, level)
    return Difference(
        old=old.source,
        new=new.source,
        n_rows=(len(old.frame), len(new.frame)),
        level=level,
        drifts=drifts,
        new_columns=_list_only_in(new, old, exclude),
        gone_columns=_list_only_in(old, new, exclude),
        changed=pair.changed,
        ordering=found.ordering,
        not_compared=found.not_compared,
        roles={name: role.words for name, role in pair.old.roles.items()},
        said=[*old.said, *pair.old.said],
    )


def _compare_by(pair: Pair, by: Sequence[str], done: set[str], seed: int) -> list[Drift]:
    """Comparisons of all other columns within each segment."""
    rng = np.random.default_rng(seed)
    names = [name for name in pair.old.frame.columns if name not in done]
    found = []
    for segment in find_shared_segments(pair.old.frame, pair.new.frame, by):
        old = replace(pair.old, frame=pair.old.frame[names].iloc[segment.old])
        new = replace(pair.new, frame=pair.new.frame[names].iloc[segment.new])
        drifts = _Comparison(Pair(old, new, pair.changed), rng).drifts()
        found += [replace(drift, segment=segment.words) for drift in drifts]
    return found


def _list_only_in(one: Table, other: Table, exclude: Sequence[str]) -> list[str]:
    return [name for name in one.frame.columns if name not in other.frame.columns and name not in exclude]


@dataclass(frozen=True, eq=False)
class Pair:
    """The columns that both tables have, read; and those that are read otherwise in the new one."""

    old: ReadColumns
    new: ReadColumns
    changed: dict[str, tuple[str, str]]


def list_shared(old: Table, new: Table, exclude: set[str]) -> list[str]:
    """Columns that both tables have; at least one."""
    shared = [name for name in old.frame.columns if name in new.frame.columns and name not in exclude]
    if not shared:
        raise InvalidInput(
            f"{old.source} and {new.source} have no column in common; expected tables of the same kind. "
            f"Their first columns are {', '.join(map(repr, old.frame.columns[:3]))} and "
            f"{', '.join(map(repr, new.frame.columns[:3]))}."
        )
    return shared


def read_pair(first: ReadColumns, new: pd.DataFrame, told: Mapping[str, Sequence[str]]) -> Pair:
    """Read the shared columns of the new table as it writes them itself, and say where that is otherwise."""
    shared = list(new.columns)
    own = read_as_told(new, None, told)
    # A column of which the new table alone tells something else is read again, as it was in the old one.
    unlike = [name for name in shared if first.roles[name] != own.roles[name]]
    told_of = {
        kind: [e for e in names if _find_column(e, unlike) is not None] for kind, names in told.items()
    }
    alike = read_as_told(new[unlike], first.roles, told_of)
    frame = own.frame.copy(deep=False)
    roles = dict(own.roles)
    changed = {}
    for name in unlike:
        if _is_read_otherwise(first.roles[name], roles[name], frame[name], alike.frame[name]):
            changed[name] = (first.roles[name].words, roles[name].words)
        else:
            frame[name] = alike.frame[name]
            roles[name] = alike.roles[name]
    return Pair(first, ReadColumns(frame, roles, own.said), changed)


def choose_entries(entries: Sequence[str], shared: Sequence[str], exclude: set[str]) -> list[str]:
    """The entries on columns that are compared, and those on unknown ones, which `read_columns` refuses."""
    return [
        entry
        for entry in entries
        if _find_column(entry, sorted(exclude)) is None or _find_column(entry, shared)
    ]


def _find_column(entry: str, columns: Sequence[str]) -> str | None:
    """The column that 'COLUMN' or 'COLUMN=FORMAT' names, None where it is not among these."""
    name = entry if entry in columns else entry.rsplit("=", maxsplit=1)[0]
    return name if name in columns else None


def _is_read_otherwise(old: Role, own: Role, as_own: pd.Series, as_old: pd.Series) -> bool:
    """Tell whether a column is written otherwise, so that reading it as before loses or changes cells."""
    if {old.kind, own.kind} & {"constant", "empty"} and not (old.reading and own.reading):
        return False
    if isinstance(own.reading, WrittenDates) and not own.reading.is_certain:
        return False  # the old table tells what this one does not
    if old.kind != own.kind and {old.kind, own.kind} <= {"category", "text", "identifier"}:
        return False  # how many labels there are is no matter of writing
    return not as_own.equals(as_old)


class _Comparison:
    """Every comparison of two tables; what was not compared, and why."""

    def __init__(self, pair: Pair, rng: np.random.Generator) -> None:
        self._frames = (pair.old.frame, pair.new.frame)
        self._samples = [_draw_sample(frame, rng) for frame in self._frames]
        self._roles = (pair.old.roles, pair.new.roles)
        self.ordering: dict[str, str] = {}
        self.not_compared: dict[str, str] = {}

    def drifts(self) -> list[Drift]:
        """Compare every column: its values, and how often it is missing."""
        found = []
        for name in self._frames[0].columns:
            missing = compare_missing(name, self._frames[0][name], self._frames[1][name])
            found += [part for part in (missing, self._compare_values(name)) if part is not None]
        return found

    def _compare_values(self, name: str) -> Drift | None:
        old, new = (roles[name] for roles in self._roles)
        kind = _find_common_kind(old, new)
        if kind in ("", "identifier"):
            told = old.words if kind else f"{old.words} before, {new.words} now"
            self.not_compared[name] = told
            return None
        if kind == "date" and (order := self._order(name)):
            self.ordering[name] = order
            dates = self._read_dates(name)
            return compare_hours(name, dates[0], dates[1])
        # Levels are compared on all rows: a rare one must not be called gone because no sample has it.
        frames = self._samples if kind in ("number", "date", "text") else self._frames
        return compare_values(name, kind, frames[0][name], frames[1][name])

    def _read_dates(self, name: str) -> list[Dates]:
        return [read_dates(frame, name, "iso") for frame in self._samples]

    def _order(self, name: str) -> str:
        """Say which periods dates cover, where they tell no more than that."""
        dates = self._read_dates(name)
        if not describe_order(dates[1], dates[0]):
            return ""
        periods = []
        for found in dates:
            filled = found[~np.isnat(found)].astype("datetime64[D]")
            periods.append(" to ".join(write_iso(np.array([filled.min(), filled.max()]))))
        return " → ".join(periods)


def _find_common_kind(old: Role, new: Role) -> str:
    """The kind in which two columns can be compared; '' where there is none."""
    kinds = [role.kind for role in (old, new)]
    if "empty" in kinds:
        return ""
    if kinds[0] == kinds[1]:
        return kinds[0]
    varying = [kind for kind in kinds if kind != "constant"]
    if len(varying) == 1:  # one value before or now, of the kind that the other has
        return varying[0]
    return "category" if set(kinds) <= {"category", "text", "identifier", "boolean"} else ""


def _draw_sample(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    if len(frame) <= MOST_ROWS:
        return frame
    return frame.iloc[np.sort(draw_sample(len(frame), MOST_ROWS, rng))]


def _correct_p_values(drifts: Sequence[Drift], level: float) -> list[Drift]:
    """Correct the p-values for their number, and put what drifted first, by its size."""
    corrected = adjust_p_values([drift.p_value for drift in drifts])
    judged = [
        replace(drift, p_adjusted=p, drifted=p <= level) for drift, p in zip(drifts, corrected, strict=True)
    ]
    return sorted(judged, key=lambda drift: (not drift.drifted, -drift.size))


LEAST_ROWS = 30  # of a segment, in both tables
MOST_SEGMENTS = 100  # the largest


class Segment(NamedTuple):
    """Rows of both tables with the same labels."""

    words: str
    old: Integers
    new: Integers


def find_shared_segments(old: pd.DataFrame, new: pd.DataFrame, by: Sequence[str]) -> list[Segment]:
    """Segments with at least 30 rows in each of two tables, the largest first.

    Examples
    --------
    >>> table = pd.DataFrame({"land": ["DE"] * 40 + ["FR"] * 50})
    >>> [segment.words for segment in find_shared_segments(table, table.iloc[:45], ["land"])]
    ['land = DE']
    """
    missing = [name for name in by if name not in old.columns or name not in new.columns]
    if missing:
        raise InvalidParameter(
            f"by names {', '.join(map(repr, missing))}, which both tables must have. Their columns are "
            f"{', '.join(map(repr, [name for name in old.columns if name in new.columns][:8]))}."
        )
    rows = [_group_rows_by_labels(frame[list(by)]) for frame in (old, new)]
    found = [
        Segment(" and ".join(f"{n} = {label}" for n, label in zip(by, labels, strict=True)), *places)
        for labels in rows[0].keys() & rows[1].keys()
        if min(map(len, places := (rows[0][labels], rows[1][labels]))) >= LEAST_ROWS
    ]
    if not found:
        raise InvalidParameter(
            f"No segment by {', '.join(by)} has {LEAST_ROWS} rows in both tables; name a column with fewer "
            "values."
        )
    return sorted(found, key=lambda each: (-len(each.old) - len(each.new), each.words))[:MOST_SEGMENTS]


def _group_rows_by_labels(columns: pd.DataFrame) -> dict[tuple[str, ...], Integers]:
    """Rows of each combination of labels; those with a missing one are in no segment."""
    filled = columns.notna().all(axis=1).to_numpy()
    grouped = columns[filled].reset_index(drop=True).groupby(list(columns.columns), observed=True).indices
    places = np.flatnonzero(filled)
    labels = {key if isinstance(key, tuple) else (key,): rows for key, rows in grouped.items()}
    return {tuple(_write_label(part) for part in key): places[rows] for key, rows in labels.items()}


def _write_label(label: object) -> str:
    """A label as people write it: 7.0 of a column with gaps is 7."""
    return write_value(float(label)) if isinstance(label, (int, float, np.number)) else str(label)
