"""Events of a series: where they begin and end, in which channel first, and how many false ones to expect.

What an event is, is the description that explains most of it: from where to where, and how large (`Named`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tellwhy.core.score import Floats, Integers
from tellwhy.detectors.series import changes as change
from tellwhy.detectors.series.cycles import Cycle
from tellwhy.detectors.series.descriptions import Description, describe, make_scene
from tellwhy.detectors.series.evidence import DETECTORS, Evidence, Pace, gather, gather_trend_evidence
from tellwhy.detectors.series.measures import count_run_lengths, filled
from tellwhy.detectors.series.monitoring import judge_together

MOST_EXPECTED = 2.5  # false events, of an event worth a look
TOLD = 1 / 3  # the same, of one that is told as an alarm
ODD_ALONE = 1.0  # expected false events: a channel as odd as this has moved itself
LEAST_OF_TREND = 0.5  # expected false events: a slope is never sure before it has gone on for long
MOST = 5  # events of a series
QUICK = ("novelty", "forecast", "shape", "stuck")  # detectors that show an event where it is


@dataclass(frozen=True, eq=False)
class Event:
    """Something that happened in a series.

    Attributes
    ----------
    start, end
        Its first reading, and its last.
    noticed
        The first reading at which half of the evidence was there: when an alarm would have been raised.
    channel
        The channel that moved first.
    others
        Channels that moved with it.
    expected_false
        How many events as strange a quiet series of this length has.
    is_told
        Whether it is told as an alarm; else it is one to watch.
    detector
        What found it.
    named
        Its kind and size.
    """

    start: int
    end: int
    noticed: int
    channel: int
    others: tuple[int, ...]
    expected_false: float
    is_told: bool
    detector: str
    named: Named


@dataclass(frozen=True, eq=False)
class Found:
    """The events of a series, the surest first, and at each reading −log10 of expected false ones."""

    events: tuple[Event, ...]
    score: Floats
    pace: Pace
    drifting: tuple[int, ...] = ()  # channels of a reference


def find_events(
    X: Floats, *, step: float | None = None, before: int = 0, is_clean: bool = False, most: int = MOST
) -> Found:
    """Find what happened in channels of readings at equal steps.

    Parameters
    ----------
    X
        (n, channels); missing readings are NaN.
    step
        Seconds between two readings, where they are moments of a calendar.
    before, is_clean
        First readings that are not judged, and whether somebody says that they are ordinary.
    most
        How many events at most.

    Examples
    --------
    >>> x = np.sin(np.arange(2000) / 8) + 0.1 * np.random.default_rng(0).normal(size=2000)
    >>> x[1500:1510] += 4
    >>> event = find_events(x[:, None]).events[0]
    >>> abs(event.start - 1500) < 5, event.is_told
    (True, True)
    """
    X = np.column_stack([filled(X[:, k]) for k in range(X.shape[1])])
    pace = Pace(len(X), step, before, is_clean)
    told = [gather(X, k, pace) for k in range(X.shape[1])]
    return _choose(X, told, pace, most)


def _choose(X: Floats, told: Sequence[Evidence], pace: Pace, most: int) -> Found:
    """Take the surest readings as events, apart from each other; every channel counts in what is expected."""
    together = judge_together(X, pace)
    more = math.log10(len(told) + (together is not None))
    of_channels = np.array([each.log_expected for each in told]) + more
    surest = of_channels.argmin(axis=0)
    at = np.arange(pace.n)
    best = of_channels[surest, at]
    by = np.array([each.detector for each in told])[surest, at]
    if together is not None:
        is_surer = together.log_expected + more < best
        best = np.where(is_surer, together.log_expected + more, best)
        by = np.where(is_surer, DETECTORS.index("together"), by)
        surest = np.where(is_surer, together.channel, surest)
    state = _State(X, told, of_channels, best, by, surest, pace)
    events = _drop_parts([_make_event(state, span) for span in _find_spans(best, by, surest, pace, most)])
    if len(events) < most:
        events += _find_trends(state, events)
    return Found(events, -best, pace, () if together is None else together.drifting)


@dataclass(frozen=True, eq=False)
class _State:
    """Readings, and at each of them the surest evidence: how sure, by which detector, in which channel."""

    X: Floats
    told: Sequence[Evidence]
    of_channels: Floats
    best: Floats
    by: Integers
    surest: Integers
    pace: Pace


def _drop_parts(events: Sequence[Event]) -> tuple[Event, ...]:
    """Leave out what is only a part of a state that a surer event already tells, beside a reference."""
    kept: list[Event] = []
    for event in events:
        inside = any(
            other.channel == event.channel and other.start <= event.noticed <= other.end for other in kept
        )
        if not (inside and event.detector == "together"):
            kept.append(event)
    return tuple(kept)


def _find_mover(state: _State, at: int, start: int, end: int) -> int:
    """The channel that is odd alone, where a relation between channels is odd; else the one it is seen in."""
    around = slice(max(start - state.pace.block, 0), end + state.pace.block)
    alone = np.array([each.alone[around].min() for each in state.told])
    best = int(alone.argmin())
    return best if alone[best] < math.log10(ODD_ALONE) else at


def _find_trends(state: _State, events: Sequence[Event]) -> tuple[Event, ...]:
    """The surest change of a slope, to watch: no other event explains it, and no other description does."""
    bent = [
        gather_trend_evidence(x, told.cycle, state.pace)
        for x, told in zip(state.X.T, state.told, strict=True)
    ]
    of_channels = np.array(bent) + math.log10(len(bent))
    channel, peak = np.unravel_index(int(of_channels.argmin()), of_channels.shape)
    expected = max(float(10 ** of_channels[channel, peak]), LEAST_OF_TREND)
    if expected > MOST_EXPECTED:
        return ()
    width = len(state.X) // change.BENDS
    near = [e for e in events if e.channel == channel and abs(e.noticed - peak) < 2 * width]
    at = int(channel)
    named = name_event(
        state.X[:, at], int(peak), int(peak) + width // 4, cycle=state.told[at].cycle, known=state.pace.known
    )
    if near or named.kind != "trend":
        return ()
    first = max(named.start, state.pace.first)
    return (
        Event(
            start=first,
            end=named.end,
            noticed=int(peak),
            channel=at,
            others=(),
            expected_false=expected,
            is_told=False,
            detector="trend",
            named=named,
        ),
    )


@dataclass
class Span:
    """From where to where an event goes, and its surest reading."""

    start: int
    end: int
    peak: int


def _find_spans(best: Floats, by: Integers, surest: Integers, pace: Pace, most: int) -> list[Span]:
    """Spans of the surest readings, in a channel each beyond the reach of its own detector from the others.

    What overlaps with one that is surer is the same event, and makes it longer.
    """
    free = best.copy()
    free[: pace.first] = np.inf
    wide = pace.block + 2 * change.choose_scales(pace.n)[-1]
    reach = np.array([pace.block if name in QUICK else wide for name in DETECTORS])
    found: list[Span] = []
    while len(found) < most:
        at = int(free.argmin())
        if not free[at] < math.log10(MOST_EXPECTED):
            break
        same = [other for other in found if surest[other.peak] == surest[at]]
        if all(abs(at - other.peak) > reach[by[at]] for other in same):
            _add(found, at, *find_extent(best, at, pace))
        free[max(0, at - pace.block) : at + pace.block + 1] = np.inf
    return found


def _add(found: list[Span], peak: int, start: int, end: int) -> None:
    for other in found:
        if start <= other.end and end >= other.start:
            other.start = min(start, other.start)
            other.end = max(end, other.end)
            return
    found.append(Span(start, end, peak))


def _make_event(state: _State, span: Span) -> Event:
    start = span.start
    end = span.end
    at = int(state.surest[span.peak])
    moved = state.of_channels[:, start : end + 1].min(axis=1) < 0
    others = tuple(int(k) for k in np.flatnonzero(moved) if k != at)
    detector = DETECTORS[state.by[span.peak]]
    if detector == "relation":
        at = _find_mover(state, at, start, end)
    expected = float(10 ** state.best[span.peak])
    named = name_event(
        state.X[:, at],
        start,
        end,
        beside=change.predict_rest_of_others(state.X, at) if state.X.shape[1] > 1 else None,
        cycle=state.told[at].cycle,
        known=state.pace.known,
    )
    first = max(named.start, state.pace.first)
    return Event(
        start=first,
        end=max(named.end, first),
        noticed=start,
        channel=at,
        others=others,
        expected_false=expected,
        is_told=expected <= TOLD,
        detector=detector,
        named=named,
    )


def find_extent(best: Floats, peak: int, pace: Pace) -> tuple[int, int]:
    """First and last reading around a peak where the evidence stays better than half of its best."""
    block = pace.block
    line = min(best[peak] / 2, best[peak] + 0.5) if best[peak] < 0 else math.log10(MOST_EXPECTED)
    low = max(peak - block, pace.first)
    start = low + int(np.flatnonzero(best[low : peak + 1] <= line)[0])
    end = peak
    for at in range(peak, min(peak + 4 * block, len(best))):
        if best[at] <= line:
            end = at
        elif at - end > block // 4:
            break
    return start, end


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
        found = _describe_unrelated(beside, start, end, known, _measure_gain_alone(found)) or found
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
    runs = count_run_lengths(x)
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


def _measure_gain_alone(found: Description) -> float:
    """What a description explains; one of the cycle explains a relation that breaks with it."""
    return found.gain if found.kind not in OF_CYCLE or found.gain <= 0 else math.inf


def _describe_unrelated(
    beside: Floats | None, start: int, end: int, known: int, gain: float
) -> Description | None:
    """A stretch in which the channel is rather itself, but not what the others say."""
    if beside is None:
        return None
    scene = make_scene(beside, None, start, end, known)
    told = [each for each in describe(scene) if each.end - each.start >= LEAST_UNRELATED]
    best = max(told, key=lambda each: each.gain, default=None)
    if best is None or gain > WEAK or best.gain < MUCH_MORE * max(gain, WEAK / 3):
        return None
    return replace(best, kind="relation")
