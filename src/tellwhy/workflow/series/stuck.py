"""Readings that stay the same for longer than they ever do otherwise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tellwhy.core.score_function import Floats

SHORTEST = 5
LEAST_CHANCE = 0.1  # the chance of a repeat is taken to be at least this
LONGER = 2.0  # times the longest run beside it of a value that is often repeated
MOST_SHARE = 0.3  # of a series; what is the same for longer is what the series does
FEWEST_VALUES = 10


@dataclass(frozen=True)
class Run:
    """Readings from `start` up to, not including, `end` that have one value."""

    start: int
    end: int
    value: float
    surprise: float


def find_stuck(values: Floats, level: float) -> list[Run]:
    """Runs of one value whose surprise is above the level, in the order of time.

    A value that is repeated often elsewhere (no rain, no sun at night) must stay much longer than there.
    """
    n = len(values)
    if n < 4 * SHORTEST or len(np.unique(values)) < FEWEST_VALUES:
        return []
    starts = np.flatnonzero(np.concatenate([[True], np.diff(values) != 0]))
    lengths = np.diff(np.append(starts, n))
    found = []
    for i in np.argsort(-lengths, kind="stable")[:20]:
        length = int(lengths[i])
        if length < SHORTEST or length > MOST_SHARE * n:
            continue
        same = values[starts] == values[starts[i]]
        same[i] = False
        if lengths[same].max(initial=1) * LONGER >= length:
            continue
        shorter = lengths < length / LONGER
        n_shorter = int(lengths[shorter].sum())
        repeats = (n_shorter - int(shorter.sum())) / max(n_shorter, 1)
        # Repeats may come together: the longest of n other runs tells how likely one more repeat is.
        longest = int(lengths[lengths < length].max(initial=1))
        chance = max(repeats, LEAST_CHANCE, float(n ** (-1 / max(longest - 1, 0.5))))
        surprise = -(length - 1) * float(np.log(chance)) - float(np.log(n))
        if surprise > level:
            found.append(Run(int(starts[i]), int(starts[i] + length), float(values[starts[i]]), surprise))
    return sorted(found, key=lambda run: run.start)
