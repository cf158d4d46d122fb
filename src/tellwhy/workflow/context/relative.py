"""The columns of a table made relative to their segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tellwhy.core.score_function import Floats, Integers
from tellwhy.data.columns.values import numbers_of
from tellwhy.workflow.context.baselines import BENDS, Baseline, chosen_bend, step_of
from tellwhy.workflow.context.segments import Segments, deepest

if TYPE_CHECKING:
    from tellwhy.workflow.tables.selection import Selection


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
