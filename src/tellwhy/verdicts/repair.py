"""What would make a row of a table look normal, and which wrong cells are sure: what they should hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd

from tellwhy import checks as quality
from tellwhy.checks.mistakes import MISTAKES, PLACEHOLDER
from tellwhy.core.score import Integers
from tellwhy.results.result import MISSING, Finding
from tellwhy.verdicts.alarms import Ranking
from tellwhy.verdicts.causes import Cause, Trials
from tellwhy.verdicts.words import make_plain_cell
from tellwhy.words import tell


class KnowsRows(Protocol):
    """What gives rows as the user has them, told by their numbers."""

    def known_rows(self, numbers: Integers) -> pd.DataFrame:
        """Return some rows, without missing cells."""
        ...


def find_nearest_normals(
    known: KnowsRows, ranking: Ranking, causes: Sequence[Cause]
) -> list[dict[str, Any] | None]:
    """Return the cells to change in each ranked row above the threshold, and values that would do.

    The values are those of an ordinary row that is like this one elsewhere: they occur, and the row with them
    was scored and found ordinary. None stands for a row that is below the threshold, or that no change makes
    ordinary.
    """
    odd = ranking.scores[ranking.positions] > ranking.threshold
    changed = [i for i, cause in enumerate(causes) if odd[i] and cause.donor >= 0]
    usual = known.known_rows(np.array([causes[i].donor for i in changed], dtype=np.int64))
    found: list[dict[str, Any] | None] = [None] * len(causes)
    for place, i in enumerate(changed):
        names = [str(usual.columns[c]) for c in causes[i].changed]
        found[i] = {name: _write_cell(usual[name].iloc[place]) for name in names}
    return found


def repair_causes(
    causes: Sequence[Cause],
    trials: Trials,
    level: float,
    by_row: Sequence[Sequence[quality.Finding]],
    names: Sequence[str],
) -> list[Cause]:
    """Change the cells that findings explain as well; where they explain all, change nothing else.

    Parameters
    ----------
    causes
        Of each row, without its explained cells.
    trials
        What can be tried on the rows.
    level
        Score up to which a row counts as ordinary.
    by_row
        Findings of each row.
    names
        Of the columns.
    """
    place = {name: c for c, name in enumerate(names)}
    replaced = np.zeros((len(causes), len(names)), dtype=bool)
    for i, found in enumerate(by_row):
        cells = [f.columns[0] for f in found if _may_be_mended(f)]
        replaced[i, [place[name] for name in cells if name in place]] = True
    told = np.array([i for i, found in enumerate(by_row) if found], dtype=np.int64)
    # An explained cell is missing for the detector: a row that it finds ordinary has nothing else to change.
    own = trials.lowest(told, np.zeros((len(told), len(names)), dtype=bool))
    for i, score in zip(told.tolist(), own.tolist(), strict=True):
        if score > level:
            replaced[i, list(causes[i].changed)] = True
    donors = trials.nearest_donor(told, replaced[told], np.full(len(told), level))
    mended = list(causes)
    for i, donor in zip(told.tolist(), donors.tolist(), strict=True):
        columns = tuple(int(c) for c in np.flatnonzero(replaced[i]))
        # A broken relation or a repeated row is not mended by another row's cells.
        is_mended = bool(columns) and all(_may_be_mended(each) for each in by_row[i])
        mended[i] = replace(causes[i], changed=columns, donor=donor if is_mended else -1)
    return mended


def _may_be_mended(finding: quality.Finding) -> bool:
    """Whether a finding is about one cell, so that a usual value in it mends the row."""
    return MISTAKES[finding.kind].is_repairable and len(finding.columns) == 1


def _write_cell(value: Any) -> Any:
    """A cell as JSON has it, a whole number without a decimal point."""
    cell = make_plain_cell(value)
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell


SURE = 0.95  # probability from which on a cell is repaired, if the user names no other
BY_RULE = 0.95  # of a cell that a rule without a probability of its own takes out: so many were wrong
RELATION_SLIP = "relation_slip"


@dataclass(frozen=True)
class Change:
    """One cell that is repaired.

    Attributes
    ----------
    row, line
        Its row, from 0, and the line of the file, from 1, where it is known.
    column
        Its column.
    old, new
        What it holds, and what it is to hold; None empties it.
    probability
        That the cell is wrong.
    finding
        What is wrong with it, of this row alone.
    line, file
        The line of the file, from 1, and the file where there are several, as far as they are known.
    """

    row: int
    column: str
    old: Any
    new: Any
    probability: float
    finding: Finding
    line: int | None = None
    file: str | None = None

    @property
    def why(self) -> str:
        """What is wrong, in words."""
        return tell.of_row(self.finding, self.finding.cells)


def find_sure_changes(
    findings: Sequence[Finding], frame: pd.DataFrame, threshold: float = SURE
) -> list[Change]:
    """Return the repairs that are sure, in the order of rows and columns.

    A cell is repaired where a finding says what it should hold and that it is wrong with at least this
    probability; a placeholder, which stands for nothing, is emptied, and a number that is ten times too large
    for an equation is divided by ten. Rules that take a cell out without a probability of their own count as
    `BY_RULE`. Of several findings about one cell the
    most probable counts; where two that are equally probable want different values, nobody knows which.

    Parameters
    ----------
    findings
        Of the table.
    frame
        The table, as it was read.
    threshold
        Least probability.

    Examples
    --------
    >>> frame = pd.DataFrame({"city": ["Oslo", "Olso", "Oslo"]})
    >>> found = Finding(
    ...     "misspelling", ["city"], [1], {"level": "Olso", "meant": "Oslo"}, {"n": 2},
    ...     probabilities=[0.99], expected=["Oslo"],
    ... )
    >>> [(change.row, change.old, change.new) for change in find_sure_changes([found], frame)]
    [(1, 'Olso', 'Oslo')]
    """
    best: dict[tuple[int, str], list[Change]] = {}
    for finding in findings:
        if not finding.columns or finding.columns[0] not in frame.columns:
            continue
        for place in range(len(finding.rows)):
            change = _change(finding, place, frame)
            if change is None or not change.probability >= threshold:
                continue
            known = best.setdefault((change.row, change.column), [])
            if not known or change.probability >= known[0].probability:
                known[:] = [*(k for k in known if k.probability == change.probability), change]
    order = {str(name): i for i, name in enumerate(frame.columns)}
    sure = [changes[0] for changes in best.values() if len({repr(c.new) for c in changes}) == 1]
    return sorted(sure, key=lambda change: (change.row, order[change.column]))


def _change(finding: Finding, place: int, frame: pd.DataFrame) -> Change | None:
    """What a finding would make of the cell in one of its rows; None where it does not say."""
    row = int(finding.rows[place])
    name = finding.columns[0]
    old = make_plain_cell(frame[name].iloc[row])
    new = finding.expected[place] if finding.expected else _undo_slip(finding, old)
    if new is None and not (finding.kind == PLACEHOLDER.kind and finding.action == MISSING):
        return None
    if not finding.probabilities and finding.action != MISSING:
        return None
    if _are_same(old, new):
        return None
    cells = {
        column: make_plain_cell(frame[column].iloc[row]) for column in finding.columns if column in frame
    }
    one = replace(finding.of_rows([place]), n=1, cells=cells)
    probability = float(finding.probabilities[place]) if finding.probabilities else BY_RULE
    return Change(row, name, old, new, probability, one)


def _undo_slip(finding: Finding, old: Any) -> Any:
    """The number without the slip of the decimal point that an equation tells; None of anything else."""
    is_number = isinstance(old, (int, float)) and not isinstance(old, bool)
    if finding.form != RELATION_SLIP or not is_number or "times" not in finding.facts:
        return None
    return float(f"{old / finding.facts['times']:.12g}")


def _are_same(old: Any, new: Any) -> bool:
    numbers = (int, float)
    if isinstance(old, numbers) and isinstance(new, numbers):
        return math.isclose(old, new, rel_tol=1e-12)
    return bool(old == new)


def group_by_rows(changes: Sequence[Change]) -> dict[int, Mapping[str, Any]]:
    """The new values of each row that changes, by column."""
    cells: dict[int, dict[str, Any]] = {}
    for change in changes:
        cells.setdefault(change.row, {})[change.column] = change.new
    return dict(cells)
