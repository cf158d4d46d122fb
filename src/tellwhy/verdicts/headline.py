"""What a manager reads: how many alarms, about what, and how far to trust the reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tellwhy.results.result import AlarmRule, Anomaly, Headline, Notice, Typical
from tellwhy.verdicts.causes import MOST_COLUMNS, Cause
from tellwhy.verdicts.entries import count_causes

MANY = "odd_in_many"


def headline_of(
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


def doubt_of(cause: Cause) -> Notice | None:
    """Tell why no reason is sure; None where one is.

    Examples
    --------
    >>> doubt_of(Cause((0,), is_sufficient=True, is_necessary=True))
    """
    if cause.holds:
        return None
    if cause.is_sufficient:
        return Notice("odd_together")
    if len(cause.changed) > MOST_COLUMNS:
        return Notice(MANY, {"n": len(cause.changed), "most": MOST_COLUMNS})
    return Notice("not_enough")
