"""Feedback: what somebody knows to be no trouble is not raised again, by its cause and not by its row.

The cause of an alarm is what made it odd. For a finding of the quality pass that is its kind, its columns
and, where the finding is about one value (a placeholder, a new label), that value. For a reason of the
detector it is the columns that make the row odd, each with its label, or the side on which its number lies
beyond what is usual. Another row that is odd for the same cause is held back too; one that is odd for more
than that is not, nor one whose number is more than twice as far off as the one that somebody looked at.

The detector does not see the cell of a finding that is marked: it would find it odd for the same cause.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tellwhy import checks as quality
from tellwhy.checks.mistakes import MISTAKES, is_of_alarms
from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import Fit, are_finite, are_texts
from tellwhy.core.score import Integers
from tellwhy.kinds.request import write_cell
from tellwhy.results.notice import Notice
from tellwhy.results.result import Anomaly, Reason, Result, Typical
from tellwhy.storage.documents import make_plain
from tellwhy.verdicts.findings import RowFindings, measure_addition
from tellwhy.verdicts.reasons import is_usual, list_usual
from tellwhy.words.numbers import is_number

MOST_LISTED = 1000  # rows that a result lists of each mark

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
    reach
        Numbers that it covers: lowest and highest of a column, None for no limit.
    id, when, who
        Its own number, and when and by whom it was made.
    """

    cause: str
    words: str
    why: str
    reach: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    id: str = ""
    when: str = ""
    who: str = ""

    def _require(self) -> Iterator[Fit]:
        yield "cause", are_texts(self.cause, self.words, self.why, self.id, self.when, self.who), True
        yield "reach", all(_is_pair(each) for each in self.reach.values()), True

    def covers(self, name: str, cell: Any) -> bool:
        """Whether a cell of a column lies within what somebody looked at."""
        low, high = self.reach.get(name, (None, None))
        if low is None and high is None:
            return True
        number = _number(cell)
        return number is not None and (low is None or low <= number) and (high is None or number <= high)


def _is_pair(limits: Any) -> bool:
    return len(limits) == 2 and all(each is None or are_finite(each) for each in limits)


def _number(cell: Any) -> float | None:
    try:
        number = float(cell)
    except (TypeError, ValueError):
        return None
    return number if np.isfinite(number) else None


def write_finding_cause(kind: str, columns: Sequence[str], value: Any) -> str:
    """The cause of a finding, as text.

    Examples
    --------
    >>> write_finding_cause("placeholder", ["age"], 999.0)
    '["placeholder", ["age"], "999"]'
    >>> write_finding_cause("broken_relation", ["total", "price"], 12.0)
    '["broken_relation", ["total", "price"], ""]'
    """
    told = write_cell(value) if MISTAKES[kind].is_of_one_value else ""
    return _write_value([kind, list(columns), told])


def write_reason_cause(reasons: Sequence[Reason], typical: Mapping[str, Typical]) -> str:
    """The cause that the detector's reasons tell: columns, with their labels or sides; '' without any."""
    held = [each for each in reasons if each.holds or each.finding is not None] or list(reasons[:1])
    pairs = sorted([reason.feature, find_side(reason, typical)] for reason in held)
    return _write_value(["odd", pairs]) if pairs else ""


def find_side(reason: Reason, typical: Mapping[str, Typical]) -> str:
    """'high', 'low' or 'usual' for a number; the label itself for a label."""
    usual = typical.get(reason.feature)
    if reason.value is None:
        return "missing"
    if usual is None or usual.kind != "number" or not is_number(reason.value):
        return write_cell(reason.value)
    if is_usual(reason.value, usual):
        return "usual"
    return "high" if reason.value > list_usual(usual)[1] else "low"


def _write_value(value: Any) -> str:
    return json.dumps(make_plain(value), ensure_ascii=False)


def make_marks(run: Result, row: int, why: str) -> list[Mark]:
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
    marks = [_mark_of_finding(each, _find_cell(cells, each.columns), why) for each in found if each.columns]
    named = {name for finding in found for name in finding.columns}
    others = [reason for reason in anomaly.reasons if reason.feature not in named]
    if write_reason_cause(others, run.usual) and (not found or any(reason.holds for reason in others)):
        marks.append(_mark_of_reasons(others, run.usual, why, all_of_them=not found))
    if not marks:
        raise InvalidParameter(f"Row {row} has no reason that could be recognised in other rows.")
    return marks


def _mark_of_finding(finding: quality.Finding, cell: Any, why: str) -> Mark:
    number = None if MISTAKES[finding.kind].is_of_one_value else _number(cell)
    reach = {} if number is None else {finding.columns[0]: (-2 * abs(number), 2 * abs(number))}
    return Mark(write_finding_cause(finding.kind, finding.columns, cell), finding.text, why, reach)


def _mark_of_reasons(
    reasons: Sequence[Reason], typical: Mapping[str, Typical], why: str, *, all_of_them: bool
) -> Mark:
    told = [reason for reason in reasons if reason.holds or all_of_them]
    reach = {reason.feature: _reach(reason.value, typical.get(reason.feature)) for reason in told}
    words = "; ".join(reason.text for reason in told)
    return Mark(
        write_reason_cause(reasons, typical), words, why, {n: each for n, each in reach.items() if any(each)}
    )


def _reach(value: Any, usual: Typical | None) -> tuple[float | None, float | None]:
    """Numbers up to twice as far beyond what is usual as this one."""
    number = _number(value)
    if usual is None or usual.kind != "number" or number is None or is_usual(number, usual):
        return (None, None)
    low, high = list_usual(usual)
    return (None, 2 * number - high) if number > high else (2 * number - low, None)


def _find_cell(cells: pd.Series | None, columns: Sequence[str]) -> Any:
    return None if cells is None or columns[0] not in cells.index else cells[columns[0]]


def row_of(run: Result, told: str) -> int:
    """Return the number of the row that a person names as a run shows it: by its id, else by its number.

    Parameters
    ----------
    run
        The run.
    told
        `A393`, or `393`.
    """
    by_id = [anomaly.row for anomaly in run.anomalies if anomaly.id is not None and str(anomaly.id) == told]
    if len(by_id) > 1:
        raise InvalidParameter(
            f"{len(by_id)} rows of this run have the id {told}: rows {by_id[0]}, {by_id[1]}, …. "
            "Name the line of one in its file with --line."
        )
    if by_id:
        return by_id[0]
    if not told.isdigit():
        known = ", ".join(str(a.row if a.id is None else a.id) for a in run.anomalies[:8])
        raise InvalidParameter(f"No explained row of this run is called {told!r}; these are {known}, ….")
    return int(told)


def row_at_line(run: Result, line: int) -> int:
    """Return the number of the row that stands in a line of the file, as a run shows it."""
    found = next((anomaly.row for anomaly in run.anomalies if anomaly.part.line == line), None)
    if found is None:
        raise InvalidParameter(f"No explained row of this run stands in line {line} of its file.")
    return found


def add_marks(model: TableModel, marks: Sequence[Mark]) -> TableModel:
    """The model with further marks; one of a cause that is marked already takes its place."""
    known = {mark.cause: mark for mark in model.marks}
    known |= {mark.cause: mark for mark in marks}
    return model.with_marks(list(known.values()))


@dataclass(frozen=True)
class Held:
    """What marks hold back of what was found.

    Attributes
    ----------
    rows
        Rows of each cause, which would be alarms by it.
    cells
        Rows of each column whose cell is known to be no trouble, and what should stand there, if that is
        known.
    """

    rows: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    cells: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)

    def replaced(self, frame: pd.DataFrame, ordinary: pd.DataFrame) -> pd.DataFrame:
        """Return the cells with what should stand in these, or with what is most usual in ordinary rows."""
        names = [name for name in self.cells if name in frame and name in ordinary]
        if not names:
            return frame
        frame = frame.copy()
        for name in names:
            rows = list(self.cells[name])
            known = ordinary[name].dropna()
            is_number = pd.api.types.is_numeric_dtype(known.dtype)
            usual = known.median() if is_number else next(iter(known.mode()), None)
            told = [usual if cell is None else cell for cell in self.cells[name].values()]
            if is_number:
                told = pd.to_numeric(pd.Series(told, dtype=object), errors="coerce").fillna(usual).tolist()
                frame[name] = frame[name].astype("float64")
            frame[name] = _with_cells(frame[name], rows, told)
        return frame

    def with_more(self, other: Held) -> Held:
        """Both together."""
        rows = {
            name: (*self.rows.get(name, ()), *other.rows.get(name, ()))
            for name in {**self.rows, **other.rows}
        }
        return Held(rows, self.cells)

    def without(self, kept: Integers, n_rows: int) -> Held:
        """Keep only some of the rows, which are then counted anew."""
        place = np.full(n_rows, -1)
        place[kept] = np.arange(len(kept))
        return Held({c: tuple(int(place[row]) for row in r if place[row] >= 0) for c, r in self.rows.items()})


def _with_cells(column: pd.Series, rows: Sequence[int], cells: Sequence[Any]) -> pd.Series:
    values = column.astype(object).to_numpy(copy=True)
    values[list(rows)] = cells
    return pd.Series(values, index=column.index, name=column.name).astype(column.dtype, errors="ignore")


NOTHING_HELD = Held()


def drop_marked(found: RowFindings, frame: pd.DataFrame, marks: Sequence[Mark]) -> tuple[RowFindings, Held]:
    """Findings without those that are marked; and what each mark held back."""
    known = {mark.cause: mark for mark in marks}
    rows: dict[str, list[int]] = {}
    cells: dict[str, dict[int, Any]] = {}
    kept: list[quality.Finding] = []
    for finding in found.findings if known else ():
        causes = _marked_causes(finding, frame, known)
        expected = finding.expected or [None] * len(causes)
        for row, cause, told in zip(finding.rows, causes, expected, strict=True):
            if cause:
                cells.setdefault(finding.columns[0], {})[row] = told
                if measure_addition(finding) > 0:
                    rows.setdefault(cause, []).append(row)
        free = [i for i, cause in enumerate(causes) if not cause]
        if free or not finding.rows:
            kept.append(finding if len(free) == len(finding.rows) else finding.of_rows(free))
    if not cells:
        return found, NOTHING_HELD
    held = Held({cause: tuple(numbers) for cause, numbers in rows.items()}, cells)
    return RowFindings.of(kept, len(found.added)), held


def _marked_causes(finding: quality.Finding, frame: pd.DataFrame, known: Mapping[str, Mark]) -> list[str]:
    """The marked cause of each row of a finding; '' where it has none."""
    if not finding.rows or not finding.columns:
        return [""] * len(finding.rows)
    name = finding.columns[0]
    cells = frame[name].iloc[list(finding.rows)] if name in frame else [None] * len(finding.rows)
    causes = [(write_finding_cause(finding.kind, finding.columns, cell), cell) for cell in cells]
    return [cause if cause in known and known[cause].covers(name, cell) else "" for cause, cell in causes]


def marked_cause(anomaly: Anomaly, typical: Mapping[str, Typical], marks: Sequence[Mark]) -> str:
    """The marked cause of an alarm that the detector raised; '' where it has none."""
    cause = write_reason_cause(anomaly.reasons, typical)
    known = next((mark for mark in marks if mark.cause == cause), None) if cause else None
    if known is None:
        return ""
    told = {reason.feature: reason.value for reason in anomaly.reasons}
    return cause if all(known.covers(name, told.get(name)) for name in known.reach) else ""


def hold_back(run: Result, marks: Sequence[Mark], held: Held) -> Result:
    """The run without the alarms whose cause is marked, and with a sentence on how many these were.

    Parameters
    ----------
    run
        With all its alarms.
    marks
        Of the model.
    held
        What marks held back already, as findings.
    """
    by_row = [marked_cause(a, run.usual, marks) if a.above_threshold else "" for a in run.anomalies]
    gone = {anomaly.row: cause for anomaly, cause in zip(run.anomalies, by_row, strict=True) if cause}
    by_cause = rows_held(held, run.rows, run.scores > run.line)
    for row, cause in gone.items():
        by_cause.setdefault(cause, []).append(row)
    if not by_cause:
        return run
    stays = np.array([not cause for cause in by_row], dtype=bool)
    if not stays.any():  # a run tells at least one row: the oddest of those that are known, as no alarm
        stays[0] = True
    kept = [
        replace(each, is_alarm=False, doubt=Notice("marked")) if each.row in gone else each
        for each, is_kept in zip(run.anomalies, stays, strict=True)
        if is_kept
    ]
    return _keep_told(run, kept, np.flatnonzero(stays), set(gone), _make_notice(marks, by_cause))


def rows_held(held: Held, rows: Sequence[int], is_alarm: NDArray[np.bool_]) -> dict[str, list[int]]:
    """Rows that each mark holds back: those that are no alarms for anything else."""
    free = {cause: [int(rows[p]) for p in places if not is_alarm[p]] for cause, places in held.rows.items()}
    return {cause: numbers for cause, numbers in free.items() if numbers}


def _keep_told(run: Result, kept: list[Anomaly], places: np.ndarray, gone: set[int], held: Notice) -> Result:
    from tellwhy.verdicts.headline import make_headline
    from tellwhy.verdicts.reasons import group_anomalies

    is_gone = np.isin(np.asarray(run.rows), list(gone))
    # A row that is known is no alarm: its score is told as the line itself.
    scores = np.where(is_gone, np.minimum(run.scores, run.line), run.scores)
    alarms = None if run.alarms is None else replace(run.alarms, n_flagged=int((scores > run.line).sum()))
    opening = run.opening if alarms is None else make_headline(len(scores), alarms, kept, run.usual)
    findings = [f.of_rows([i for i, row in enumerate(f.rows) if row not in gone]) for f in run.findings]
    return replace(
        run,
        anomalies=kept,
        explanation=run.explanation[places],
        table_rows=None if run.table_rows is None else run.table_rows.iloc[places].reset_index(drop=True),
        scores=scores,
        alarms=alarms,
        groups=group_anomalies(kept),
        opening=None if opening is None else replace(opening, more=[*opening.more, held]),
        findings=[f for f, was in zip(findings, run.findings, strict=True) if f.rows or not was.rows],
        notices=[*run.notices, held],
    )


def _make_notice(marks: Sequence[Mark], by_cause: Mapping[str, Sequence[int]]) -> Notice:
    """How many rows were held back, by which marks, and which rows these are."""
    by_why: dict[str, set[int]] = {}  # a row may have been marked for several causes at once
    for mark in marks:
        by_why.setdefault(mark.why, set()).update(by_cause.get(mark.cause, ()))
    used = {why: sorted(rows) for why, rows in by_why.items() if rows}
    return Notice(
        "held_back",
        {
            "n": len({row for rows in used.values() for row in rows}),
            "marks": [[why, len(rows)] for why, rows in used.items()],
            "rows": [rows[:MOST_LISTED] for rows in used.values()],
        },
    )
