"""Events of a series, in English: what happened, how sure that is, what was done."""

from __future__ import annotations

from collections.abc import Callable

from tellwhy.results.notice import Notice
from tellwhy.results.result import Reason
from tellwhy.words.english.notices import notes
from tellwhy.words.english.reasons import explains
from tellwhy.words.numbers import write_number, write_range

MOST_LISTED = 5

NAMES = {
    "spike": "spike",
    "dip": "dip",
    "shift_up": "shift up",
    "shift_down": "shift down",
    "passing_up": "passing shift up",
    "passing_down": "passing shift down",
    "noise_up": "more noise",
    "noise_down": "less noise",
    "stuck": "stuck",
    "frequency": "other rhythm",
    "trend": "other trend",
    "missing_cycle": "missing course",
    "relation": "changed relation",
    "shape": "unusual shape",
}


@explains("event")
def _explain_event(r: Reason) -> str:
    others = r.facts["others"]
    shown = ", ".join(others[:MOST_LISTED])
    more = f" and {len(others) - MOST_LISTED} more" if len(others) > MOST_LISTED else ""
    too = f"; {shown}{more} {'moves' if len(others) == 1 else 'move'} too" if others else ""
    return f"{r.feature} {_WHAT[r.facts['what']](r)}{too}"


def _write_number(value: float) -> str:
    return write_number(round(value, 12)).replace("-", "−")


def _write_usual(r: Reason) -> str:
    return f"usually {write_range({'low': r.typical[0], 'high': r.typical[1]})}"


def _write_moment(r: Reason) -> str:
    expected = _write_number(r.facts["expected"])
    return f"{_write_number(r.value)}, {expected} was to be expected ({_write_usual(r)})"


def _place(r: Reason) -> str:
    return f"about {_write_number(r.value)} in place of {_write_number(r.facts['expected'])}"


def _say_jump(verb: str) -> Callable[[Reason], str]:
    return lambda r: f"{verb} to {_write_moment(r)}"


def _say_step(word: str) -> Callable[[Reason], str]:
    def phrase(r: Reason) -> str:
        size = _write_number(abs(r.facts["size"]))
        return f"is {size} {word} from here on: {_place(r)}"

    return phrase


def _say_stretch(word: str) -> Callable[[Reason], str]:
    def phrase(r: Reason) -> str:
        size = _write_number(abs(r.facts["size"]))
        return f"is {size} {word} for {_count_readings(r.facts['n'])}: {_place(r)} ({_write_usual(r)})"

    return phrase


def _count_readings(n: int) -> str:
    return f"{n:,} reading{'' if n == 1 else 's'}"


def _say_noise(r: Reason) -> str:
    return (
        f"is {_write_number(r.facts['size'])} times as noisy as before, for {_count_readings(r.facts['n'])}"
    )


def _say_rhythm(r: Reason) -> str:
    return f"swings {_write_number(r.facts['size'])} times as often as before"


_WHAT: dict[str, Callable[[Reason], str]] = {
    "spike": _say_jump("jumps"),
    "dip": _say_jump("falls"),
    "shift_up": _say_step("higher"),
    "shift_down": _say_step("lower"),
    "passing_up": _say_stretch("higher"),
    "passing_down": _say_stretch("lower"),
    "noise_up": _say_noise,
    "noise_down": _say_noise,
    "stuck": lambda r: f"is stuck at {_write_number(r.value)} for {_count_readings(int(r.facts['size']))}",
    "frequency": _say_rhythm,
    "trend": lambda _: "rises or falls otherwise from here on than before",
    "missing_cycle": lambda r: f"leaves out its usual course for {_count_readings(r.facts['n'])}",
    "relation": lambda r: f"no longer goes with the other channels, for {_count_readings(r.facts['n'])}",
    "shape": lambda r: f"takes a course for {_count_readings(r.facts['n'])} that it never took before",
}


def write_how_sure(expected: float) -> str:
    """Say how many false ones to expect.

    Examples
    --------
    >>> write_how_sure(0.02), write_how_sure(1.6), write_how_sure(1e-6)
    ('1 in 50 quiet series', '2 in a quiet series', '1 in 1,000,000 quiet series')
    """
    if expected >= 0.75:
        return f"{expected:.0f} in a quiet series"
    return f"1 in {float(f'{1 / expected:.2g}'):,.0f} quiet series"


def name_of(what: str) -> str:
    """A kind of events in a word or two."""
    return NAMES[what]


@notes("events_found")
def _note_events_found(n: Notice) -> str:
    told, watched = n.facts["n_told"], n.facts["n_watched"]
    if not told and not watched:
        return f"Nothing happened in {n.facts['n_moments']:,} moments that a quiet series does not have."
    first = Reason(
        n.facts["feature"], n.facts["value"], n.facts["typical"], 1.0, kind="event", facts=n.facts["facts"]
    )
    when = n.facts["facts"]["first"]
    surest = f"{when}: {_explain_event(first)}."
    if not told:
        events = "event is" if watched == 1 else "events are"
        return f"No event is sure; {watched} {events} worth a look. The foremost: {surest}"
    events = "1 event" if told == 1 else f"{told} events"
    more = f", {watched} more to watch" if watched else ""
    return f"{events}{more}. The surest: {surest}"


@notes("events_looked_for")
def _note_events_looked_for(n: Notice) -> str:
    f = n.facts
    channels = f"{f['n_channels']} channel{'s' if f['n_channels'] != 1 else ''}"
    against = "each with those before it"
    if f["n_before"]:
        clean = "reference" if f["is_clean"] else "past"
        against = f"with the {f['n_before']:,} of the {clean}" + (
            "" if f["is_clean"] else " and those before it"
        )
    return (
        f"{f['n_moments']:,} moments of {channels} were compared, {against}. An event is told if fewer than "
        f"one quiet series in {1 / f['told']:.0f} has one as strange; up to {f['most']} are listed, down to "
        f"those of which a quiet series has about {_write_number(f['watched'])}."
    )


@notes("channels_at_rest")
def _note_channels_at_rest(n: Notice) -> str:
    names = n.facts["channels"]
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"Never changes: {', '.join(names[:10])}{more}."


@notes("no_promise")
def _note_no_promise(n: Notice) -> str:
    f = n.facts
    why = f"the reference has {f['n']:,} moments, and {f['sure']:,} would be needed"
    if f["drifting"]:
        names = ", ".join(f["drifting"][:5])
        verb = "drifts" if len(f["drifting"]) == 1 else "drift"
        why = f"{names} {verb} slowly within the reference, and may drift on to where nothing was before"
    short = (
        f" With fewer than {f['least']} moments, channels are judged one by one only."
        if f["n"] < f["least"]
        else ""
    )
    return f"How many events are false cannot be promised: {why}.{short}"
