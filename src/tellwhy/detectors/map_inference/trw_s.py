"""Sequential tree-reweighted message passing, with its lower bound.

Kolmogorov, "Convergent tree-reweighted message passing for energy minimization", IEEE Transactions on Pattern
Analysis and Machine Intelligence 28 (2006): the bound never falls.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from tellwhy.core.progress import track
from tellwhy.detectors.map_inference.field import Field, Labelling

TOLERANCE = 1e-5
_MOST_POLISHING = 5


def trw_s(
    field: Field, *, max_sweeps: int = 50, tol: float = TOLERANCE, messages: NDArray[Any] | None = None
) -> Labelling:
    """Return the best labelling met, and the best lower bound.

    Parameters
    ----------
    field
        The energy, on any graph.
    max_sweeps
        The most pairs of passes.
    tol
        Stop when the gap, or what a sweep adds to the bound, is at most this share of the energy.
    messages
        Messages to start from, changed in place: those of a similar energy save sweeps.

    Examples
    --------
    >>> import numpy as np
    >>> from tellwhy.data.graphs import grid
    >>> costs = np.random.default_rng(0).normal(size=(9, 3))
    >>> found = trw_s(Field(costs, 1.0 - np.eye(3), grid((3, 3))))
    >>> found.bound <= found.energy
    True
    """
    arriving = field.no_messages() if messages is None else messages
    labels = field.cheapest_alone()
    best = Labelling(labels, field.energy(labels))
    for _ in track(range(max_sweeps), max_sweeps, "labelling nodes"):
        field.sweep(arriving, backward=False, shared=True)
        bound = field.sweep(arriving, backward=True, shared=True)
        gained = bound - best.bound  # infinite after the first sweep
        labels = field.decode(arriving)
        field.improve(labels)
        energy = field.energy(labels)
        bound = max(bound, best.bound)
        best = replace(best, bound=bound)
        if energy < best.energy:
            best = Labelling(labels, energy, bound)
        if min(best.gap, gained) <= tol * max(abs(best.energy), abs(bound)):
            break
    return polished(field, best)


def polished(field: Field, found: Labelling) -> Labelling:
    """Improve a labelling node by node, a few times over."""
    labels = found.labels.copy()
    for _ in range(_MOST_POLISHING):
        if field.improve(labels) == 0:
            break
    energy = field.energy(labels)
    if energy >= found.energy:
        return found
    return Labelling(labels, energy, min(found.bound, energy))
