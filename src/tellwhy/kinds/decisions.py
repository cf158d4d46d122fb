"""What people decided about a result: which rows are benign, which confirmed, which repairs are right.

Decisions stand in `marks.jsonl` of the result's folder (see `storage.journal`): they are added to, never changed,
and a decision is taken back by another one. What is known is the sum of them. Benign rows become marks of a model
(`kinds.marks`), by which a later run knows rows with the same cause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import one_of, validate_value
from tellwhy.kinds.marks import Mark, finding_cause, marks_of
from tellwhy.results.result import Finding, Result
from tellwhy.storage.journal import Journal

JOURNAL = "marks.jsonl"
BENIGN = "benign"
CONFIRMED = "confirmed"
ACCEPTED = "accepted"
REJECTED = "rejected"
LONGEST = 2000  # letters of a remark
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Decision:
    """One decision that stands.

    Attributes
    ----------
    number
        Of its line in the journal.
    what
        "row": about a row; "repair": about a repair of a cell; "finding": about a cause.
    verdict
        "benign" or "confirmed" of a row; "accepted" or "rejected" of a repair or a finding.
    row, column
        Where; None of a finding.
    by, at, why
        Who decided, when, and what they said.
    marks
        The causes that it marks.
    new
        What the cell is to hold, of a repair.
    """

    number: int
    what: str
    verdict: str
    by: str = ""
    at: str = ""
    why: str = ""
    row: int | None = None
    column: str | None = None
    marks: tuple[Mark, ...] = ()
    new: Any = None

    @property
    def place(self) -> tuple[Any, ...]:
        """What it is about: a later decision on the same takes its place."""
        return (self.what, self.row, self.column, *(mark.cause for mark in self.marks if self.row is None))


@dataclass(frozen=True)
class Standing:
    """What is decided: of each row, cell and finding the last decision that was not taken back.

    Attributes
    ----------
    decisions
        Those that stand, in order.
    n_records
        Lines of the journal, those too that were taken back.
    """

    decisions: tuple[Decision, ...]
    n_records: int

    @cached_property
    def rows(self) -> dict[int, Decision]:
        """By row: whether it is benign or confirmed."""
        return {d.row: d for d in self.decisions if d.what == "row" and d.row is not None}

    @cached_property
    def repairs(self) -> dict[tuple[int, str], Decision]:
        """By row and column: whether a repair is accepted."""
        return {(d.row, d.column): d for d in self.decisions if d.what == "repair"}  # type: ignore[misc]

    @cached_property
    def causes(self) -> dict[str, Decision]:
        """Causes that are no trouble, by their text."""
        return {mark.cause: d for d in self.decisions for mark in d.marks}

    def marks(self) -> list[Mark]:
        """The marks for a model: one for each cause that is no trouble."""
        found = {mark.cause: mark for d in self.decisions for mark in d.marks}
        return list(found.values())


class Decisions:
    """The decisions on one result, shared by everybody who has its folder open."""

    def __init__(self, folder: Path):
        self.journal = Journal(folder / JOURNAL)

    def standing(self) -> Standing:
        """What is decided now, by anybody."""
        records = self.journal.records()
        taken_back = {record["of"] for record in records if record.get("what") == "undo"}
        last: dict[tuple[Any, ...], Decision] = {}
        for record in records:
            if record.get("what") in ("row", "repair", "finding") and record["number"] not in taken_back:
                decision = _decision(record)
                last.pop(decision.place, None)
                last[decision.place] = decision
        return Standing(tuple(last.values()), len(records))

    def mark_row(self, run: Result, row: int, verdict: str, *, why: str = "", by: str = "") -> Decision:
        """Say that a row is benign or confirmed; the causes of a benign row are marked with it."""
        validate_value("mark_row", "verdict", verdict, one_of(BENIGN, CONFIRMED))
        marks = marks_of(run, row, why or BENIGN) if verdict == BENIGN and _is_explained(run, row) else []
        return self._add({"what": "row", "verdict": verdict, "row": row}, marks, why, by)

    def decide_repair(
        self, row: int, column: str, new: Any, verdict: str, *, why: str = "", by: str = ""
    ) -> Decision:
        """Accept or reject what a cell is to hold."""
        validate_value("decide_repair", "verdict", verdict, one_of(ACCEPTED, REJECTED))
        told = {"what": "repair", "verdict": verdict, "row": row, "column": column, "new": new}
        return self._add(told, [], why, by)

    def reject_finding(self, finding: Finding, *, why: str = "", by: str = "") -> Decision:
        """Say that a finding is no trouble: its cause is marked."""
        if not finding.columns:
            raise InvalidParameter("A finding without columns has no cause that could be known again.")
        value = finding.facts.get("value", finding.facts.get("level"))
        mark = Mark(finding_cause(finding.kind, finding.columns, value), finding.text, why or REJECTED)
        return self._add({"what": "finding", "verdict": REJECTED}, [mark], why, by)

    def take_back(self, number: int, *, by: str = "") -> None:
        """Undo a decision; what was decided before it stands again."""
        if number not in {decision.number for decision in self.standing().decisions}:
            raise InvalidParameter(f"There is no decision {number} that stands: it was taken back already.")
        self.journal.add({"what": "undo", "of": number, "by": by})

    def _add(self, told: Mapping[str, Any], marks: Sequence[Mark], why: str, by: str) -> Decision:
        if len(why) > LONGEST:
            raise InvalidParameter(f"A remark has at most {LONGEST:,} letters; got {len(why):,}.")
        listed = [asdict(mark) for mark in marks]
        return _decision(self.journal.add({**told, "why": why, "by": by, "marks": listed}))


def _is_explained(run: Result, row: int) -> bool:
    return any(anomaly.row == row and anomaly.reasons for anomaly in run.anomalies)


def _decision(record: Record) -> Decision:
    fields = ("number", "what", "verdict", "by", "at", "why", "row", "column", "new")
    marks = tuple(Mark(**mark) for mark in record.get("marks", ()))
    return Decision(**{name: record[name] for name in fields if name in record}, marks=marks)
