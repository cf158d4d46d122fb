"""What a manager reads: how many alarms, about what, how far to trust the reasons; one cause, one entry."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tellwhy.results.notice import Notice
from tellwhy.results.result import AlarmRule, Anomaly, Finding, Headline, Typical
from tellwhy.storage.documents import make_plain
from tellwhy.verdicts.causes import MOST_COLUMNS, Cause
from tellwhy.verdicts.findings import describe_part_of_cause

MANY = "odd_in_many"


def make_headline(
    n_rows: int, alarms: AlarmRule, anomalies: Sequence[Anomaly], usual: Mapping[str, Typical]
) -> Headline:
    """Return the alarms, the foremost of them, and whether the reasons hold.

    Parameters
    ----------
    n_rows
        Number of rows that were scored.
    alarms
        Where the line was drawn.
    anomalies
        Explained rows.
    usual
        What is usual in each column.
    """
    flagged = [anomaly for anomaly in anomalies if anomaly.above_threshold]
    if not flagged:
        return Headline(n_rows, alarms)
    first = flagged[0]
    known_by = [anomaly.known_by for anomaly in flagged]
    return Headline(
        n_rows,
        alarms,
        foremost=f"row {first.row}" if first.id is None else first.id,
        reason=first.reasons[0] if first.reasons else None,
        n_explained=len(flagged),
        n_by_finding=known_by.count("rule"),
        n_holding=known_by.count("verified"),
        n_many=sum(each.doubt is not None and each.doubt.kind == MANY for each in flagged),
        n_causes=count_causes(flagged, usual),
    )


def find_doubt(cause: Cause) -> Notice | None:
    """Tell why no reason is sure; None where one is.

    Examples
    --------
    >>> find_doubt(Cause((0,), is_sufficient=True, is_necessary=True))
    """
    if cause.holds:
        return None
    if cause.is_sufficient:
        return Notice("odd_together")
    if len(cause.changed) > MOST_COLUMNS:
        return Notice(MANY, {"n": len(cause.changed), "most": MOST_COLUMNS})
    return Notice("not_enough")


@dataclass(frozen=True)
class Entry:
    """Rows with one cause.

    Attributes
    ----------
    anomalies
        Those that were explained, the oddest first; its reasons are told.
    n_rows
        How many rows there are in all.
    """

    anomalies: tuple[Anomaly, ...]
    n_rows: int

    @property
    def first(self) -> Anomaly:
        """The oddest of the rows."""
        return self.anomalies[0]


def group_entries(anomalies: Sequence[Anomaly], usual: Mapping[str, Typical]) -> list[Entry]:
    """Put rows with the same cause together, in the order of the oddest of each.

    A cause is a finding, or the columns that make rows odd, each with its label or the side on which its
    number lies. Rows below the line have no cause in common.

    Parameters
    ----------
    anomalies
        Explained rows, the oddest first.
    usual
        What is usual in each column.
    """
    members: dict[str, list[Anomaly]] = {}
    for anomaly in anomalies:
        members.setdefault(_write_cause(anomaly, usual), []).append(anomaly)
    return [Entry(tuple(rows), _count(rows)) for rows in members.values()]


def count_causes(anomalies: Sequence[Anomaly], usual: Mapping[str, Typical]) -> int:
    """How many different causes the alarms among these rows have."""
    return len({_write_cause(anomaly, usual) for anomaly in anomalies if anomaly.is_alarm})


def _write_cause(anomaly: Anomaly, usual: Mapping[str, Typical]) -> str:
    """The cause of a row as text; of a row below the line, its number."""
    if not anomaly.is_alarm or not anomaly.reasons:
        return f"row {anomaly.row}"
    found = next((reason.finding for reason in anomaly.reasons if reason.finding is not None), None)
    if found is not None:
        return write_finding_key(found)
    named = [reason for reason in anomaly.reasons if reason.holds]
    sides = [[*describe_part_of_cause(each, usual), each.kind] for each in named or anomaly.reasons[:1]]
    return _write_text([bool(named), sorted(sides, key=str)])


def write_finding_key(found: Finding) -> str:
    """What findings with one cause share, as text."""
    return _write_text([found.kind, list(found.columns), found.form, dict(found.facts)])


def _write_text(cause: object) -> str:
    return json.dumps(make_plain(cause), ensure_ascii=False, sort_keys=True)


def _count(rows: Sequence[Anomaly]) -> int:
    """All rows of a cause: a finding counts those too that were not explained."""
    found = next((each.finding for each in rows[0].reasons if each.finding is not None), None)
    return max(len(rows), 0 if found is None else found.n_rows)
