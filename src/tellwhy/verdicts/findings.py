"""What the quality pass found, row by row, and rows that are odd in the same way told as one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from tellwhy import checks as quality
from tellwhy.checks.words import number_text, rows_words
from tellwhy.core.explanation import Explanation
from tellwhy.core.score import Floats, Integers
from tellwhy.results.run import Anomaly, Finding, Reason, Typical
from tellwhy.verdicts.reasons import is_usual, usual_values
from tellwhy.verdicts.words import cell_words, is_number, plain_cell

# Surprise that a finding adds to its rows: so much, less the logarithm of their number, so that what happened
# once stands above what happened often; and enough for any alarm.
MOST_ADDED = 25.0
LEAST_ADDED = 12.0
GUILTY_PART = 0.6  # of what a finding adds, for its first column; the others share the rest
MOST_LISTED = 3
ONE_ROW = rows_words(1)
TIMES_TOO_LARGE = ("decimal_slip", "mixed_units")  # kinds whose sentence goes on from the cell
ODD_TOGETHER = "odd_rows"  # kind of the findings that are made of alarms


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
            added[list(finding.rows)] += addition(finding)
        return cls(tuple(findings), added)

    def with_more(self, findings: Sequence[quality.Finding]) -> RowFindings:
        """Add findings; a row that one on the same column has already is not found twice."""
        known = {(name, row) for f in self.findings if f.surprise > 0 for name in f.columns for row in f.rows}
        new = []
        for finding in findings:
            rows = tuple(row for row in finding.rows if (finding.columns[0], row) not in known)
            new += [replace(finding, rows=rows)] if rows else []
        return RowFindings.of([*self.findings, *new], len(self.added)) if new else self

    def without(self, kept: Integers) -> RowFindings:
        """Keep only some of the rows, which are then counted anew."""
        place = np.full(len(self.added), -1)
        place[kept] = np.arange(len(kept))
        rows = [tuple(int(place[r]) for r in f.rows if place[r] >= 0) for f in self.findings]
        pairs = zip(self.findings, rows, strict=True)
        return RowFindings(
            tuple(replace(f, rows=some) for f, some in pairs if some or not f.rows), self.added[kept]
        )

    def by_row(self, positions: Integers) -> list[list[quality.Finding]]:
        """Findings that make each of these rows odd, the most surprising first."""
        found: dict[int, list[quality.Finding]] = {int(p): [] for p in positions}
        for finding in sorted(self.findings, key=lambda each: -addition(each)):
            if addition(finding) > 0:
                for row in finding.rows:
                    if row in found:
                        found[row].append(finding)
        return [found[int(p)] for p in positions]


def addition(finding: quality.Finding) -> float:
    """Surprise that a finding adds to each of its rows; 0 where it makes no row odd."""
    if finding.surprise <= 0 or not finding.rows:
        return 0.0
    return max(LEAST_ADDED, min(finding.surprise, MOST_ADDED) - float(np.log(len(finding.rows))))


def with_findings(
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
        total = sum(addition(finding) for finding in found)
        for finding in found:
            for name, part in column_parts(finding).items():
                if name in place:
                    values[i, place[name]] += raised[i] * part * addition(finding) / total
    return replace(explanation, values=values, scores=explanation.scores + raised)


def column_parts(finding: quality.Finding) -> dict[str, float]:
    """Part of each column in a finding; the first, which is to blame, has the largest."""
    columns = finding.columns
    if len(columns) <= 1:
        return dict.fromkeys(columns, 1.0)
    rest = (1.0 - GUILTY_PART) / (len(columns) - 1)
    return {name: GUILTY_PART if i == 0 else rest for i, name in enumerate(columns)}


def finding_reasons(
    found: Sequence[quality.Finding], row: pd.Series, typical: Mapping[str, Typical], raised: float
) -> list[Reason]:
    """Reasons of a row that come from findings, one for each.

    `raised` is the share of the row's score that findings added.
    """
    total = sum(addition(finding) for finding in found)
    told = []
    for finding in found:
        name = finding.columns[0] if finding.columns else ""
        share = raised * addition(finding) / total
        value = plain_cell(row[name]) if name in row.index else None
        usual = usual_values(typical[name]) if name in typical else []
        text = f"{row_words(finding, row)} · {100 * share:.0f} %"
        told.append(Reason(name, value, usual, share, text, holds=True))
    return told


def row_words(finding: quality.Finding, row: pd.Series) -> str:
    """The cells of a row that a finding is about, and what is wrong with them."""
    cause = cause_words(finding)
    cells = _cell_and_others(finding, row)
    if finding.kind in TIMES_TOO_LARGE and len(finding.columns) == 1 and cells:
        return cells + cause.removeprefix(finding.columns[0])  # 'bill = 142 is 10 times too large'
    if (
        not cells
        or cause.startswith(cells)
        or (len(finding.columns) == 1 and cause.startswith(f"{finding.columns[0]} = "))
    ):
        return cause
    return f"{cells}: {cause}"


def _cell_and_others(finding: quality.Finding, row: pd.Series) -> str:
    """'total = 12 with price = 3 and quantity = 5'."""
    cells = [f"{name} = {cell_words(plain_cell(row[name]))}" for name in finding.columns if name in row.index]
    first = cells[:1]
    others = cells[1 : 1 + MOST_LISTED]
    return " with ".join([*first, *([" and ".join(others)] if others else [])])


def cause_words(finding: quality.Finding) -> str:
    """Say what is wrong, and in how many rows, without the number in front.

    Examples
    --------
    >>> text = "50 rows: age = 999, a placeholder (other values 18–94)."
    >>> cause_words(quality.Finding("placeholder", ("age",), tuple(range(50)), text, "999"))
    'age = 999, a placeholder (other values 18–94); 50 rows'
    """
    parts = finding.text.removesuffix(".").split(": ", maxsplit=1)
    if len(parts) < 2 or not parts[0][:1].isdigit():
        return parts[-1] if len(parts) < 2 else finding.text.removesuffix(".")
    return parts[1] if parts[0] == ONE_ROW else f"{parts[1]}; {parts[0]}"


def told_findings(
    found: RowFindings, rows: Integers, anomalies: Sequence[Anomaly], typical: Mapping[str, Typical]
) -> list[Finding]:
    """Return what the quality pass found, and alarms with the same cause, as a run tells them."""
    told = [
        Finding(f.kind, list(f.columns), [int(rows[r]) for r in f.rows], f.text, f.example, f.action)
        for f in found.findings
    ]
    known = {row for finding in told for row in finding.rows}
    return told + _same_causes([a for a in anomalies if a.row not in known], typical)


def _same_causes(anomalies: Sequence[Anomaly], typical: Mapping[str, Typical]) -> list[Finding]:
    """Alarms without a finding, those with the same columns (and labels, and side) as one."""
    members: dict[tuple[Any, ...], list[Anomaly]] = defaultdict(list)
    for anomaly in anomalies:
        if anomaly.above_threshold and anomaly.holds:
            named = [reason for reason in anomaly.reasons if reason.holds]
            members[tuple((r.feature, _side(r, typical)) for r in named)].append(anomaly)
    groups = sorted(members.values(), key=lambda group: (-len(group), -group[0].score))
    return [_one_cause(group) for group in groups]


def _side(reason: Reason, typical: Mapping[str, Typical]) -> Any:
    """What rows must share: a label, or on which side of the usual a number is."""
    usual = typical.get(reason.feature)
    if usual is None or usual.kind != "number" or not is_number(reason.value):
        return reason.value
    if is_usual(reason.value, usual):
        return "usual"
    return "high" if reason.value > usual_values(usual)[1] else "low"


def _one_cause(group: Sequence[Anomaly]) -> Finding:
    named = [reason for reason in group[0].reasons if reason.holds]
    rows = [anomaly.row for anomaly in group]
    first = named[0]
    example = first.text.rpartition(" · ")[0] or first.text
    if len(group) == 1:
        return Finding(
            ODD_TOGETHER, [r.feature for r in named], rows, f"1 row: {example}.", example, "told only"
        )
    values = [a.reasons[0].value for a in group]
    if all(is_number(value) for value in values):
        low = number_text(float(min(values)))
        high = number_text(float(max(values)))
        cell = f"{first.feature} = {low}" if low == high else f"{first.feature} from {low} to {high}"
    else:
        cell = f"{first.feature} = {cell_words(first.value)}"
    others = "".join(f" with {reason.feature}" for reason in named[1:])
    is_one_value = len(named) == 1 and len(set(map(str, values))) == 1
    text = f"{len(group)} rows: {'' if is_one_value else f'{cell}{others}, for example '}{example}."
    return Finding(ODD_TOGETHER, [r.feature for r in named], rows, text, example, "told only")
