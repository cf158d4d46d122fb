"""What a manager reads: how many alarms, about what, and how far to trust the reasons."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tellwhy.results.result import AlarmRule, Anomaly, Headline, Notice
from tellwhy.verdicts.causes import MOST_COLUMNS, Cause

MANY = "odd_in_many"


def headline_of(
    n_rows: int, alarms: AlarmRule, anomalies: Sequence[Anomaly], *, by_finding: Collection[int] = ()
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
    by_finding
        Rows that are alarms only because something is wrong with the data: no model was asked about them.
    """
    flagged = [anomaly for anomaly in anomalies if anomaly.above_threshold]
    if not flagged:
        return Headline(n_rows, alarms)
    first = flagged[0]
    judged = [anomaly for anomaly in flagged if anomaly.row not in by_finding]
    return Headline(
        n_rows,
        alarms,
        foremost=f"row {first.row}" if first.id is None else first.id,
        reason=first.reasons[0] if first.reasons else None,
        n_explained=len(flagged),
        n_by_finding=len(flagged) - len(judged),
        n_holding=sum(anomaly.holds for anomaly in judged),
        n_many=sum(anomaly.doubt is not None and anomaly.doubt.kind == MANY for anomaly in judged),
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
