"""Why a row is odd, in English: one function for each kind of reason."""

from __future__ import annotations

from collections.abc import Callable

from tellwhy.results.result import Reason
from tellwhy.words.numbers import number_text, plain_words, times_words


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
    slip = f"; {times_words(times)}, a slipped decimal point?" if times else ""
    return f"{r.feature} = {plain_words(r.value)} ({_tell_usual(r)}{slip})"


def _tell_usual(r: Reason) -> str:
    """'usually 0.9–4.1', 'usually yes or no where role = intern'."""
    where = f" where {r.facts['where']}" if r.facts.get("where") else ""
    if not r.typical:
        return f"never seen{where}"
    if r.facts.get("is_varied"):
        return f"many different values{where}"
    in_class = " in its class" if r.facts.get("in_class") else ""
    return f"usually {_list_usual(r)}{in_class}{where}"


def _list_usual(r: Reason) -> str:
    if r.facts.get("column") == "date":
        return f"{r.typical[0]} to {r.typical[1]}"
    if r.facts.get("column") == "number":
        low = number_text(float(r.typical[0]))
        high = number_text(float(r.typical[1]))
        return low if low == high else f"{low}–{high}"
    return " or ".join(str(value) for value in r.typical[:2])


@explains("pair")
def _explain_pair(r: Reason) -> str:
    other = r.facts["other"]
    beside = f"{other} = {plain_words(r.facts['other_value'])}"
    if r.facts.get("is_text"):  # how odd a text is in a number, which means nothing to anybody
        beside = f"a {other} as odd as this one"
    both = f"{r.feature} = {plain_words(r.value)} with {beside}"
    if "n_together" in r.facts:
        return f"{both}: {r.facts['n_together']:,} of {r.facts['n']:,} rows"
    if "low" not in r.facts:
        return both
    low = number_text(r.facts["low"])
    high = number_text(r.facts["high"])
    return f"{both} (there usually {low if low == high else f'{low}–{high}'})"


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
