"""How far an explanation of a network can be trusted, in words."""

from __future__ import annotations

from tellwhy.results.network_run import MethodTold

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
