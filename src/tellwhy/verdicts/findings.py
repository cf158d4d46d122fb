"""What the quality pass found, row by row, and rows that are odd in the same way told as one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tellwhy import checks as quality
from tellwhy.checks.mistakes import FAR, GAP, ODD_TOGETHER
from tellwhy.core.explanation import Explanation
from tellwhy.core.score import Floats, Integers
from tellwhy.results.result import Anomaly, Finding, Reason, Typical
from tellwhy.verdicts.reasons import is_usual, list_usual
from tellwhy.verdicts.words import make_plain_cell
from tellwhy.words.numbers import is_number

# Surprise that a finding adds to its rows: so much, less the logarithm of their number, so that what happened
# once stands above what happened often; and enough for any alarm.
MOST_ADDED = 25.0
LEAST_ADDED = 12.0
MOST_OF_ONE = 20  # rows of one finding that are explained before any other row, where not all can be
GUILTY_PART = 0.6  # of what a finding adds, for its first column; the others share the rest


@dataclass(frozen=True, eq=False)
class RowFindings:
    """Findings that make rows odd, and what they add to the surprise of each row.

    Attributes
    ----------
    findings
        All findings of the table, most important first.
    added
        Surprise added to each row.
    """

    findings: tuple[quality.Finding, ...]
    added: Floats

    @classmethod
    def of(cls, findings: Sequence[quality.Finding], n_rows: int) -> RowFindings:
        """Add up the findings of each row."""
        added = np.zeros(n_rows)
        for finding in findings:
            added[list(finding.rows)] += measure_addition(finding)
        return cls(tuple(findings), added)

    def with_more(self, findings: Sequence[quality.Finding]) -> RowFindings:
        """Add findings; a row that one on the same column has already is not found twice.

        That a value is far from all others gives way: another finding says more.
        """
        told = [f for f in self.findings if f.surprise > 0 and f.form != FAR]
        known = {(name, row) for f in told for name in f.columns for row in f.rows}
        new = []
        for finding in findings:
            new_ones = [i for i, row in enumerate(finding.rows) if (finding.columns[0], row) not in known]
            new += [finding.of_rows(new_ones)] if new_ones else []
        if not new:
            return self
        better = {(f.columns[0], row) for f in new if f.surprise > 0 for row in f.rows}
        kept = [
            f.of_rows([at for at, row in enumerate(f.rows) if not _gives_way(f, row, better)])
            for f in self.findings
        ]
        old = [some for f, some in zip(self.findings, kept, strict=True) if some.rows or not f.rows]
        return RowFindings.of([*old, *new], len(self.added))

    def without_far(self, is_odd: NDArray[np.bool_]) -> RowFindings:
        """Leave out that values are far from all others in rows that a detector finds odd: it says more."""
        kept = [
            each.of_rows([at for at, row in enumerate(each.rows) if each.form != FAR or not is_odd[row]])
            for each in self.findings
        ]
        if all(len(new.rows) == len(old.rows) for new, old in zip(kept, self.findings, strict=True)):
            return self
        told = [new for new, old in zip(kept, self.findings, strict=True) if new.rows or not old.rows]
        return RowFindings.of(told, len(self.added))

    def without(self, kept: Integers) -> RowFindings:
        """Keep only some of the rows, which are then counted anew."""
        place = np.full(len(self.added), -1)
        place[kept] = np.arange(len(kept))
        some = [f.of_rows([i for i, row in enumerate(f.rows) if place[row] >= 0]) for f in self.findings]
        pairs = zip(self.findings, some, strict=True)
        findings = [
            replace(f, rows=tuple(place[list(f.rows)].tolist())) for old, f in pairs if f.rows or not old.rows
        ]
        return RowFindings(tuple(findings), self.added[kept])

    def crowded(self) -> NDArray[np.bool_]:
        """Rows that only say again what others of their finding say: those beyond the first of many."""
        is_crowded = np.zeros(len(self.added), dtype=bool)
        for finding in self.findings:
            if measure_addition(finding) > 0 and len(finding.rows) > MOST_OF_ONE:
                is_crowded[list(finding.rows)[MOST_OF_ONE:]] = True
        for finding in self.findings:
            if measure_addition(finding) > 0 and len(finding.rows) <= MOST_OF_ONE:
                is_crowded[list(finding.rows)] = False
        return is_crowded

    def by_row(self, positions: Integers) -> list[list[quality.Finding]]:
        """Findings that make each of these rows odd, the most surprising first."""
        found: dict[int, list[quality.Finding]] = {int(p): [] for p in positions}
        for finding in sorted(self.findings, key=lambda each: -measure_addition(each)):
            if measure_addition(finding) > 0:
                for row in finding.rows:
                    if row in found:
                        found[row].append(finding)
        return [found[int(p)] for p in positions]


def _gives_way(finding: quality.Finding, row: int, better: Collection[tuple[str, int]]) -> bool:
    return finding.form == FAR and (finding.columns[0], row) in better


def measure_addition(finding: quality.Finding) -> float:
    """Surprise that a finding adds to each of its rows; 0 where it makes no row odd."""
    if finding.surprise <= 0 or not finding.rows:
        return 0.0
    return max(LEAST_ADDED, min(finding.surprise, MOST_ADDED) - float(np.log(len(finding.rows))))


def add_findings(
    explanation: Explanation, raised: Floats, by_row: Sequence[Sequence[quality.Finding]]
) -> Explanation:
    """Return the explanation of the raised scores: what findings added goes to their columns.

    What belongs to columns that are no features stays unattributed.

    Parameters
    ----------
    explanation
        Of the scores of the detector.
    raised
        How much findings raised each score.
    by_row
        Findings of each row.
    """
    place = {name: c for c, name in enumerate(explanation.names())}
    values = np.array(explanation.values)
    for i, found in enumerate(by_row):
        total = sum(measure_addition(finding) for finding in found)
        for finding in found:
            for name, part in share_among_columns(finding).items():
                if name in place:
                    values[i, place[name]] += raised[i] * part * measure_addition(finding) / total
    return replace(explanation, values=values, scores=explanation.scores + raised)


def share_among_columns(finding: quality.Finding) -> dict[str, float]:
    """Part of each column in a finding; the first, which is to blame, has the largest."""
    columns = finding.columns
    if len(columns) <= 1:
        return dict.fromkeys(columns, 1.0)
    rest = (1.0 - GUILTY_PART) / (len(columns) - 1)
    return {name: GUILTY_PART if i == 0 else rest for i, name in enumerate(columns)}


def make_finding_reasons(
    found: Sequence[quality.Finding],
    row: pd.Series,
    typical: Mapping[str, Typical],
    raised: float,
    position: int | None = None,
) -> list[Reason]:
    """Reasons of a row that come from findings, one for each.

    Parameters
    ----------
    found
        Findings of the row.
    row
        Its cells.
    typical
        What is usual in each column.
    raised
        The share of the row's score that findings added.
    position
        Of the row in the checked table, by which findings name it: what its cell should hold is told.
    """
    total = sum(measure_addition(finding) for finding in found)
    told = []
    for finding in found:
        name = finding.columns[0] if finding.columns else ""
        share = raised * measure_addition(finding) / total
        value = make_plain_cell(row[name]) if name in row.index else None
        usual = list_usual(typical[name]) if name in typical else []
        cells = {name: make_plain_cell(row[name]) for name in finding.columns if name in row.index}
        own = _take_row(finding, cells, position)
        # What a rule found is no matter of shares of a score: none is told.
        told.append(Reason(name, value, usual, share, kind="finding", finding=own, is_share=False))
    return told


def _take_row(finding: Finding, cells: Mapping[str, Any], position: int | None) -> Finding:
    """A finding of many rows as the reason of one: it names no rows, and has what is known of this one."""
    own = finding.of_rows([finding.rows.index(position)] if position in finding.rows else [])
    columns = list(finding.columns)
    return replace(own, columns=columns, rows=[], n=finding.n_rows, cells=cells, lines=[], files=[])


def tell_findings(
    found: RowFindings, rows: Integers, anomalies: Sequence[Anomaly], typical: Mapping[str, Typical]
) -> list[Finding]:
    """Return what the quality pass found, and alarms with the same cause, as a run tells them."""
    told = [
        replace(each, columns=list(each.columns), rows=[int(rows[r]) for r in each.rows])
        for each in merge_gaps(found.findings)
    ]
    known = {row for finding in told if finding.surprise > 0 for row in finding.rows}
    return told + _group_same_causes([a for a in anomalies if a.row not in known], typical)


def merge_gaps(findings: Sequence[Finding]) -> list[Finding]:
    """Findings in which cells that are missing in the same rows of several columns are one.

    Examples
    --------
    >>> gaps = [Finding("gap", ["bill"], [3, 271]), Finding("gap", ["wing"], [3, 271])]
    >>> [list(finding.columns) for finding in merge_gaps(gaps)]
    [['bill', 'wing']]
    """
    merged: dict[Any, Finding] = {}
    for place, finding in enumerate(findings):
        key = tuple(finding.rows) if finding.kind == GAP.kind else place
        known = merged.setdefault(key, finding)
        if known is not finding:
            merged[key] = replace(known, columns=[*known.columns, *finding.columns])
    return list(merged.values())


def _group_same_causes(anomalies: Sequence[Anomaly], typical: Mapping[str, Typical]) -> list[Finding]:
    """Alarms without a finding, those with the same columns (and labels, and side) as one."""
    members: dict[tuple[Any, ...], list[Anomaly]] = defaultdict(list)
    for anomaly in anomalies:
        if anomaly.above_threshold and anomaly.holds:
            named = [reason for reason in anomaly.reasons if reason.holds]
            members[tuple(describe_part_of_cause(r, typical) for r in named)].append(anomaly)
    groups = sorted(members.values(), key=lambda group: (-len(group), -group[0].score))
    return [_join_cause(group) for group in groups]


def describe_part_of_cause(reason: Reason, typical: Mapping[str, Typical]) -> tuple[str, Any]:
    """What a reason says of a cause: its column, or its group of columns, and its side."""
    if reason.kind == "group":
        return ", ".join(reason.facts["columns"]), reason.facts["side"]
    return reason.feature, find_side(reason, typical)


def find_side(reason: Reason, typical: Mapping[str, Typical]) -> Any:
    """What rows with one cause share: a label, or on which side of the usual a number is."""
    usual = typical.get(reason.feature)
    if usual is None or usual.kind != "number" or not is_number(reason.value):
        return reason.value
    if is_usual(reason.value, usual):
        return "usual"
    return "high" if reason.value > list_usual(usual)[1] else "low"


def _join_cause(group: Sequence[Anomaly]) -> Finding:
    named = [reason for reason in group[0].reasons if reason.holds]
    values = [anomaly.reasons[0].value for anomaly in group]
    facts: dict[str, Any] = {"example": asdict(named[0])}
    if len(group) > 1:
        are_numbers = all(is_number(value) for value in values)
        ends = [float(min(values)), float(max(values))] if are_numbers else [values[0]]
        is_one_value = len(named) == 1 and len(set(map(str, values))) == 1
        facts |= {"ends": ends, "is_one_value": is_one_value}
    columns = [name for reason in named for name in reason.facts.get("columns", [reason.feature])]
    return Finding(ODD_TOGETHER.kind, columns, [anomaly.row for anomaly in group], facts)
