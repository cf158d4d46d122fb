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
from tellwhy.detectors.series.measures import median_distance, spread_of, value_step

ORDER = 4  # readings that the next one depends on
MOST_BEFORE = 2_000  # readings by which the autoregression is learned
LEAST_BEFORE = 60
LEVEL_BEFORE = 200  # readings whose middle is the level before an event
MOST_PLACES = 120  # where a stretch may begin, or end, at first; then one by one around the best
LEAST_NOISY = 12  # readings of a stretch of other noise
SHORT = 3  # readings of a spike
PARTS_OF_CYCLE = 8
OWN_ORDER = 4  # of the autoregression of a stretch of another course
MOST_CLIPPED = 8.0  # spreads: innovations beyond count as these for noise


@dataclass(frozen=True, eq=False)
class Background:
    """How readings depend on those before them where nothing happens."""

    weights: Floats
    noise: float  # spread of the innovations

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
    floor = max(value_step(rest) / math.sqrt(12), 1e-3 * spread_of(rest), 1e-12)
    return Background(np.asarray(weights, dtype=np.float64), max(left, floor))


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
    low = max(known, start - max(LEVEL_BEFORE, 2 * length), 0)
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
    yield from _noises(scene)
    if scene.course is not None:
        yield from _courses(scene)
    yield from _own_ways(scene)


def _places(low: int, high: int) -> Integers:
    step = max(1, -(-(high - low) // MOST_PLACES))
    return np.arange(low, high, step)


def _stretches(scene: Scene) -> tuple[Integers, Integers]:
    """Where stretches may begin and end: all overlap with the event."""
    return _places(0, min(scene.last + 11, scene.n)), _places(max(scene.first - 10, 0), scene.n)


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
    starts, ends = _stretches(scene)
    best = _best_stretch(levels, starts, ends, scene)
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


def _best_stretch(levels: _Levels, starts: Integers, ends: Integers, scene: Scene) -> tuple[int, int] | None:
    """Where a level gains most: among some places, then among all near the best of them."""
    best = None
    step = max(
        int(starts[1] - starts[0]) if len(starts) > 1 else 1, int(ends[1] - ends[0]) if len(ends) > 1 else 1
    )
    tried = [(starts, ends)]
    near = np.arange(max(scene.first - 5, 0), min(scene.last + 6, scene.n))[:400]
    tried.append((near, near))
    for k, (some, others) in enumerate(tried):
        a, b = (grid.ravel() for grid in np.meshgrid(some, others, indexing="ij"))
        fits = (b >= a) & (b < scene.n - 1)
        if not fits.any():
            continue
        gains = levels.size_and_gain(a[fits], b[fits])[1]
        at = int(gains.argmax())
        if best is None or gains[at] > best[2]:
            best = (int(a[fits][at]), int(b[fits][at]), float(gains[at]))
        if k == 0 and step > 1:
            around = [np.arange(max(p - step, 0), min(p + step + 1, scene.n)) for p in best[:2]]
            tried.append((around[0], around[1]))
    return None if best is None else best[:2]


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


def _noises(scene: Scene) -> Iterator[Description]:
    """Innovations of another size, for a while."""
    squared = np.minimum(np.abs(scene.new), MOST_CLIPPED) ** 2
    usual = max(float(np.mean(squared[: max(scene.first - 5, 20)])), 1e-6)
    sums = np.append(0.0, np.cumsum(squared / usual))
    starts, ends = _stretches(scene)
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


def _courses(scene: Scene) -> Iterator[Description]:
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
        found_inner = (
            (inner[ends[fits]] - inner[starts[fits]]) / scene.background.noise * scene.background.noise
        )
        found_power = np.maximum(power[ends[fits]] - power[starts[fits]], 1e-12)
        gains = found_inner * np.abs(found_inner) / (2 * found_power)
        k = int(gains.argmax())
        if found is None or gains[k] > found[0]:
            size = float(found_inner[k] / found_power[k]) * scene.background.noise
            found = (float(gains[k]), int(starts[fits][k]), int(ends[fits][k]) - 1, size)
    if found is not None and 0.4 < found[3] < 1.6:
        yield scene.described("missing_cycle", found[1], found[2], found[3], found[0] - 3 * scene.cost)


def _own_ways(scene: Scene) -> Iterator[Description]:
    """A stretch whose readings depend on each other otherwise: another rhythm, or another shape."""
    first, last = scene.first, scene.last
    best = None
    for start, end in _some_stretches(scene):
        gain = _own_gain(scene, start, end)
        if best is None or gain > best[0]:
            best = (gain, start, end)
    if best is None:
        best = (-math.inf, first, last)
    gain = best[0]
    start = best[1]
    end = best[2]
    inside = scene.x[start : end + 1]
    before = scene.x[max(0, start - max(len(inside), 100)) : start]
    times = rhythm(inside) / max(rhythm(before), 1e-9) if len(before) > 20 else 1.0
    kind = "shape" if 0.75 < times < 1.33 else "frequency"
    yield scene.described(kind, start, end, times if kind == "frequency" else 0.0, gain)


def _some_stretches(scene: Scene) -> Iterator[tuple[int, int]]:
    """The event as it was found, shorter, and longer."""
    length = scene.last - scene.first + 1
    moves = sorted({round(part * max(length, 40)) for part in (-0.5, -0.25, 0.0, 0.25, 0.5, 1.0)})
    for before in moves:
        for after in moves:
            start = max(scene.first - before, 0)
            end = min(scene.last + after, scene.n - 1)
            if end - start >= 6 * OWN_ORDER:
                yield start, end


def _own_gain(scene: Scene, start: int, end: int) -> float:
    """What an autoregression of the stretch itself explains more than the usual one."""
    x = scene.x[start : end + 1]
    known = np.column_stack(
        [np.ones(len(x) - OWN_ORDER), *[x[OWN_ORDER - k : len(x) - k] for k in range(1, OWN_ORDER + 1)]]
    )
    target = x[OWN_ORDER:]
    weights = np.linalg.lstsq(known, target, rcond=None)[0]
    own = float(((target - known @ weights) ** 2).sum()) / scene.background.noise**2
    usual = float((scene.new[start + OWN_ORDER : end + 1] ** 2).sum())
    return (usual - own) / 2 - (3 + (OWN_ORDER + 1) / 2) * scene.cost


def rhythm(x: Floats) -> float:
    """Mean frequency of the readings around their mean, the high ones damped, in swings a reading."""
    centred = (x - x.mean()) * np.hanning(len(x))
    power = np.abs(np.fft.rfft(centred)) ** 2
    strong = power > 0.1 * power.max()
    return float((np.fft.rfftfreq(len(x)) * power * strong).sum() / max(float((power * strong).sum()), 1e-18))
