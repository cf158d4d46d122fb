"""What people decided about a result: which rows are benign, which confirmed, which repairs are right.

Decisions stand in `decisions.jsonl` of the result's folder (see `storage.journal`): they are added to, never
changed, and a decision is taken back by another one. What is known is the sum of them. The causes of benign
rows become marks of the model that judged the rows (`kinds.mark_file`), by which a later run knows rows that
are odd for the same cause.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import one_of, validate_value
from tellwhy.kinds.mark_file import add_marks, forget_marks, name_of_user
from tellwhy.kinds.marks import Mark, make_marks, write_finding_cause
from tellwhy.results.result import Finding, Result
from tellwhy.storage import clock
from tellwhy.storage.journal import append_lines, read_lines

JOURNAL = "decisions.jsonl"
SCHEMA = 1
BENIGN = "benign"
CONFIRMED = "confirmed"
ACCEPTED = "accepted"
REJECTED = "rejected"
VALUES = ("value", "level", "written")  # under which a finding about one value holds it
LONGEST = 2000  # letters of a remark
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Decision:
    """One decision that stands.

    Attributes
    ----------
    id
        Its own number.
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

    id: str
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
        told = [decision for decision in self.decisions if decision.what == "repair"]
        return {(d.row or 0, d.column or ""): d for d in told}

    @cached_property
    def causes(self) -> dict[str, Decision]:
        """Causes that are no trouble, by their text."""
        return {mark.cause: d for d in self.decisions for mark in d.marks}

    def marks(self) -> list[Mark]:
        """The marks for a model: one for each cause that is no trouble."""
        found = {mark.cause: mark for d in self.decisions for mark in d.marks}
        return list(found.values())


class Decisions:
    """The decisions on one result, shared by everybody who has its folder open.

    Parameters
    ----------
    folder
        Of the result.
    model_file
        The model that judged the rows: causes that are no trouble are marked beside it. None: nowhere.
    """

    def __init__(self, folder: Path, model_file: Path | None = None):
        self.path = folder / JOURNAL
        self.folder = folder
        self.model_file = model_file
        self._alone = threading.Lock()
        self._known: tuple[int, Standing] = (0, Standing((), 0))

    def standing(self) -> Standing:
        """What is decided now, by anybody."""
        with self._alone:
            # The file only grows: as long as it has its length, it says what it said.
            length = self.path.stat().st_size if self.path.exists() else 0
            if length != self._known[0]:
                self._known = (length, _standing(read_lines(self.path)))
            return self._known[1]

    def mark_row(self, run: Result, row: int, verdict: str, *, why: str = "", by: str = "") -> Decision:
        """Say that a row is benign or confirmed; the causes of a benign row are marked with it."""
        validate_value("mark_row", "verdict", verdict, one_of(BENIGN, CONFIRMED))
        marks = make_marks(run, row, why or BENIGN) if verdict == BENIGN and _is_explained(run, row) else []
        return self._add({"what": "row", "verdict": verdict, "row": row}, marks, why, by)

    def decide_repair(
        self, cell: tuple[int, str], new: Any, verdict: str, *, why: str = "", by: str = ""
    ) -> Decision:
        """Accept or reject what the cell in a row and a column is to hold."""
        validate_value("decide_repair", "verdict", verdict, one_of(ACCEPTED, REJECTED))
        told = {"what": "repair", "verdict": verdict, "row": cell[0], "column": cell[1], "new": new}
        return self._add(told, [], why, by)

    def accept_repairs(
        self, wanted: Sequence[tuple[tuple[int, str], Any]], *, by: str = ""
    ) -> list[Decision]:
        """Accept what many cells are to hold, each told by its row and its column, in one step."""
        told = [
            {
                "schema": SCHEMA,
                "id": secrets.token_hex(6),
                "what": "repair",
                "verdict": ACCEPTED,
                "row": cell[0],
                "column": cell[1],
                "new": new,
                **_stamp(by),
            }
            for cell, new in wanted
        ]
        append_lines(self.path, told)
        return [_decision(record) for record in told]

    def reject_finding(self, finding: Finding, *, why: str = "", by: str = "") -> Decision:
        """Say that a finding is no trouble: its cause is marked."""
        return self._add({"what": "finding", "verdict": REJECTED}, [make_finding_mark(finding, why)], why, by)

    def take_back(self, id: str, *, by: str = "") -> None:
        """Undo a decision; what was decided before it stands again."""
        before = self.standing()
        gone = next((decision for decision in before.decisions if decision.id == id), None)
        if gone is None:
            raise InvalidParameter(f"There is no decision {id[:20]} that stands: it was taken back already.")
        append_lines(self.path, [{"schema": SCHEMA, "what": "undo", "of": id, **_stamp(by)}])
        if gone.marks and self.model_file is not None:
            still = {mark.cause: mark for mark in self.standing().marks()}
            forget_marks(self.model_file, gone.marks, who=by)
            again = [still[mark.cause] for mark in gone.marks if mark.cause in still]
            add_marks(self.model_file, again, run=str(self.folder), who=by)

    def _add(self, told: Mapping[str, Any], marks: Sequence[Mark], why: str, by: str) -> Decision:
        if len(why) > LONGEST:
            raise InvalidParameter(f"A remark has at most {LONGEST:,} letters; got {len(why):,}.")
        if marks and self.model_file is not None:
            marks = add_marks(self.model_file, marks, run=str(self.folder), who=by)
        head = {"schema": SCHEMA, "id": secrets.token_hex(6), **told, **_stamp(by)}
        record = {**head, "why": why, "marks": [asdict(mark) for mark in marks]}
        append_lines(self.path, [record])
        return _decision(record)


def make_finding_mark(finding: Finding, why: str) -> Mark:
    """The mark that says that a finding is no trouble, whatever its rows."""
    if not finding.columns:
        raise InvalidParameter("A finding without columns has no cause that could be known again.")
    value = next((finding.facts[name] for name in VALUES if name in finding.facts), None)
    cause = write_finding_cause(finding.kind, finding.columns, value)
    return Mark(cause, finding.text, why or REJECTED)


def _stamp(by: str) -> dict[str, str]:
    return {"by": by or name_of_user(), "at": clock.stamp()}


def _standing(records: Iterable[Record]) -> Standing:
    """What stands, of all that was written."""
    listed = list(records)
    taken_back = {record.get("of") for record in listed if record.get("what") == "undo"}
    last: dict[tuple[Any, ...], Decision] = {}
    for record in listed:
        if record.get("what") in ("row", "repair", "finding") and record.get("id") not in taken_back:
            decision = _decision(record)
            last.pop(decision.place, None)
            last[decision.place] = decision
    return Standing(tuple(last.values()), len(listed))


def _is_explained(run: Result, row: int) -> bool:
    """Whether a row of a table was explained; of other data, no cause is known again."""
    return run.kind == "table" and any(a.row == row and a.reasons for a in run.anomalies)


def _decision(record: Record) -> Decision:
    fields = ("id", "what", "verdict", "why", "by", "at", "row", "column", "new")
    marks = tuple(_mark(mark) for mark in record.get("marks", ()))
    return Decision(**{name: record[name] for name in fields if name in record}, marks=marks)


def _mark(told: Mapping[str, Any]) -> Mark:
    reach = {name: (low, high) for name, (low, high) in told["reach"].items()}
    return Mark(**{**told, "reach": reach})
