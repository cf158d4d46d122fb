"""What is usual in a row's segment, and its reasons told beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from tellwhy.core.arrays import spread_evenly
from tellwhy.core.explanation import Explanation
from tellwhy.core.score import Integers
from tellwhy.data import describe_column
from tellwhy.data.columns.summary import LEVELS
from tellwhy.kinds.segments import NONE, Context, RelativeColumn, find_deepest
from tellwhy.results.result import Reason, Typical
from tellwhy.verdicts.causes import Cause
from tellwhy.verdicts.reasons import list_verified_reasons, make_typical
from tellwhy.words.numbers import is_number

MOST_DESCRIBED = 100_000  # rows of a segment that tell what is usual there
MOST_TOLD = 12  # columns of a table for which what is usual in the segment is kept with every row
LABELS = ("category", "boolean")
ENOUGH = 50  # rows of a segment whose own quantiles and shares are told; of fewer, those drawn to the table


@dataclass(frozen=True, eq=False)
class InSegments:
    """What is usual for each of some rows.

    Attributes
    ----------
    context
        Segments and relative columns.
    positions
        The rows, among the scored ones.
    reference
        The rows to compare with, as the user has them.
    typical
        What is usual in the whole table.
    """

    context: Context
    positions: Integers
    reference: pd.DataFrame
    typical: Mapping[str, Typical]

    def reasons(self, explanation: Explanation, causes: Sequence[Cause]) -> list[list[Reason]]:
        """Reasons of each row, beside what is usual in its segment."""
        found: list[list[Reason]] = [[] for _ in range(len(explanation))]
        for places in self._group_rows():
            usual = self.usual(int(places[0]))
            rows = self._find_members(int(places[0]))
            like = self.reference.iloc[rows] if len(rows) >= ENOUGH else self.reference
            where = self.context.segment_words(self.positions[places[:1]])[0]
            some = [causes[place] for place in places]
            told = list_verified_reasons(explanation[places], {**self.typical, **usual}, some, like)
            for place, reasons in zip(places, told, strict=True):
                found[place] = [_name_segment(reason, where, usual) for reason in reasons]
        return found

    def told(self, place: int, reasons: Sequence[Reason]) -> dict[str, Any]:
        """The segment of a row, and what is usual there; of a wide table, where reasons name it."""
        usual = self.usual(place)
        named = {reason.feature for reason in reasons}
        is_narrow = len(usual) <= MOST_TOLD
        return {
            "segment": self.context.segment_words(self.positions[place : place + 1])[0],
            "usual": {name: found for name, found in usual.items() if is_narrow or name in named},
        }

    def usual(self, place: int) -> dict[str, Typical]:
        """What is usual in the segment of one row, for every column that depends on segments."""
        level, segment = find_deepest(self.context.levels, self.positions[place : place + 1])
        if level[0] == NONE:
            return {}
        key = (int(level[0]), int(segment[0]))
        if key not in self._known:
            self._known[key] = self._describe_usual(place)
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[int, int], dict[str, Typical]]:
        """What is usual in the segments that were asked for, by level and number."""
        return {}

    def _describe_usual(self, place: int) -> dict[str, Typical]:
        rows = self._find_members(place)
        names = [n for n, t in self.typical.items() if n in self.context.columns or t.kind in LABELS]
        return {
            name: self._describe_typical(name, place, rows) for name in names if name not in self.context.by
        }

    def normal_values(
        self, changes: Sequence[Mapping[str, Any] | None], relative: pd.DataFrame
    ) -> list[dict[str, Any] | None]:
        """Numbers that would look normal, for the segment of each row rather than for the row they came from.

        Parameters
        ----------
        changes
            Cells of an ordinary row, for each row; None where there are none.
        relative
            The same ordinary row with relative numbers, for each row.
        """
        found: list[dict[str, Any] | None] = []
        for place, change in enumerate(changes):
            if change is None:
                found.append(None)
                continue
            moved = dict(change)
            for name in change:
                column = self.context.columns.get(name)
                if column is not None and is_number(change[name]):
                    value = float(relative[name].iloc[place])
                    moved[name] = self._find_nearest_value(name, column, value, place)
            found.append(moved)
        return found

    def _find_nearest_value(self, name: str, column: RelativeColumn, relative: float, place: int) -> Any:
        """The value of a row of the segment that is nearest to one so far from what is usual there."""
        wanted = float(column.absolute(np.array([relative]), self._find_segments(place))[0])
        cells = self.reference[name].iloc[self._find_members(place)].dropna()
        if cells.empty:
            cells = self.reference[name].dropna()
        nearest = cells.iloc[int(np.argmin(np.abs(cells.to_numpy(dtype=np.float64) - wanted)))]
        return int(nearest) if float(nearest).is_integer() else float(nearest)

    def _describe_typical(self, name: str, place: int, rows: Integers) -> Typical:
        usual = self.typical[name]
        if len(rows) >= ENOUGH:
            some = rows[spread_evenly(len(rows), MOST_DESCRIBED)]
            is_clock = usual.kind == "number" and bool(usual.labels)
            described = describe_column(self.reference[name].iloc[some], usual.kind)
            return make_typical(name, described, is_clock=is_clock)
        column = self.context.columns.get(name)
        if column is not None:
            relative = np.quantile(column.reference[np.isfinite(column.reference)], LEVELS)
            segments = [np.repeat(numbers, len(LEVELS)) for numbers in self._find_segments(place)]
            return replace(usual, quantiles=tuple(column.absolute(relative, segments).tolist()))
        own = describe_column(self.reference[name].iloc[rows], usual.kind).shares if len(rows) else {}
        weight = len(rows) / ENOUGH
        names = dict.fromkeys([*own, *usual.shares])
        shares = {
            label: weight * own.get(label, 0.0) + (1 - weight) * usual.shares.get(label, 0.0)
            for label in names
        }
        return replace(usual, shares=dict(sorted(shares.items(), key=lambda pair: -pair[1])))

    def _find_segments(self, place: int) -> list[Integers]:
        """Segment of a row at each level."""
        row = self.positions[place : place + 1]
        return [level.scored[row] for level in self.context.levels]

    def _find_members(self, place: int) -> Integers:
        """Reference rows in the segment of a row; all where it has none."""
        level, segment = find_deepest(self.context.levels, self.positions[place : place + 1])
        if level[0] == NONE:
            return np.arange(len(self.reference))
        return np.flatnonzero(self.context.levels[level[0]].reference == segment[0])

    def _group_rows(self) -> list[Integers]:
        """Places of the rows of each segment."""
        level, segment = find_deepest(self.context.levels, self.positions)
        by_segment = pd.DataFrame({"level": level, "segment": segment}).groupby(["level", "segment"])
        return [np.asarray(places) for places in by_segment.indices.values()]


def _name_segment(reason: Reason, where: str, usual: Mapping[str, Typical]) -> Reason:
    """'salary = 9000 (usually 1800–2400 where role = intern)'."""
    if not where or reason.feature not in usual or reason.kind != "value":
        return reason
    return replace(reason, facts={**reason.facts, "where": where})
