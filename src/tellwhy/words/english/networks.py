"""Networks, in English: what was read and explained, and how far an explanation can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellwhy.results.notice import Notice
from tellwhy.words.english.notices import notes
from tellwhy.words.numbers import write_count

if TYPE_CHECKING:
    from tellwhy.results.network_run import MethodTold


@notes("first_pictures")
def _note_first_pictures(n: Notice) -> str:
    return f"The first {n.facts['n']:,} of {n.facts['of']:,} pictures are explained."


@notes("more_unread")
def _note_more_unread(n: Notice) -> str:
    return f"{n.facts['n']:,} more could not be read."


@notes("resized")
def _note_resized(n: Notice) -> str:
    before, after = n.facts["size"], n.facts["to"]
    return f"{before[0]} × {before[1]} pixels brought to {after[0]} × {after[1]}"


@notes("words_unknown")
def _note_words_unknown(n: Notice) -> str:
    return f"not in the vocabulary: {', '.join(n.facts['words'])}"


@notes("code_ran")
def _note_code_ran(n: Notice) -> str:
    return f"Loading {n.facts['network']} ran the code of its module."


@notes("first_shown")
def _note_first_shown(n: Notice) -> str:
    f = n.facts
    return f"All {f['n']:,} inputs were explained and checked; the first {f['n_shown']} are shown."


@notes("undefined")
def _note_undefined(n: Notice) -> str:
    return f"{n.facts['method']} is not defined for negative outputs: its values are zero"


@notes("network_says")
def _note_network_says(n: Notice) -> str:
    f = n.facts
    sure = "" if f["probability"] is None else f" ({f['probability']:.0%})"
    about = "" if f["explained"] == f["says"] else f"; explained here is {f['explained']}"
    return f"The network says {f['says']}{sure}{about}."


@notes("inputs_explained")
def _note_inputs_explained(n: Notice) -> str:
    n_groups = n.facts["n_groups"]
    odd = f"; {write_count(n_groups, 'group')} of them for an odd reason" if n_groups else ""
    return f"{n.facts['n']:,} inputs explained{odd}."


@notes("group_apart")
def _note_group_apart(n: Notice) -> str:
    f = n.facts
    top, bottom = f["box"][:2]
    left, right = f["box"][2:]
    where = f"rows {top}–{bottom - 1}, columns {left}–{right - 1}"
    same = "" if f["alike"] is None else f" What they show there is alike (correlation {f['alike']:.2f})."
    return (
        f"{f['n']} pictures ({f['share']:.0%} of class {f['of']}) have {f['inside']:.0%} of their relevance "
        f"at {where}; all other pictures have {f['elsewhere']:.1%} there.{same}"
    )


# How far an explanation can be trusted

CONSERVED = 0.05  # share of the output that may be left over before it is said to be much
CLEAR = 0.8  # of the random orders' area, below which a method's regions clearly carry the output

KINDS = {
    "attribution": "shares of the output: they add up to it, less what is left over",
    "sensitivity": "sensitivities: how fast the output changes with each value, not shares of it",
    "signal": "a signal: where the output finds its support, not shares of it",
    "ranking": "weights that order the parts, not shares of the output",
}


# Where what no input got went, of methods that do not propagate.
REMAINDERS = {
    "lime": "is what its local model did not fit",
    "occlusion": "shows only where several parts are taken away at once",
    "integrated-gradients": "was lost to the steps of the path",
}


def write_conserved(told: MethodTold) -> str:
    """Whether values add up to the output.

    Examples
    --------
    >>> from tellwhy.results.network_run import MethodTold
    >>> write_conserved(MethodTold("lrp", "LRP", "attribution", left_over=0.02))
    'Its shares add up to the output within 2 %.'
    >>> write_conserved(MethodTold("lime", "LIME", "attribution", left_over=0.3))
    '30 % of the output is what its local model did not fit: its shares tell only the rest.'
    >>> write_conserved(MethodTold("gradient", "Gradient", "sensitivity"))
    'Its values are no shares of the output.'
    """
    if told.left_over is None:
        return "Its values are no shares of the output."
    share = 100 * told.left_over
    words = f"{share:.0f} %" if share >= 1 else "1 %"
    if told.left_over <= CONSERVED:
        return f"Its shares add up to the output within {words}."
    where = REMAINDERS.get(told.name, "went to biases and stabilisers")
    return f"{words} of the output {where}: its shares tell only the rest."


def write_carried(told: MethodTold) -> str:
    """Whether the regions it names carry the output.

    Examples
    --------
    >>> from tellwhy.results.network_run import MethodTold
    >>> told = MethodTold("lrp", "LRP", "attribution", area=0.2, random_area=0.5, n_better=9, n_judged=10)
    >>> write_carried(told)
    'Painting over what it names first lowers the output faster than random orders (area 0.20 against ...
    """
    if told.area is None or told.random_area is None:
        why = "the output does not fall when all is painted over" if told.is_checked else "it was not checked"
        return f"Whether what it names carries the output is not known: {why}."
    inputs = f"; better in {told.n_better} of {told.n_judged} inputs" if told.n_judged > 1 else ""
    numbers = f"area {told.area:.2f} against {told.random_area:.2f}{inputs}"
    if is_carried(told):
        return f"Painting over what it names first lowers the output faster than random orders ({numbers})."
    words = "What it names carries the output hardly better than random regions"
    return f"{words} ({numbers}): do not rely on it."


def is_carried(told: MethodTold) -> bool:
    """Whether the order of the method is clearly better than random ones."""
    if told.area is None or told.random_area is None:
        return False
    return told.area < CLEAR * told.random_area and told.n_better > told.n_judged / 2
