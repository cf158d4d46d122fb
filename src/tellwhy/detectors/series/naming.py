"""What an event is: the description that explains most of it, from where to where, and how large it is."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tellwhy.core.score import Floats
from tellwhy.detectors.series._compiled import run_lengths
from tellwhy.detectors.series.cycles import Cycle
from tellwhy.detectors.series.descriptions import Description, describe, make_scene

LASTING = ("shift_up", "shift_down", "trend")  # kinds that go on to the end of the series
MOST_BEFORE = 200  # readings before an event that tell what is usual
LEAST_RUN = 10  # equal readings that may be called stuck
LEAST_UNRELATED = 30  # readings that do not go with other channels
OF_CYCLE = ("missing_cycle", "frequency", "shape")
WEAK = 15.0  # gain of a description of the channel alone that explains hardly anything
MUCH_MORE = 8.0  # times as much, that a changed relation must explain
LONGER = 3  # times the usual longest runs


@dataclass(frozen=True)
class Named:
    """Kind, place and size of an event.

    Attributes
    ----------
    kind
        "spike", "dip", "shift_up", "shift_down", "passing_up", "passing_down", "noise_up", "noise_down",
        "stuck", "frequency", "trend", "missing_cycle", "relation" or "shape".
    start, end
        Its first reading and its last; of what lasts, the last of the series.
    size
        How far off, in the channel's units; times the usual of noise and frequency; equal readings of a stuck
        channel; of a trend, the change of the slope in a reading.
    value
        The reading that is farthest off; of a shift, the new level; of a stuck channel, what it is stuck at.
    expected
        What it would have been.
    low, high
        Between what nine readings in ten lie before it, where the cycle is as it is at the event.
    """

    kind: str
    start: int
    end: int
    size: float
    value: float
    expected: float
    low: float
    high: float


def name_event(
    x: Floats,
    start: int,
    end: int,
    *,
    cycle: Cycle | None,
    beside: Floats | None = None,
    known: int = 0,
) -> Named:
    """Say what happened in a channel around the readings from start to end.

    `beside` is what the other channels leave of this one, where they tell much of it. `known` first readings
    are known to be ordinary; without any, those before the event are.
    """
    found = _stuck(x, start, end)
    if found is None:
        found = _best(x, start, end, cycle, known)
        found = _unrelated(beside, start, end, known, _gain_alone(found)) or found
    rest = x if cycle is None else x - cycle.profile
    before = rest[:known] if known else rest[max(0, found.start - MOST_BEFORE) : found.start]
    before = before if len(before) >= 5 else rest
    level = float(np.median(before))
    inside = slice(found.start, min(found.end, found.start + 400) + 1)
    at = found.start + int(np.argmax(np.abs(rest[inside] - level)))
    expected = level + (0.0 if cycle is None else float(cycle.profile[at]))
    value = expected + found.size if found.kind.startswith(("shift", "passing")) else float(x[at])
    if found.kind == "stuck":
        value = float(x[found.end])
    size = float(x[at]) - expected if found.kind in ("spike", "dip", "shape", "relation") else found.size
    low, high = np.quantile(before, [0.05, 0.95]) - level
    return Named(
        found.kind,
        found.start,
        len(x) - 1 if found.kind in LASTING else found.end,
        size,
        value,
        expected,
        expected + float(low),
        expected + float(high),
    )


def _stuck(x: Floats, start: int, end: int) -> Description | None:
    """A run of equal readings that no earlier one comes near to."""
    runs = run_lengths(x)
    last = start + int(runs[start : min(end + 1 + LEAST_RUN, len(x))].argmax())
    while last + 1 < len(x) and x[last + 1] == x[last]:
        last += 1
    length = int(runs[last])
    first = last - length + 1
    earlier = runs[:first]
    usual = int(np.sort(earlier)[-max(1, len(earlier) // 200)]) if len(earlier) else 1
    if length < LEAST_RUN or length <= LONGER * usual or length < 0.4 * (end - start + 1):
        return None
    return Description("stuck", first, last, float(length), float("inf"))


def _best(x: Floats, start: int, end: int, cycle: Cycle | None, known: int) -> Description:
    """The description that gains most."""
    scene = make_scene(x, cycle, start, end, known)
    return max(describe(scene), key=lambda told: told.gain)


def _gain_alone(found: Description) -> float:
    """What a description explains; one of the cycle explains a relation that breaks with it."""
    return found.gain if found.kind not in OF_CYCLE or found.gain <= 0 else math.inf


def _unrelated(beside: Floats | None, start: int, end: int, known: int, gain: float) -> Description | None:
    """A stretch in which the channel is rather itself, but not what the others say."""
    if beside is None:
        return None
    scene = make_scene(beside, None, start, end, known)
    told = [each for each in describe(scene) if each.end - each.start >= LEAST_UNRELATED]
    best = max(told, key=lambda each: each.gain, default=None)
    if best is None or gain > WEAK or best.gain < MUCH_MORE * max(gain, WEAK / 3):
        return None
    return replace(best, kind="relation")
