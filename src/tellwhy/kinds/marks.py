"""Feedback: what somebody knows to be no trouble is not raised again, by its cause and not by its row.

The cause of an alarm is what made it odd. For a finding of the quality pass that is its kind, its columns
and, where the finding is about one value (a placeholder, a new label), that value. For a reason of the
detector it is the columns that make the row odd, each with its label, or the side on which its number lies
beyond what is usual. Another row that is odd for the same cause is held back too; one that is odd for more
than that is not.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tellwhy import checks as quality
from tellwhy.checks.mistakes import MISTAKES, is_of_alarms
from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import Fit, are_texts
from tellwhy.kinds.request import cell_text
from tellwhy.results.result import Anomaly, Notice, Reason, Result, Typical
from tellwhy.storage.documents import plain
from tellwhy.verdicts.findings import RowFindings
from tellwhy.verdicts.reasons import is_usual, usual_values
from tellwhy.words.numbers import is_number

if TYPE_CHECKING:
    from tellwhy.kinds.table_model import TableModel


@dataclass(frozen=True)
class Mark:
    """A finding that somebody looked at and knows to be no trouble.

    Attributes
    ----------
    cause
        What made the row odd (see `cause_of`), as text.
    words
        The reason of the row that was marked, for people.
    why
        What the user said.
    """

    cause: str
    words: str
    why: str

    def _fits(self) -> Iterator[Fit]:
        yield "cause", are_texts(self.cause, self.words, self.why), True


def finding_cause(kind: str, columns: Sequence[str], value: Any) -> str:
    """The cause of a finding, as text.

    Examples
    --------
    >>> finding_cause("placeholder", ["age"], 999.0)
    '["placeholder", ["age"], "999"]'
    >>> finding_cause("broken_relation", ["total", "price"], 12.0)
    '["broken_relation", ["total", "price"], ""]'
    """
    told = cell_text(value) if MISTAKES[kind].is_of_one_value else ""
    return _text([kind, list(columns), told])


def reason_cause(reasons: Sequence[Reason], typical: Mapping[str, Typical]) -> str:
    """The cause that the detector's reasons tell: columns, with their labels or sides; '' without any."""
    held = [each for each in reasons if each.holds or each.finding is not None] or list(reasons[:1])
    pairs = sorted([reason.feature, side_of(reason, typical)] for reason in held)
    return _text(["odd", pairs]) if pairs else ""


def side_of(reason: Reason, typical: Mapping[str, Typical]) -> str:
    """'high', 'low' or 'usual' for a number; the label itself for a label."""
    usual = typical.get(reason.feature)
    if reason.value is None:
        return "missing"
    if usual is None or usual.kind != "number" or not is_number(reason.value):
        return cell_text(reason.value)
    if is_usual(reason.value, usual):
        return "usual"
    return "high" if reason.value > usual_values(usual)[1] else "low"


def _text(value: Any) -> str:
    return json.dumps(plain(value), ensure_ascii=False)


def marks_of(run: Result, row: int, why: str) -> list[Mark]:
    """The marks that say that an explained row of a run is no trouble: one for each of its causes.

    Parameters
    ----------
    run
        A run that was made with a model.
    row
        Number of the row in its table.
    why
        Why it is no trouble, for people.
    """
    at = next((i for i, anomaly in enumerate(run.anomalies) if anomaly.row == row), None)
    if at is None:
        known = ", ".join(str(anomaly.row) for anomaly in run.anomalies[:8])
        raise InvalidParameter(
            f"Row {row} is not among the explained rows of this run; these are {known}, …."
        )
    anomaly = run.anomalies[at]
    cells = None if run.table_rows is None else run.table_rows.iloc[at]
    found = [finding for finding in run.findings if row in finding.rows and not is_of_alarms(finding)]
    marks = [
        Mark(finding_cause(f.kind, f.columns, _cell(cells, f.columns)), f.text, why)
        for f in found
        if f.columns
    ]
    named = {name for finding in found for name in finding.columns}
    others = [reason for reason in anomaly.reasons if reason.feature not in named]
    cause = reason_cause(others, run.usual)
    if cause and (not found or any(reason.holds for reason in others)):
        marks.append(
            Mark(cause, "; ".join(reason.text for reason in others if reason.holds or not found), why)
        )
    if not marks:
        raise InvalidParameter(f"Row {row} has no reason that could be recognised in other rows.")
    return marks


def _cell(cells: pd.Series | None, columns: Sequence[str]) -> Any:
    return None if cells is None or columns[0] not in cells.index else cells[columns[0]]


def with_marks(model: TableModel, marks: Sequence[Mark]) -> TableModel:
    """The model with further marks; one of a cause that is marked already takes its place."""
    known = {mark.cause: mark for mark in model.marks}
    known |= {mark.cause: mark for mark in marks}
    return model.with_marks(list(known.values()))


def without_marked(
    found: RowFindings, frame: pd.DataFrame, marks: Sequence[Mark]
) -> tuple[RowFindings, Counter[str]]:
    """Findings without those that are marked; and how many rows each mark held back.

    The cells that such a finding explains stay missing for the detector: a known placeholder is still none.
    """
    causes = {mark.cause for mark in marks}
    held: Counter[str] = Counter()
    kept: list[quality.Finding] = []
    for finding in found.findings:
        if not finding.rows or not finding.columns:
            kept.append(finding)
            continue
        name = finding.columns[0]
        cells = frame[name].iloc[list(finding.rows)] if name in frame else [None] * len(finding.rows)
        by_row = [finding_cause(finding.kind, finding.columns, cell) for cell in cells]
        free = [i for i, cause in enumerate(by_row) if cause not in causes]
        held.update(cause for cause in by_row if cause in causes)
        if free:
            kept.append(finding if len(free) == len(finding.rows) else finding.of_rows(free))
    return (RowFindings.of(kept, len(found.added)), held) if held else (found, held)


def is_marked(anomaly: Anomaly, typical: Mapping[str, Typical], causes: set[str]) -> str:
    """The marked cause of an alarm that the detector raised; '' where it has none."""
    cause = reason_cause(anomaly.reasons, typical)
    return cause if cause in causes else ""


def held_back(run: Result, marks: Sequence[Mark], held: Counter[str]) -> Result:
    """The run without the alarms whose cause is marked, and with a sentence on how many these were.

    Parameters
    ----------
    run
        With all its alarms.
    marks
        Of the model.
    held
        How many rows each mark held back already, as findings.
    """
    causes = {mark.cause for mark in marks}
    by_row = [is_marked(a, run.usual, causes) if a.above_threshold else "" for a in run.anomalies]
    held = held + Counter(cause for cause in by_row if cause)
    if not held:
        return run
    stays = np.array([not cause for cause in by_row], dtype=bool)
    if not stays.any():  # a run tells at least one row: the oddest of those that are known, as no alarm
        stays[0] = True
    gone = {anomaly.row for anomaly, cause in zip(run.anomalies, by_row, strict=True) if cause}
    kept = [
        replace(each, is_alarm=False, doubt=Notice("marked")) if each.row in gone else each
        for each, is_kept in zip(run.anomalies, stays, strict=True)
        if is_kept
    ]
    return _told(run, kept, np.flatnonzero(stays), gone, _notice(marks, held))


def _told(run: Result, kept: list[Anomaly], places: np.ndarray, gone: set[int], held: Notice) -> Result:
    from tellwhy.verdicts.headline import headline_of
    from tellwhy.verdicts.reasons import groups_of

    is_gone = np.isin(np.asarray(run.rows), list(gone))
    # A row that is known is no alarm: its score is told as the line itself.
    scores = np.where(is_gone, np.minimum(run.scores, run.line), run.scores)
    alarms = None if run.alarms is None else replace(run.alarms, n_flagged=int((scores > run.line).sum()))
    opening = run.opening if alarms is None else headline_of(len(scores), alarms, kept, run.usual)
    findings = [f.of_rows([i for i, row in enumerate(f.rows) if row not in gone]) for f in run.findings]
    return replace(
        run,
        anomalies=kept,
        explanation=run.explanation[places],
        table_rows=None if run.table_rows is None else run.table_rows.iloc[places].reset_index(drop=True),
        scores=scores,
        alarms=alarms,
        groups=groups_of(kept),
        opening=None if opening is None else replace(opening, more=[*opening.more, held]),
        findings=[f for f, was in zip(findings, run.findings, strict=True) if f.rows or not was.rows],
        notices=[*run.notices, held],
    )


def _notice(marks: Sequence[Mark], held: Counter[str]) -> Notice:
    """How many rows were held back, and by which marks."""
    used = [[mark.why, held[mark.cause]] for mark in marks if held[mark.cause]]
    return Notice("held_back", {"n": sum(held.values()), "marks": used})
