"""Events of a series, in English: what happened, how sure that is, what was done."""

from __future__ import annotations

from collections.abc import Callable

from tellwhy.results.result import Notice, Reason
from tellwhy.words.english.notices import notes
from tellwhy.words.english.reasons import explains
from tellwhy.words.numbers import number_text, range_words

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


def _number(value: float) -> str:
    return number_text(round(value, 12)).replace("-", "−")


def _usual(r: Reason) -> str:
    return f"usually {range_words({'low': r.typical[0], 'high': r.typical[1]})}"


def _at(r: Reason) -> str:
    return f"{_number(r.value)}, {_number(r.facts['expected'])} was to be expected ({_usual(r)})"


def _place(r: Reason) -> str:
    return f"about {_number(r.value)} in place of {_number(r.facts['expected'])}"


def _jump(verb: str) -> Callable[[Reason], str]:
    return lambda r: f"{verb} to {_at(r)}"


def _step(word: str) -> Callable[[Reason], str]:
    def phrase(r: Reason) -> str:
        size = _number(abs(r.facts["size"]))
        return f"is {size} {word} from here on: {_place(r)}"

    return phrase


def _stretch(word: str) -> Callable[[Reason], str]:
    def phrase(r: Reason) -> str:
        size = _number(abs(r.facts["size"]))
        return f"is {size} {word} for {_readings(r.facts['n'])}: {_place(r)} ({_usual(r)})"

    return phrase


def _readings(n: int) -> str:
    return f"{n:,} reading{'' if n == 1 else 's'}"


def _noise(r: Reason) -> str:
    return f"is {_number(r.facts['size'])} times as noisy as before, for {_readings(r.facts['n'])}"


def _rhythm(r: Reason) -> str:
    return f"swings {_number(r.facts['size'])} times as often as before"


_WHAT: dict[str, Callable[[Reason], str]] = {
    "spike": _jump("jumps"),
    "dip": _jump("falls"),
    "shift_up": _step("higher"),
    "shift_down": _step("lower"),
    "passing_up": _stretch("higher"),
    "passing_down": _stretch("lower"),
    "noise_up": _noise,
    "noise_down": _noise,
    "stuck": lambda r: f"is stuck at {_number(r.value)} for {_readings(int(r.facts['size']))}",
    "frequency": _rhythm,
    "trend": lambda _: "rises or falls otherwise from here on than before",
    "missing_cycle": lambda r: f"leaves out its usual course for {_readings(r.facts['n'])}",
    "relation": lambda r: f"no longer goes with the other channels, for {_readings(r.facts['n'])}",
    "shape": lambda r: f"takes a course for {_readings(r.facts['n'])} that it never took before",
}


def how_sure(expected: float) -> str:
    """Say how many false ones to expect.

    Examples
    --------
    >>> how_sure(0.02), how_sure(1.6), how_sure(1e-6)
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
        f"those of which a quiet series has about {_number(f['watched'])}."
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
