"""Descriptions of an event that compete: a level for a while or for good, a slope, noise, a course.

Before the event, what the cycle leaves is an autoregression; its innovations have spread σ. Each description
says which pattern is added to the readings of a stretch, or how its innovations are otherwise. Its gain
is what it adds to the logarithm of the likelihood, less what its parameters cost: the best description is
told. A pattern p, once the autoregression is taken from it, is found in the innovations e with the size
Σ p e / Σ p², and gains (Σ p e)² / (2 σ² Σ p²).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tellwhy.core.score import Floats, Integers
from tellwhy.detectors.series.cycles import Cycle
from tellwhy.detectors.series.measures import find_value_step, median_distance, spread_of

ORDER = 4  # readings that the next one depends on
MOST_BEFORE = 2_000  # readings by which the autoregression is learned
LEAST_BEFORE = 60
LOOKED_BACK = 300  # readings before an event that it may begin in
LEVEL_BEFORE = 200  # readings whose middle is the level before an event
MOST_PLACES = 120  # where a stretch may begin, or end, at first; then one by one around the best
MOST_JUMPS = 60  # largest innovations, at which stretches may begin and end
LEAST_NOISY = 12  # readings of a stretch of other noise
SHORT = 3  # readings of a spike
PARTS_OF_CYCLE = 24
PACES = tuple(float(p) for p in np.geomspace(0.5, 3.2, 58))  # of other rhythms, times the usual
UNKNOWN = -1e6  # gain of a description where none was tried
LEAST_SWINGS = 2  # whole waves in a stretch: less looks like anything
LEAST_SWINGING = 30  # readings of a stretch of another course
COST_OF_SWING = 4.5  # parameters: where, how fast, and half of those of three waves
MOST_CLIPPED = 8.0  # spreads: innovations beyond count as these for noise


@dataclass(frozen=True, eq=False)
class Background:
    """How readings depend on those before them where nothing happens."""

    weights: Floats
    noise: float  # spread of the innovations
    squared: float  # mean of their squares in spreads, none counted as more than eight spreads

    def innovations(self, values: Floats) -> Floats:
        """What is new in each reading; of the first ones, as if those before were equal to them."""
        padded = np.concatenate([np.full(len(self.weights), values[0]), values])
        return np.asarray(values - self._foretold(padded, len(values)))

    def whitened(self, pattern: Floats) -> Floats:
        """A pattern that is zero before it begins, as the innovations show it."""
        padded = np.concatenate([np.zeros(len(self.weights)), pattern])
        return np.asarray(pattern - self._foretold(padded, len(pattern)))

    def _foretold(self, padded: Floats, n: int) -> Floats:
        order = len(self.weights)
        parts = [w * padded[order - k : order - k + n] for k, w in enumerate(self.weights, start=1)]
        return np.asarray(np.sum(parts, axis=0))


@dataclass(frozen=True)
class Description:
    """What may have happened from `start` to `end` (both included), and how much it explains."""

    kind: str
    start: int
    end: int
    size: float
    gain: float


def learn_background(rest: Floats, start: int) -> Background:
    """Learn from the readings before an event, or from all where these are few."""
    low = max(0, start - MOST_BEFORE)
    part = rest[low:start] if start - low >= LEAST_BEFORE else rest
    middle = float(np.median(part))
    reach = 4 * spread_of(part)
    clipped = np.clip(part - middle, -reach, reach)
    known = np.column_stack([clipped[ORDER - k : len(clipped) - k] for k in range(1, ORDER + 1)])
    target = clipped[ORDER:]
    ridge = 1e-3 * max(float(clipped.var()), 1e-18) * len(target) * np.eye(ORDER)
    weights = np.linalg.solve(known.T @ known + ridge, known.T @ target)
    left = 1.4826 * median_distance(target - known @ weights)
    floor = max(find_value_step(rest) / math.sqrt(12), 1e-3 * spread_of(rest), 1e-12)
    noise = max(left, floor)
    squares = np.minimum(np.abs(target - known @ weights) / noise, MOST_CLIPPED) ** 2
    return Background(np.asarray(weights, dtype=np.float64), noise, max(float(squares.mean()), 1e-6))


@dataclass(frozen=True, eq=False)
class Scene:
    """The readings around an event; places are counted from `low`.

    Attributes
    ----------
    x, rest
        Readings, and what their cycle leaves, less the level before the event.
    first, last
        Where the event was found.
    """

    x: Floats
    rest: Floats
    course: Floats | None  # of the cycle, around its mean
    period: int
    low: int
    first: int
    last: int
    is_known: bool  # whether the level is that of a reference
    background: Background
    new: Floats  # innovations in spreads

    @property
    def n(self) -> int:
        """Readings of the scene."""
        return len(self.rest)

    @property
    def swinging(self) -> Floats:
        """Readings around the level before the event, with the course of the cycle."""
        return self.rest if self.course is None else self.rest + self.course

    @property
    def cost(self) -> float:
        """What a parameter costs."""
        return math.log(max(self.n, 10))

    def described(self, kind: str, start: int, end: int, size: float, gain: float) -> Description:
        """A description of these places, counted from the beginning of the series."""
        return Description(kind, self.low + start, self.low + end, size, gain)


def make_scene(x: Floats, cycle: Cycle | None, start: int, end: int, known: int = 0) -> Scene:
    """Cut out what is around an event; before it, or on the first `known` readings, all is usual."""
    n = len(x)
    rest = x if cycle is None else x - cycle.profile
    length = end - start + 1
    low = max(known, start - max(LOOKED_BACK, 2 * length), 0)
    high = min(n, end + 1 + max(300, 3 * length, n // 6))
    background = learn_background(rest, known or max(start - 5, 0))
    before = rest[:known] if known else rest[low : max(start - 2, low + 1)][-LEVEL_BEFORE:]
    level = float(np.median(before))
    part = rest[low:high] - level
    course = None if cycle is None else cycle.profile[low:high] - float(cycle.profile.mean())
    new = background.innovations(part) / background.noise
    period = 0 if cycle is None else cycle.period
    return Scene(x[low:high], part, course, period, low, start - low, end - low, known > 0, background, new)


def describe(scene: Scene) -> Iterator[Description]:
    """Try every kind of description."""
    yield from _levels(scene)
    yield from _slopes(scene)
    yield from _describe_noises(scene)
    if scene.course is not None:
        yield from _describe_courses(scene)
    yield from _describe_own_ways(scene)


def _places(low: int, high: int) -> Integers:
    step = max(1, -(-(high - low) // MOST_PLACES))
    return np.arange(low, high, step)


def _list_stretches(scene: Scene) -> tuple[Integers, Integers]:
    """Where stretches may begin and end: all overlap with the event; where it jumps, exactly there."""
    jumps = np.argsort(-np.abs(scene.new), kind="stable")[:MOST_JUMPS]
    latest = min(scene.last + 11, scene.n)
    earliest = max(scene.first - 10, 0)
    starts = np.union1d(_places(0, latest), jumps[jumps < latest])
    ends = np.union1d(_places(earliest, scene.n), jumps[jumps > earliest] - 1)
    return starts, ends


class _Levels:
    """Gains of a level between two places, from sums over innovations."""

    def __init__(self, scene: Scene):
        n = scene.n
        step = scene.background.whitened(np.ones(n))
        self.noise = scene.background.noise
        ends = np.concatenate([scene.new, np.zeros(ORDER)])
        # Of a step at s: its innovations are step[0] at s, step[1] next, …, and constant from there on.
        later = np.append(np.cumsum(scene.new[::-1])[::-1], np.zeros(ORDER + 1))
        self.found = np.zeros(n + 1)
        for k in range(ORDER):
            self.found[:n] += (step[k] - step[-1]) * ends[k : k + n]
        self.found += step[-1] * later[: n + 1]
        self.found[n] = 0.0
        self.power = np.append(0.0, np.cumsum(step * step))
        self.step = step
        self.n = n

    def size_and_gain(self, start: Integers, end: Integers) -> tuple[Floats, Floats]:
        """Of a level from start to end (included); one to the last reading stays."""
        length = end - start + 1
        inner = self.found[start] - self.found[end + 1]
        power = self.power[length]
        for k in range(ORDER):
            back = np.where(length + k < self.n, self.step[np.minimum(length + k, self.n - 1)], 0.0)
            after = np.where(end + 1 + k < self.n, back - self.step[k], 0.0)
            power = power + after * after
        # the small differences beyond ORDER readings are zero: both steps are constant there
        size = inner / np.maximum(power, 1e-12)
        return np.asarray(size * self.noise), np.asarray(inner * inner / (2 * np.maximum(power, 1e-12)))


def _levels(scene: Scene) -> Iterator[Description]:
    """A level for a while (a spike, if it is short) and one that stays."""
    levels = _Levels(scene)
    starts, ends = _list_stretches(scene)
    best = _find_best_stretch(levels, starts, ends, scene)
    if best is not None:
        start, end = best
        size, gain = levels.size_and_gain(np.array([start]), np.array([end]))
        up = size[0] > 0
        is_short = end - start < SHORT
        kind = ("spike" if up else "dip") if is_short else ("passing_up" if up else "passing_down")
        cost = 2.0 if is_short else 3.0
        yield scene.described(kind, start, end, float(size[0]), float(gain[0]) - cost * scene.cost)
    if scene.n - scene.last > 20:
        earliest = 0 if scene.is_known else max(scene.first - 40, 0)
        every = np.arange(earliest, min(scene.last + 11, scene.n - 20))
        size, gain = levels.size_and_gain(every, np.full(len(every), scene.n - 1))
        k = int(gain.argmax())
        kind = "shift_up" if size[k] > 0 else "shift_down"
        yield scene.described(
            kind, int(every[k]), scene.n - 1, float(size[k]), float(gain[k]) - 2 * scene.cost
        )


def _find_best_stretch(
    levels: _Levels, starts: Integers, ends: Integers, scene: Scene
) -> tuple[int, int] | None:
    """Where a level gains most: among some places, then among all near the best of them."""
    found = _choose_best_of(levels, starts, ends, scene)
    if found is None:
        return None
    reach = 1 + scene.n // MOST_PLACES
    near = [np.arange(max(at - reach, 0), min(at + reach + 1, scene.n)) for at in found[:2]]
    again = _choose_best_of(levels, near[0], near[1], scene)
    best = found if again is None or again[2] < found[2] else again
    return best[0], best[1]


def _choose_best_of(
    levels: _Levels, starts: Integers, ends: Integers, scene: Scene
) -> tuple[int, int, float] | None:
    a, b = (grid.ravel() for grid in np.meshgrid(starts, ends, indexing="ij"))
    fits = (b >= a) & (b < scene.n - 1)
    if not fits.any():
        return None
    gains = levels.size_and_gain(a[fits], b[fits])[1]
    at = int(gains.argmax())
    return int(a[fits][at]), int(b[fits][at]), float(gains[at])


def _slopes(scene: Scene) -> Iterator[Description]:
    """A slope from some place on, to the end of the scene."""
    found = None
    for start in _places(0, min(scene.last + 11, scene.n - 40)):
        pattern = scene.background.whitened(np.arange(1.0, scene.n - start + 1))
        power = float(pattern @ pattern)
        inner = float(pattern @ scene.new[start:])
        gain = inner * inner / (2 * power)
        if found is None or gain > found[0]:
            found = (gain, int(start), inner / power * scene.background.noise)
    if found is not None:
        yield scene.described("trend", found[1], scene.n - 1, found[2], found[0] - 2.5 * scene.cost)


def _describe_noises(scene: Scene) -> Iterator[Description]:
    """Innovations of another size, for a while."""
    squared = np.minimum(np.abs(scene.new), MOST_CLIPPED) ** 2
    usual = scene.background.squared
    sums = np.append(0.0, np.cumsum(squared / usual))
    starts, ends = _list_stretches(scene)
    a, b = (grid.ravel() for grid in np.meshgrid(starts, ends, indexing="ij"))
    fits = b - a + 1 >= LEAST_NOISY
    if not fits.any():
        return
    length = (b - a + 1)[fits]
    times = np.maximum((sums[b[fits] + 1] - sums[a[fits]]) / length, 1e-3)
    gain = length / 2 * (times - 1 - np.log(times))
    for kind, is_it in (("noise_up", times > 1), ("noise_down", times < 1)):
        if is_it.any():
            k = int(np.where(is_it, gain, -np.inf).argmax())
            start, end = int(a[fits][k]), int(b[fits][k])
            yield scene.described(kind, start, end, math.sqrt(times[k]), float(gain[k]) - 3 * scene.cost)


def _describe_courses(scene: Scene) -> Iterator[Description]:
    """The course of the cycle left out, for half a period or longer."""
    if scene.course is None:
        return
    pattern = scene.background.whitened(-scene.course)
    inner = np.append(0.0, np.cumsum(pattern * scene.new))
    power = np.append(0.0, np.cumsum(pattern * pattern))
    step = max(1, scene.period // PARTS_OF_CYCLE)
    starts = np.arange(0, min(scene.last + 1, scene.n), step)
    found = None
    for parts in range(PARTS_OF_CYCLE // 2, 5 * PARTS_OF_CYCLE):
        ends = starts + parts * step
        fits = (ends <= scene.n) & (ends > scene.first)
        if not fits.any():
            continue
        found_inner = inner[ends[fits]] - inner[starts[fits]]
        found_power = np.maximum(power[ends[fits]] - power[starts[fits]], 1e-12)
        gains = found_inner * np.abs(found_inner) / (2 * found_power)
        k = int(gains.argmax())
        if found is None or gains[k] > found[0]:
            size = float(found_inner[k] / found_power[k]) * scene.background.noise
            found = (float(gains[k]), int(starts[fits][k]), int(ends[fits][k]) - 1, size)
    if found is not None and 0.4 < found[3] < 1.6:
        yield scene.described("missing_cycle", found[1], found[2], found[3], found[0] - 3 * scene.cost)


@dataclass(frozen=True)
class _Swing:
    """A stretch that swings by itself, at so many times the usual pace."""

    gain: float
    start: int
    end: int
    pace: float


def _describe_own_ways(scene: Scene) -> Iterator[Description]:
    """A stretch that swings by itself: at another pace (another rhythm), or at the same (another shape)."""
    usual = 1 / scene.period if scene.period else measure_rhythm(scene.rest[: max(scene.first, 60)])
    tried = [
        _describe_swing(scene, start, end, pace, usual)
        for start, end in _list_some_stretches(scene)
        for pace in PACES
    ]
    best = max((each for each in tried if each is not None), key=lambda each: each.gain, default=None)
    if best is None:
        yield scene.described("shape", scene.first, scene.last, 0.0, UNKNOWN)
        return
    best = _improved(scene, best, usual)
    is_other = not 0.8 < best.pace < 1.25
    kind = "frequency" if is_other else "shape"
    yield scene.described(kind, best.start, best.end, best.pace if is_other else 0.0, best.gain)


def _describe_swing(scene: Scene, start: int, end: int, pace: float, usual: float) -> _Swing | None:
    is_inside = 0 <= start < end < scene.n and start <= scene.last and end >= scene.first
    if not is_inside or end - start < LEAST_SWINGING or pace * usual * (end - start) < LEAST_SWINGS:
        return None
    return _Swing(_measure_swing_gain(scene, start, end, pace * usual), start, end, pace)


def _improved(scene: Scene, best: _Swing, usual: float) -> _Swing:
    """Move the ends, and the pace, as long as it gains."""
    step = max((best.end - best.start) // 8, 1)
    while step >= 1:
        moves = [(0, 0, 1.008), (0, 0, 1 / 1.008)]
        moves += [(a * step, b * step, 1.0) for a, b in ((1, 0), (-1, 0), (0, 1), (0, -1))]
        tried = [
            _describe_swing(scene, best.start + a, best.end + b, best.pace * c, usual) for a, b, c in moves
        ]
        found = max((each for each in tried if each is not None), key=lambda each: each.gain, default=best)
        if found.gain > best.gain:
            best = found
        else:
            step //= 2
    return best


def _list_some_stretches(scene: Scene) -> Iterator[tuple[int, int]]:
    """The event as it was found, shorter, and longer."""
    length = max(scene.last - scene.first + 1, 40, scene.period)
    for before in (-0.25, 0.0, 0.25, 0.6):
        for after in (-0.25, 0.0, 0.25, 0.6, 1.0):
            start = max(scene.first - round(before * length), 0)
            end = min(scene.last + round(after * length), scene.n - 1)
            if end - start >= LEAST_SWINGING:
                yield start, end


def _measure_swing_gain(scene: Scene, start: int, end: int, frequency: float) -> float:
    """What a wave with two overtones explains of a stretch, more than the usual course does."""
    # Around the level before: a wave with a level of its own would take any shift for a wave.
    x = scene.swinging[start : end + 1]
    angle = 2 * np.pi * frequency * np.arange(len(x))
    waves = [turn(k * angle) for k in (1, 2, 3) for turn in (np.sin, np.cos)]
    known = np.column_stack(waves)
    left = x - known @ np.linalg.lstsq(known, x, rcond=None)[0]
    own = scene.background.innovations(left) / scene.background.noise
    usual = scene.new[start : end + 1]
    return float((usual**2).sum() - (own**2).sum()) / 2 - COST_OF_SWING * scene.cost


def measure_rhythm(x: Floats) -> float:
    """Mean frequency of the readings around their mean, the high ones damped, in swings a reading."""
    centred = (x - x.mean()) * np.hanning(len(x))
    power = np.abs(np.fft.rfft(centred)) ** 2
    strong = power > 0.1 * power.max()
    return float((np.fft.rfftfreq(len(x)) * power * strong).sum() / max(float((power * strong).sum()), 1e-18))
