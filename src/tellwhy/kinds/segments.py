"""--by: segments, and rows relative to them.

Segments: the rows that share their values in the columns that `by` names.

The columns of a table made relative to their segments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tellwhy.checks.in_time.baselines import BENDS, Baseline, chosen_bend, step_of
from tellwhy.core.errors import InvalidInput
from tellwhy.core.score import Floats, Integers
from tellwhy.data.columns.reading import Role, numbers_of
from tellwhy.kinds.request import cell_text
from tellwhy.words.numbers import number_text

if TYPE_CHECKING:
    from tellwhy.kinds.table_rows import Selection


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


def nested_segments(
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
        own = _segments_of(scored[name], reference[name], roles[name], source)
        found.append(own if not found else _within(found[-1], own))
    return found


def _segments_of(scored: pd.Series, reference: pd.Series, role: Role, source: str) -> Segments:
    name = str(scored.name)
    if role.kind == "date":
        raise InvalidInput(
            f"Column {name!r} of {source} holds dates, and rows are not segmented by dates. Use --time "
            f"{name} to compare rows with what is usual at their time of the week."
        )
    if role.kind == "number" and reference.nunique() > MOST_NUMBERS:
        return _tenths(name, _floats(scored), _floats(reference))
    codes, levels = pd.factorize(reference)  # missing cells have −1
    words = tuple(f"{name} = {cell_text(level)}" for level in levels)
    if scored is reference:
        return Segments(words, codes.astype(np.int64), codes.astype(np.int64))
    place = pd.Index(levels).get_indexer(pd.Index(scored))
    place = np.where(scored.isna().to_numpy(), NONE, place)
    return Segments(words, place.astype(np.int64), codes.astype(np.int64))


def _floats(column: pd.Series) -> Floats:
    return pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)


def _tenths(name: str, scored: Floats, reference: Floats) -> Segments:
    """Cut numbers where a tenth of the rows lies between two cuts."""
    filled = reference[np.isfinite(reference)]
    cuts = np.unique(np.quantile(filled, np.linspace(0, 1, PARTS + 1)[1:-1], method="lower"))
    ends = np.concatenate([[filled.min()], cuts, [filled.max()]])
    pairs = zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    words = tuple(f"{name} = {number_text(low)}–{number_text(high)}" for low, high in pairs)
    return Segments(words, _part(scored, cuts), _part(reference, cuts))


def _part(values: Floats, cuts: Floats) -> Integers:
    part = np.searchsorted(cuts, values, side="left")
    return np.where(np.isnan(values), NONE, part).astype(np.int64)


def _within(outer: Segments, inner: Segments) -> Segments:
    """Pairs of segments that occur among the reference rows."""
    n_inner = len(inner.words)
    pairs = _pair(outer.reference, inner.reference, n_inner)
    codes, levels = pd.factorize(np.where(pairs < 0, np.nan, pairs))
    words = [f"{outer.words[int(p) // n_inner]} and {inner.words[int(p) % n_inner]}" for p in levels]
    scored = _pair(outer.scored, inner.scored, n_inner)
    place = pd.Index(levels).get_indexer(pd.Index(np.where(scored < 0, np.nan, scored)))
    return Segments(tuple(words), place.astype(np.int64), codes.astype(np.int64))


def _pair(outer: Integers, inner: Integers, n_inner: int) -> Integers:
    return np.where((outer < 0) | (inner < 0), NONE, outer * n_inner + inner)


def deepest(levels: Sequence[Segments], rows: Integers) -> tuple[Integers, Integers]:
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
        level, segment = deepest(self.levels, rows)
        pairs = zip(level.tolist(), segment.tolist(), strict=True)
        return ["" if depth < 0 else self.levels[depth].words[number] for depth, number in pairs]


def context_of(
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
        name: _relative(selection, name, levels, None if bends is None else bends[name])
        for name in names
        if name in selection.frame.columns
    }
    used = {name: column for name, column in found.items() if column is not None}
    return Context(tuple(levels), tuple(by), used)


def _relative(
    selection: Selection, name: str, levels: Sequence[Segments], known_bend: str | None
) -> RelativeColumn | None:
    scored = numbers_of(selection.frame, name)
    reference = scored[selection.own] if selection.own is not None else numbers_of(selection.reference, name)
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
