"""The headline in English: how many alarms, the foremost of them, and whether the reasons hold."""

from __future__ import annotations

from tellwhy.results.result import Headline

MOST_NAMED = 3  # columns that a reason names


def tell_no_alarm(h: Headline) -> str:
    """Say that nothing stands out.

    Examples
    --------
    >>> from tellwhy.results.result import AlarmRule
    >>> tell_no_alarm(Headline(500, AlarmRule("at most 10 % false alarms expected", 0, 0.0)))
    'None of the 500 rows stands out: no alarm with at most 10 % false alarms expected.'
    """
    return f"None of the {h.n_rows:,} rows stands out: no alarm with {h.alarms.rule}."


def count_alarms(h: Headline) -> str:
    """Count alarms.

    Examples
    --------
    >>> from tellwhy.results.result import AlarmRule
    >>> count_alarms(Headline(800, AlarmRule("the highest score", 1, 0.1)))
    '1 of 800 rows is an alarm (the highest score); fewer than one would be expected by chance alone.'
    >>> count_alarms(Headline(800, AlarmRule("the highest 5 % of scores", 40, 3.1)))
    '40 of 800 rows are alarms (the highest 5 % of scores); about 3 would be expected by chance alone.'
    """
    alarms = h.alarms
    is_one = alarms.n_flagged == 1
    verb = "is an alarm" if is_one else "are alarms"
    expected = alarms.expected_false
    chance = "fewer than one" if expected < 1 else f"about {expected:,.0f}"
    return (
        f"{alarms.n_flagged:,} of {h.n_rows:,} rows {verb} ({alarms.rule}); {chance} would be expected by "
        "chance alone."
    )


def name_foremost(h: Headline, why: str) -> str:
    """Name the oddest alarm, and why it is one."""
    told = why or "no column stands out"
    return f"The oddest is {h.foremost}: {told}{'' if told.endswith('?') else '.'}"


def tell_how_sure(h: Headline) -> str:
    """Tell how many reasons hold, and what that means."""
    n_judged = h.n_explained - h.n_by_finding
    verb = "was" if h.n_by_finding == 1 else "were"
    alone = _tell_part(h.n_by_finding, h.n_explained, "alarm")
    found = f"{alone[0].upper()}{alone[1:]} {verb} raised by findings about the data alone, not by the model."
    if not n_judged:
        return found
    verified = _tell_verified(h, n_judged, "other" if h.n_by_finding else "alarm")
    return f"{found} {verified}" if h.n_by_finding else verified


def _tell_verified(h: Headline, n_judged: int, noun: str) -> str:
    verb = "is" if h.n_many == 1 else "are"
    many = f"; {h.n_many} {verb} odd in more than {MOST_NAMED} columns at once." if h.n_many else "."
    if not h.n_holding:
        return f"The reasons for {_tell_part(n_judged, n_judged, noun)} could not be verified{many}"
    return (
        f"The reasons for {_tell_part(h.n_holding, n_judged, noun)} were verified: with usual values in the "
        f"named columns the row is ordinary, and with usual values everywhere else it is still odd{many}"
    )


def _tell_part(k: int, n: int, noun: str) -> str:
    """Say so many of all alarms, or of the others, as people do.

    Examples
    --------
    >>> _tell_part(1, 1, "alarm"), _tell_part(1, 1, "other"), _tell_part(2, 2, "other")
    ('the alarm', 'the other one', 'both others')
    >>> _tell_part(5, 5, "alarm"), _tell_part(3, 5, "alarm"), _tell_part(3, 5, "other")
    ('all 5 alarms', '3 of 5 alarms', '3 of the 5 others')
    """
    is_other = noun == "other"
    if n == 1:
        return "the other one" if is_other else "the alarm"
    if k == n:
        return f"{'both' if n == 2 else f'all {n:,}'} {noun}s"
    return f"{k:,} of {'the ' if is_other else ''}{n:,} {noun}s"
