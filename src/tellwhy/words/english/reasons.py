"""Why rows are odd, in English: a function for each kind of reason, and the headline over all."""

from __future__ import annotations

import math
from collections.abc import Callable

from tellwhy.results.notice import Notice
from tellwhy.results.result import Anomaly, Headline, Reason
from tellwhy.words.numbers import (
    is_number,
    write_clock,
    write_number,
    write_percent,
    write_plain,
    write_times,
)


def explain_reason(reason: Reason) -> str:
    """Return a reason without its share; what is wrong with it as data is told by `tell`."""
    return REASONS[reason.kind](reason)


Phrase = Callable[[Reason], str]
REASONS: dict[str, Phrase] = {}


def explains(kind: str) -> Callable[[Phrase], Phrase]:
    """Register a function as the words for a kind of reasons."""

    def register(phrase: Phrase) -> Phrase:
        REASONS[kind] = phrase
        return phrase

    return register


@explains("value")
def _explain_value(r: Reason) -> str:
    times = r.facts.get("times")
    slip = f"; {write_times(times)}, a slipped decimal point?" if times else ""
    return f"{r.feature} = {_write_cell(r)} ({_tell_usual(r)}{slip})"


@explains("moved")
def _explain_moved(r: Reason) -> str:
    from tellwhy.words.english.notices import NOTICES

    facts = {name: value for name, value in r.facts.items() if name != "said"}
    return f"{r.feature}: {NOTICES[r.facts['said']](Notice(r.facts['said'], facts))}"


def _write_cell(r: Reason) -> str:
    return write_clock(r.value) if r.facts.get("is_clock") and is_number(r.value) else write_plain(r.value)


def _tell_usual(r: Reason) -> str:
    """'usually 0.9–4.1', 'usually yes or no where role = intern'."""
    where = f" where {r.facts['where']}" if r.facts.get("where") else ""
    if not r.typical:
        return f"never seen{where}"
    if "of_rows" in r.facts:
        return f"as in {write_percent(r.facts['of_rows'])} of the rows{where}"
    if r.facts.get("is_varied"):
        return f"many different values{where}"
    in_class = " in its class" if r.facts.get("in_class") else ""
    beside = f", {write_number(r.facts['beside'])} beside it" if "beside" in r.facts else ""
    return f"usually {_list_usual(r)}{in_class}{where}{beside}"


def _list_usual(r: Reason) -> str:
    if r.facts.get("column") == "date":
        return f"{r.typical[0]} to {r.typical[1]}"
    if r.facts.get("column") == "number":
        write = write_clock if r.facts.get("is_clock") else write_number
        low = write(float(r.typical[0]))
        high = write(float(r.typical[1]))
        return low if low == high else f"{low}–{high}"
    return " or ".join(str(value) for value in r.typical[:2])


@explains("pair")
def _explain_pair(r: Reason) -> str:
    other = r.facts["other"]
    beside = f"{other} = {write_plain(r.facts['other_value'])}"
    if r.facts.get("is_text"):  # how odd a text is in a number, which means nothing to anybody
        beside = f"a {other} as odd as this one"
    both = f"{r.feature} = {_write_cell(r)} with {beside}"
    if "n_together" in r.facts:
        return f"{both}: {r.facts['n_together']:,} of {r.facts['n']:,} rows"
    if "low" not in r.facts:
        return both
    low = write_number(r.facts["low"])
    high = write_number(r.facts["high"])
    return f"{both} (there usually {low if low == high else f'{low}–{high}'})"


@explains("group")
def _explain_group(r: Reason) -> str:
    """'11 columns that move together, from radius to worst area, all large; worst area = 2501 (…)'."""
    names = r.facts["columns"]
    n = len(names)
    few = f": {', '.join(names[:-1])} and {names[-1]}"
    listed = few if n <= MOST_NAMED else f", from {names[0]} to {names[-1]}"
    n_side = r.facts["n_side"]
    sides = f", {'all' if n_side == n else f'{n_side} of them'} {r.facts['side']}" if r.facts["side"] else ""
    return f"{n} columns that move together{listed}{sides}; {_explain_value(r)}"


@explains("words")
def _explain_words(r: Reason) -> str:
    if r.facts["is_empty"]:
        return f"{r.feature}: no text"
    words = [f"“{word}”" if is_there else f"lacks “{word}”" for word, is_there in r.facts["words"]]
    return f"{r.feature}: {', '.join(words) or 'the combination of its words'}"


@explains("as_written")
def _explain_as_written(r: Reason) -> str:
    """A reason of a run that an earlier version saved as a sentence."""
    return str(r.facts["text"])


# The headline: how many alarms, the foremost of them, and whether the reasons hold

MOST_NAMED = 3  # columns that a reason names
MOST_SURPRISE = math.log(1e6)  # rarer than that nobody knows exactly


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
    """Count alarms and their causes.

    Examples
    --------
    >>> from tellwhy.results.result import AlarmRule
    >>> count_alarms(Headline(800, AlarmRule("the highest score", 1, 0.1)))
    '1 of 800 rows is an alarm (the highest score); fewer than one would be expected by chance alone.'
    >>> rule = AlarmRule("the highest 5 % of scores", 40, 3.1)
    >>> count_alarms(Headline(800, rule, n_explained=40, n_causes=9))
    '40 of 800 rows are alarms, with 9 different causes (the highest 5 % of scores); about 3 would be ...'
    """
    alarms = h.alarms
    is_one = alarms.n_flagged == 1
    verb = "is an alarm" if is_one else "are alarms"
    expected = alarms.expected_false
    chance = "fewer than one" if expected < 1 else f"about {expected:,.0f}"
    return (
        f"{alarms.n_flagged:,} of {h.n_rows:,} rows {verb}{_tell_causes(h)} ({alarms.rule}); {chance} would "
        "be expected by chance alone."
    )


def _tell_causes(h: Headline) -> str:
    """', with 9 different causes'; of one row nothing needs to be said."""
    n_flagged = h.alarms.n_flagged
    if not h.n_causes or n_flagged < 2:
        return ""
    least = "at least " if n_flagged > h.n_explained else ""
    if h.n_causes == 1:
        return f", with {least}one cause" if least else ", all with one cause"
    return f", with {least}{h.n_causes:,} different causes"


def name_foremost(h: Headline, why: str) -> str:
    """Name the oddest alarm, and why it is one."""
    told = why or "no column stands out"
    return f"The oddest is {h.foremost}: {told}{'' if told.endswith('?') else '.'}"


def tell_how_sure(h: Headline) -> str:
    """Tell of how many alarms the reasons were verified, and what that means; and of the others.

    Examples
    --------
    >>> from tellwhy.results.result import AlarmRule
    >>> rule = AlarmRule("the highest score", 5, 0.1)
    >>> tell_how_sure(Headline(800, rule, n_explained=5, n_by_finding=4, n_holding=0, n_many=1))
    '4 of 5 alarms were found by rules about the data. The reasons for the other one could not be ...'
    """
    n = h.n_explained
    n_verified = h.n_holding
    n_unverified = n - h.n_by_finding - n_verified
    told = []
    if h.n_by_finding:
        verb = "was found by a rule" if h.n_by_finding == 1 else "were found by rules"
        part = _tell_part(h.n_by_finding, n, "alarm")
        told.append(f"{part[0].upper()}{part[1:]} {verb} about the data.")
    noun = "other" if told else "alarm"
    rest = n - h.n_by_finding
    if n_verified:
        told.append(
            f"The reasons for {_tell_part(n_verified, rest, noun)} were verified: with usual values in the "
            "named columns the row is ordinary, and with usual values everywhere else it is still odd."
        )
    if n_unverified:
        told.append(_tell_unverified(h, n_unverified, rest, noun))
    return " ".join(told)


def _tell_unverified(h: Headline, n: int, rest: int, noun: str) -> str:
    which = f"the remaining {n:,}" if h.n_holding and n > 1 else "the last one"
    which = which if h.n_holding else _tell_part(n, rest, noun)
    verb = "is" if h.n_many == 1 else "are"
    many = f": {h.n_many:,} {verb} odd in more than {MOST_NAMED} columns at once" if h.n_many else ""
    return f"The reasons for {which} could not be verified{many}."


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


# How the reasons of one row are known

SURE = 0.9  # probability from which on a cell is called wrong; below it is suspect


def tell_known(anomaly: Anomaly) -> str:
    """Tell how a row's reasons are known: 'verified', by a rule, or neither.

    Examples
    --------
    >>> from tellwhy.results.result import Part
    >>> tell_known(Anomaly(Part("row", row=3), 9.0, is_alarm=True))
    'not verified'
    """
    if not anomaly.is_alarm:
        return "below the line"
    if anomaly.known_by == "verified":
        return "verified"
    if anomaly.known_by == "unverified":
        return "not verified"
    found = next(reason.finding for reason in anomaly.reasons if reason.finding is not None)
    if found.probabilities:
        probability = max(found.probabilities)
        much = "more than 99 %" if probability > 0.99 else f"{100 * probability:.0f} %"
        return f"{'wrong' if probability >= SURE else 'suspect'} with {much}"
    return f"suspect by a rule{_tell_chance(found.surprise)}"


def _tell_chance(surprise: float) -> str:
    """', chance 1 in 160,000', of a finding that chance alone would make as rarely."""
    if surprise <= 0:
        return ""
    n = float(f"{math.exp(min(surprise, MOST_SURPRISE)):.2g}")
    return f", chance {'< ' if surprise > MOST_SURPRISE else ''}1 in {n:,.0f}"
