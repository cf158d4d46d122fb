"""Which wrong cells are sure: known to be wrong, and known what they should hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from tellwhy.checks.mistakes import PLACEHOLDER
from tellwhy.results.result import MISSING, Finding
from tellwhy.verdicts.words import plain_cell
from tellwhy.words import tell

SURE = 0.95  # probability from which on a cell is repaired, if the user names no other


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


def sure_changes(findings: Sequence[Finding], frame: pd.DataFrame, threshold: float = SURE) -> list[Change]:
    """Return the repairs that are sure, in the order of rows and columns.

    A cell is repaired where a finding says what it should hold and that it is wrong with at least this
    probability; a placeholder, which stands for nothing, is emptied. Of several findings about one cell the
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
    >>> [(change.row, change.old, change.new) for change in sure_changes([found], frame)]
    [(1, 'Olso', 'Oslo')]
    """
    best: dict[tuple[int, str], list[Change]] = {}
    for finding in findings:
        if not finding.columns or finding.columns[0] not in frame.columns:
            continue
        for place in range(len(finding.probabilities)):
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
    new = finding.expected[place] if finding.expected else None
    if new is None and not (finding.kind == PLACEHOLDER.kind and finding.action == MISSING):
        return None
    old = plain_cell(frame[name].iloc[row])
    if _are_same(old, new):
        return None
    cells = {column: plain_cell(frame[column].iloc[row]) for column in finding.columns if column in frame}
    one = replace(finding.of_rows([place]), n=1, cells=cells)
    return Change(row, name, old, new, float(finding.probabilities[place]), one)


def _are_same(old: Any, new: Any) -> bool:
    numbers = (int, float)
    if isinstance(old, numbers) and isinstance(new, numbers):
        return math.isclose(old, new, rel_tol=1e-12)
    return bool(old == new)


def by_rows(changes: Sequence[Change]) -> dict[int, Mapping[str, Any]]:
    """The new values of each row that changes, by column."""
    cells: dict[int, dict[str, Any]] = {}
    for change in changes:
        cells.setdefault(change.row, {})[change.column] = change.new
    return dict(cells)
