"""Segments of the rows of a table (`by`): numbers relative to them, labels that are rare in one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.stats import betabinom

from tellwhy.checks.in_time.baselines import BENDS, Baseline, chosen_bend, step_of
from tellwhy.checks.mistakes import RARE_IN_SEGMENT
from tellwhy.core.errors import InvalidInput
from tellwhy.core.score import Floats, Integers
from tellwhy.data import Table
from tellwhy.data.columns.reading import Labels, Role, read_labels, read_numbers
from tellwhy.kinds.request import Request, check_column, write_cell
from tellwhy.kinds.table_rows import Selection, read_as_told
from tellwhy.results.notice import Notice
from tellwhy.results.result import Finding
from tellwhy.words.numbers import write_number

MOST_NUMBERS = 20  # different numbers in a column that are segments as they stand
PARTS = 10  # of equally many rows, into which a column with more numbers is cut
NONE = -1


@dataclass(frozen=True, eq=False)
class Segments:
    """Segments of the reference rows, and which of them each row is in.

    Attributes
    ----------
    words
        Each segment: 'role = intern and country = DE'.
    scored, reference
        Number of the segment of each row; −1 where a cell is missing, or no reference row is like it.
    """

    words: tuple[str, ...]
    scored: Integers
    reference: Integers


def find_nested_segments(
    scored: pd.DataFrame, reference: pd.DataFrame, roles: dict[str, Role], source: str
) -> list[Segments]:
    """Segments by the first column, by the first two, and so on: each within the one before.

    Parameters
    ----------
    scored, reference
        The columns to segment by, read as their roles say; the same frame where the reference is the table.
    roles
        What each column is.
    source
        What the table is called in an error.
    """
    found: list[Segments] = []
    for name in scored.columns:
        own = _find_segments(scored[name], reference[name], roles[name], source)
        found.append(own if not found else _nest_segments(found[-1], own))
    return found


def _find_segments(scored: pd.Series, reference: pd.Series, role: Role, source: str) -> Segments:
    name = str(scored.name)
    if role.kind == "date":
        raise InvalidInput(
            f"Column {name!r} of {source} holds dates, and rows are not segmented by dates. Use --time "
            f"{name} to compare rows with what is usual at their time of the week."
        )
    if role.kind == "number" and reference.nunique() > MOST_NUMBERS:
        return _cut_tenths(name, _read_floats(scored), _read_floats(reference))
    codes, levels = pd.factorize(reference)  # missing cells have −1
    words = tuple(f"{name} = {write_cell(level)}" for level in levels)
    if scored is reference:
        return Segments(words, codes.astype(np.int64), codes.astype(np.int64))
    place = pd.Index(levels).get_indexer(pd.Index(scored))
    place = np.where(scored.isna().to_numpy(), NONE, place)
    return Segments(words, place.astype(np.int64), codes.astype(np.int64))


def _read_floats(column: pd.Series) -> Floats:
    return pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)


def _cut_tenths(name: str, scored: Floats, reference: Floats) -> Segments:
    """Cut numbers where a tenth of the rows lies between two cuts."""
    filled = reference[np.isfinite(reference)]
    cuts = np.unique(np.quantile(filled, np.linspace(0, 1, PARTS + 1)[1:-1], method="lower"))
    ends = np.concatenate([[filled.min()], cuts, [filled.max()]])
    pairs = zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    words = tuple(f"{name} = {write_number(low)}–{write_number(high)}" for low, high in pairs)
    return Segments(words, _find_parts(scored, cuts), _find_parts(reference, cuts))


def _find_parts(values: Floats, cuts: Floats) -> Integers:
    part = np.searchsorted(cuts, values, side="left")
    return np.where(np.isnan(values), NONE, part).astype(np.int64)


def _nest_segments(outer: Segments, inner: Segments) -> Segments:
    """Pairs of segments that occur among the reference rows."""
    n_inner = len(inner.words)
    pairs = _number_pairs(outer.reference, inner.reference, n_inner)
    codes, levels = pd.factorize(np.where(pairs < 0, np.nan, pairs))
    words = [f"{outer.words[int(p) // n_inner]} and {inner.words[int(p) % n_inner]}" for p in levels]
    scored = _number_pairs(outer.scored, inner.scored, n_inner)
    place = pd.Index(levels).get_indexer(pd.Index(np.where(scored < 0, np.nan, scored)))
    return Segments(tuple(words), place.astype(np.int64), codes.astype(np.int64))


def _number_pairs(outer: Integers, inner: Integers, n_inner: int) -> Integers:
    return np.where((outer < 0) | (inner < 0), NONE, outer * n_inner + inner)


def find_deepest(levels: Sequence[Segments], rows: Integers) -> tuple[Integers, Integers]:
    """For each scored row, the narrowest level at which it has a segment, and the segment; −1 for none."""
    level = np.full(len(rows), NONE, dtype=np.int64)
    segment = np.full(len(rows), NONE, dtype=np.int64)
    for depth, found in enumerate(levels):
        own = found.scored[rows]
        level = np.where(own >= 0, depth, level)
        segment = np.where(own >= 0, own, segment)
    return level, segment


@dataclass(frozen=True, eq=False)
class RelativeColumn:
    """One column of numbers beside what is usual in its segment.

    Attributes
    ----------
    baselines
        One for each level of segments, each of what the one before leaves.
    bend
        Form in which values are compared: see `BENDS`.
    scored, reference
        The relative values of the rows.
    """

    baselines: tuple[Baseline, ...]
    bend: str
    scored: Floats
    reference: Floats

    def absolute(self, relative: Floats, levels: Sequence[Integers]) -> Floats:
        """Values that are so far from what is usual in the segments `levels` (one number per level)."""
        found = relative
        for baseline, segments in zip(reversed(self.baselines), reversed(levels), strict=True):
            found = baseline.absolute(found, segments)
        return BENDS[self.bend].back(found)


@dataclass(frozen=True, eq=False)
class Context:
    """Segments of the rows of a table, and its columns relative to them.

    Attributes
    ----------
    levels
        Segments, from wide to narrow.
    by
        Columns that the segments were made of.
    columns
        Columns of numbers, made relative.
    """

    levels: tuple[Segments, ...]
    by: tuple[str, ...]
    columns: Mapping[str, RelativeColumn]

    def scored_frame(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The scored rows with relative numbers."""
        return frame.assign(**{name: column.scored for name, column in self.columns.items()})

    def reference_frame(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The reference rows with relative numbers."""
        return frame.assign(**{name: column.reference for name, column in self.columns.items()})

    def without(self, frame_rows: Integers, reference_rows: Integers) -> Context:
        """Keep only some of the scored and of the reference rows."""
        levels = [
            replace(each, scored=each.scored[frame_rows], reference=each.reference[reference_rows])
            for each in self.levels
        ]
        columns = {
            name: replace(each, scored=each.scored[frame_rows], reference=each.reference[reference_rows])
            for name, each in self.columns.items()
        }
        return replace(self, levels=tuple(levels), columns=columns)

    def segment_words(self, rows: Integers) -> list[str]:
        """'role = intern' for each scored row; empty where it has no segment."""
        level, segment = find_deepest(self.levels, rows)
        pairs = zip(level.tolist(), segment.tolist(), strict=True)
        return ["" if depth < 0 else self.levels[depth].words[number] for depth, number in pairs]


def make_context(
    selection: Selection,
    levels: Sequence[Segments],
    by: Sequence[str],
    bends: Mapping[str, str] | None = None,
) -> Context:
    """Make the numbers of a selection relative to their segments.

    The columns that segments are made of stay as they are. `bends` are the forms in which columns are
    compared, where that was decided before; columns that it does not name are then not made relative.
    """
    names = [name for name, role in selection.roles.items() if role.kind == "number" and name not in by]
    names = [name for name in names if bends is None or name in bends]
    found = {
        name: _make_relative(selection, name, levels, None if bends is None else bends[name])
        for name in names
        if name in selection.frame.columns
    }
    used = {name: column for name, column in found.items() if column is not None}
    return Context(tuple(levels), tuple(by), used)


def _make_relative(
    selection: Selection, name: str, levels: Sequence[Segments], known_bend: str | None
) -> RelativeColumn | None:
    scored = read_numbers(selection.frame, name)
    reference = (
        scored[selection.own] if selection.own is not None else read_numbers(selection.reference, name)
    )
    filled = reference[np.isfinite(reference)]
    if len(filled) < 2:
        return None
    step = step_of(reference, levels[0].reference, len(levels[0].words))
    if step:
        # Drawn once, with a seed of its own: the same table has the same scores.
        parts = step * np.random.default_rng(0).random(max(len(scored), len(reference)))
        reference = reference + parts[: len(reference)]
        scored = scored + parts[: len(scored)]
    # A scored value that has no logarithm must not become missing.
    if known_bend is None:
        least = np.nanmin(scored) if np.isfinite(scored).any() else 0.0
        bend = chosen_bend(reference, levels[0].reference, len(levels[0].words))
        bend = bend if least > 0 or (bend == "square root" and least == 0) else "as it is"
    else:
        bend = known_bend
        scored = scored if bend == "as it is" else np.maximum(scored, np.nanmin(reference) / 1e6)
    scored = BENDS[bend].there(scored)
    reference = BENDS[bend].there(reference)
    baselines = []
    for level in levels:
        baseline = Baseline.learn(reference, level.reference, len(level.words))
        scored = baseline.relative(scored, level.scored)
        reference = baseline.left_out(reference, level.reference)
        baselines.append(baseline)
    if selection.own is not None:  # a row that was learned from is judged without itself
        scored[selection.own] = reference
    return RelativeColumn(tuple(baselines), bend, scored, reference)


FEW = 5  # rows of a segment, below which it is told that the whole table stands in


def place_in_segments(
    selection: Selection, table: Table, request: Request
) -> tuple[Selection, list[Finding]]:
    """Return the selection with the segments of the columns that `by` names, and labels rare in them.

    Parameters
    ----------
    selection
        All rows of the table, before any is dropped.
    table
        What the columns are read from.
    request
        What was asked.
    """
    by = list(dict.fromkeys(request.by))
    if not by:
        return selection, []
    for name in by:
        check_column(table, name)
    known = read_as_told(table.frame[by], None, request.told_kinds(table, by))
    is_all = selection.own is None or len(selection.own) == len(selection.frame)
    others = known.frame if is_all else known.frame.iloc[selection.own]
    levels = find_nested_segments(known.frame, others, known.roles, table.source)
    if not (levels[-1].reference >= 0).any():
        raise InvalidInput(
            f"Column {by[-1]!r} of {table.source} is empty; expected values that tell which segment a row is "
            "in. Choose another column for by."
        )
    placed = replace(
        selection,
        context=make_context(selection, levels, by),
        said=(*selection.said, *_collect_notices(by, levels)),
        words=f"{selection.words}, each with those of the same {' and '.join(by)}",
    )
    return placed, find_rare_labels(selection, levels[-1], by)


def _collect_notices(by: Sequence[str], levels: Sequence[Segments]) -> list[Notice]:
    narrow = levels[-1]
    sizes = np.bincount(narrow.reference[narrow.reference >= 0], minlength=len(narrow.words))
    n_small = int((sizes < FEW).sum())
    n_none = int((levels[0].scored < 0).sum())
    told = [Notice("compared_in_segments", {"n": len(sizes), "columns": list(by)})]
    if n_small:
        told.append(Notice("small_segments", {"n": n_small, "few": FEW}))
    if n_none:
        told.append(Notice("no_segment", {"n": n_none, "column": by[0]}))
    return told


MOST_RATIO = 0.1  # of the rows of a label that a segment like the whole table would have
MOST_SHARE = 0.01  # of the rows of the segment
LEAST_STRENGTH = 0.5  # smallest and largest m
MOST_STRENGTH = 1e5
EVIDENCE = math.log(100)  # beyond what the number of segments and labels makes chance of
MOST_LABELS = 1000


def find_rare_labels(selection: Selection, level: Segments, by: Sequence[str]) -> list[Finding]:
    """Rows whose label hardly occurs in their segment, for every column of labels.

    Parameters
    ----------
    selection
        The rows, before any is dropped.
    level
        The narrowest segments.
    by
        Columns that the segments were made of.
    """
    columns = {}
    for name, role in selection.roles.items():
        if role.kind in ("category", "boolean") and name not in by and name in selection.frame.columns:
            known = read_labels(selection.reference, name)
            if 2 <= len(known.names) <= MOST_LABELS:
                columns[name] = known
    n_tried = sum(len(known.names) for known in columns.values()) * len(level.words)
    found: list[Finding] = []
    for name, known in columns.items():
        own = known if selection.reference is selection.frame else read_labels(selection.frame, name)
        found += _find_in_column(name, own, known, level, n_tried)
    return found


@dataclass(frozen=True, eq=False)
class Counted:
    """Pairs of segment and label that occur: how often, and how often they would if segments were alike."""

    segments: Integers
    labels: Integers
    counts: Integers
    sizes: Integers  # rows of each segment
    shares: Floats  # of each label in the table

    @property
    def expected(self) -> Floats:
        """Rows of each pair in a segment like the whole table."""
        return self.sizes[self.segments] * self.shares[self.labels]

    def strength(self) -> float:
        """m: counts spread (n + m)/(1 + m) times as much around their mean as chance alone makes them."""
        expected = self.expected
        # A pair that does not occur has (0 − n p)²/(n p) = n p: all pairs have n in all.
        spread = float(((self.counts - expected) ** 2 / expected).sum() + self.sizes.sum() - expected.sum())
        degrees = max((int((self.sizes > 0).sum()) - 1) * (int((self.shares > 0).sum()) - 1), 1)
        ratio = spread / degrees
        rows = float((self.sizes.astype(np.float64) ** 2).sum() / self.sizes.sum())
        if ratio <= 1:
            return MOST_STRENGTH
        return float(np.clip((rows - ratio) / (ratio - 1), LEAST_STRENGTH, MOST_STRENGTH))


def count_labels(labels: Integers, segments: Integers, n_labels: int, n_segments: int) -> Counted:
    """Count labels in segments; rows without either are left out."""
    known = (labels >= 0) & (segments >= 0)
    pairs, counts = np.unique(segments[known] * n_labels + labels[known], return_counts=True)
    shares = np.bincount(labels[known], minlength=n_labels) / max(int(known.sum()), 1)
    sizes = np.bincount(segments[known], minlength=n_segments)
    return Counted(pairs // n_labels, pairs % n_labels, counts, sizes, shares)


def _find_in_column(
    name: str, own: Labels, known: Labels, level: Segments, n_tried: int
) -> Iterator[Finding]:
    table = count_labels(known.codes, level.reference, len(known.names), len(level.words))
    if len(table.counts) < 2:
        return
    m = table.strength()
    few = (table.counts <= MOST_RATIO * table.expected) & (
        table.counts <= MOST_SHARE * table.sizes[table.segments]
    )
    place = {label: code for code, label in enumerate(own.names)}
    for k in np.flatnonzero(few):
        n = int(table.sizes[table.segments[k]])
        share = float(table.shares[table.labels[k]])
        chance = float(betabinom.logcdf(int(table.counts[k]), n, m * share, m * (1 - share)))
        evidence = -chance - math.log(n_tried)
        code = place.get(known.names[table.labels[k]], -2)
        rows = np.flatnonzero((level.scored == table.segments[k]) & (own.codes == code))
        if evidence > EVIDENCE and len(rows):
            label = known.names[table.labels[k]]
            yield Finding(
                RARE_IN_SEGMENT.kind,
                (name,),
                tuple(rows.tolist()),
                {"level": label, "segment": level.words[table.segments[k]]},
                {"n_there": int(table.counts[k]), "n_segment": n, "share": share},
                {name: label},
                surprise=evidence,
            )
