"""What a manager reads: how many alarms, about what, and how far to trust the reasons."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tellwhy.results.run import AlarmRule, Anomaly
from tellwhy.verdicts.causes import MOST_COLUMNS, Cause

MANY = f"odd in more than {MOST_COLUMNS}"


def headline_of(
    n_rows: int, alarms: AlarmRule, anomalies: Sequence[Anomaly], *, by_finding: Collection[int] = ()
) -> list[str]:
    """Return three sentences: the alarms, the foremost of them, and whether the reasons hold.

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

    Examples
    --------
    >>> headline_of(500, AlarmRule("at most 10 % false alarms expected", 0, 0.0), [])
    ['None of the 500 rows stands out: no alarm with at most 10 % false alarms expected.']
    """
    flagged = [anomaly for anomaly in anomalies if anomaly.above_threshold]
    if not flagged:
        return [f"None of the {n_rows:,} rows stands out: no alarm with {alarms.rule}."]
    return [_how_many(n_rows, alarms), _foremost(flagged[0]), _how_sure(flagged, by_finding)]


def _how_many(n_rows: int, alarms: AlarmRule) -> str:
    """Count alarms.

    Examples
    --------
    >>> _how_many(800, AlarmRule("at most 10 % false alarms expected", 1, 0.1))
    '1 of 800 rows is an alarm (at most 10 % false alarms expected); chance alone would raise less than one.'
    >>> _how_many(800, AlarmRule("the highest 5 % of scores", 40, 3.1))
    '40 of 800 rows are alarms (the highest 5 % of scores); chance alone would raise about 3 of them.'
    """
    is_one = alarms.n_flagged == 1
    verb = "is an alarm" if is_one else "are alarms"
    chance = _count(alarms.expected_false) + ("" if is_one else " of them")
    return (
        f"{alarms.n_flagged:,} of {n_rows:,} rows {verb} ({alarms.rule}); chance alone would raise {chance}."
    )


def _count(expected: float) -> str:
    """'about 3', 'less than one'."""
    return "less than one" if expected < 1 else f"about {expected:,.0f}"


def _foremost(anomaly: Anomaly) -> str:
    name = f"row {anomaly.row}" if anomaly.id is None else anomaly.id
    why = anomaly.reasons[0].text if anomaly.reasons else "no column stands out"
    why = why.rpartition(" · ")[0] or why  # without its share of the score
    return f"The oddest is {name}: {why}{'' if why.endswith('?') else '.'}"


def _how_sure(flagged: Sequence[Anomaly], by_finding: Collection[int]) -> str:
    judged = [anomaly for anomaly in flagged if anomaly.row not in by_finding]
    n_found = len(flagged) - len(judged)
    verb = "rests" if n_found == 1 else "rest"
    found = f"{_part(n_found, len(flagged), 'alarm')} {verb} on a finding alone: see there how sure it is."
    found = found[0].upper() + found[1:]
    if not judged:
        return found
    verified = _verified(judged, "other" if n_found else "alarm")
    return f"{found} {verified}" if n_found else verified


def _verified(judged: Sequence[Anomaly], noun: str) -> str:
    """Tell how many reasons hold, and what that means."""
    n_holding = sum(anomaly.holds for anomaly in judged)
    if not n_holding:
        everyone = _part(len(judged), len(judged), noun)
        return f"The reasons of {everyone} could not be verified{_many(judged)}"
    return (
        f"The reasons of {_part(n_holding, len(judged), noun)} were verified: with usual values in the named "
        f"columns the row is ordinary, and with usual values everywhere else it is not{_many(judged)}"
    )


def _part(k: int, n: int, noun: str) -> str:
    """Say so many of all alarms, or of the others, as people do.

    Examples
    --------
    >>> _part(1, 1, "alarm"), _part(1, 1, "other"), _part(2, 2, "other")
    ('the alarm', 'the other one', 'both others')
    >>> _part(5, 5, "alarm"), _part(3, 5, "alarm"), _part(3, 5, "other")
    ('all 5 alarms', '3 of 5 alarms', '3 of the 5 others')
    """
    is_other = noun == "other"
    if n == 1:
        return "the other one" if is_other else "the alarm"
    if k == n:
        return f"{'both' if n == 2 else f'all {n:,}'} {noun}s"
    return f"{k:,} of {'the ' if is_other else ''}{n:,} {noun}s"


def _many(judged: Sequence[Anomaly]) -> str:
    n_many = sum(anomaly.note.startswith(MANY) for anomaly in judged)
    verb = "is" if n_many == 1 else "are"
    return f"; {n_many} {verb} odd in more than {MOST_COLUMNS} columns at once." if n_many else "."


def uncertainty(cause: Cause) -> str:
    """Say why no reason is sure; nothing where one is.

    Examples
    --------
    >>> uncertainty(Cause((0,), is_sufficient=True, is_necessary=True))
    ''
    """
    if cause.holds:
        return ""
    if cause.is_sufficient:
        return "reason uncertain: the row is odd only through how several columns go together"
    if len(cause.changed) > MOST_COLUMNS:
        return f"{MANY} columns at once: usual values in {len(cause.changed)} of them make the row ordinary"
    return "reason uncertain: usual values in the named columns do not make the row ordinary"
