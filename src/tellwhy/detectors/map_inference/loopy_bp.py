"""Loopy belief propagation (max-product), damped: no bound, and no promise to settle."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.errors import NotConverged
from tellwhy.core.progress import track
from tellwhy.detectors.map_inference.field import Field, Labelling

DAMPING = 0.3  # without it, messages on cycles may swing between two states for ever


def loopy_bp(
    field: Field,
    *,
    max_sweeps: int = 50,
    damping: float = DAMPING,
    tol: float = 1e-4,
    messages: NDArray[Any] | None = None,
) -> Labelling:
    """Return the best labelling met while messages are passed to and fro.

    M_ij(s) ← min_t [pair(s, t) + unary_i(t) + Σ_{k ∈ N(i)∖j} M_ki(t)], each new message a mixture with the
    old one. Labels are read from unary_i(s) + Σ_{k ∈ N(i)} M_ki(s), each node given its earlier neighbours'
    labels.

    Examples
    --------
    >>> from tellwhy.data.graphs import grid
    >>> costs = np.random.default_rng(0).normal(size=(9, 2))
    >>> loopy_bp(Field(costs, 1.0 - np.eye(2), grid((3, 3)))).labels.shape
    (9,)
    """
    arriving = field.no_messages() if messages is None else messages
    labels = field.cheapest_alone()
    best = Labelling(labels, field.energy(labels))
    for _ in track(range(max_sweeps), max_sweeps, "labelling nodes"):
        change = _to_and_fro(field, arriving, damping)
        labels = field.decode(arriving)
        energy = field.energy(labels)
        if energy < best.energy:
            best = Labelling(labels, energy)
        if change <= tol * _unit(field):
            return best
    warnings.warn(
        f"Loopy belief propagation did not settle in {max_sweeps} sweeps; the best labelling it met is used. "
        "inference='trws' always settles and says how far from optimal it may be.",
        NotConverged,
        stacklevel=2,
    )
    return best


def max_marginals(
    field: Field, *, max_sweeps: int = 30, damping: float = DAMPING, tol: float = 1e-4
) -> NDArray[Any]:
    """Return the messages that nodes receive (see `_compiled`), settled or after `max_sweeps`."""
    arriving = field.no_messages()
    for _ in range(max_sweeps):
        if _to_and_fro(field, arriving, damping) <= tol * _unit(field):
            break
    return arriving


def _to_and_fro(field: Field, arriving: NDArray[Any], damping: float) -> float:
    """Sweep both ways; return the largest change of a message."""
    before = arriving.copy()
    for backward in (False, True):
        field.sweep(arriving, backward=backward, damping=damping)
    np.subtract(arriving, before, out=before)
    return float(np.abs(before, out=before).max(initial=0.0))


def _unit(field: Field) -> float:
    """Return the scale of messages: a message differs by no more than the largest cost of a pair."""
    return max(float(np.abs(field.pair).max()), 1e-12)
