"""Evidence of events in one channel: at each reading, how many as strange a quiet series would have.

Novelty, a detector of its own, is how far the window that ends now is from the nearest window before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.arrays import draw_sample
from tellwhy.core.score import Floats
from tellwhy.detectors.series import changes as change
from tellwhy.detectors.series._compiled import find_nearest_earlier
from tellwhy.detectors.series.cycles import Cycle, find_cycle
from tellwhy.detectors.series.measures import find_value_step, log_expected, standardise_readings, surprise

BLOCK = 0.02  # share of a series in a block
LEAST_BLOCK = 10
TAUGHT = 0.15  # share of a series that only teaches
MOST_TAUGHT = 750  # readings, or a fortieth of a long series

# Number of further blocks, and the scale of the tail in them: learned on clean generated series.
PRIOR = (24.0, 0.4)
PRIORS = {
    "shape": (24.0, 0.3),
    "stuck": (24.0, 0.2),
    "level": (24.0, 0.22),
    "variance": (24.0, 0.15),
    "frequency": (24.0, 0.18),
    "relation": (24.0, 0.18),
    "course": (24.0, 0.3),
}

# What the expected false events of a detector are multiplied by, since several are asked.
WEIGHTS = {
    "novelty": 1.3,
    "forecast": 4.0,
    "shape": 4.0,
    "level": 5.0,
    "variance": 6.0,
    "frequency": 5.0,
    "stuck": 4.0,
    "relation": 6.0,
    "course": 4.0,
}
DETECTORS = (
    "novelty",
    "forecast",
    "shape",
    "level",
    "variance",
    "frequency",
    "trend",
    "stuck",
    "course",
    "relation",
    "together",
)


@dataclass(frozen=True)
class Pace:
    """How a series is divided.

    Attributes
    ----------
    n
        Readings.
    step
        Seconds between two readings; None where they are no moments.
    before
        First readings that are not judged: those of the past, or of a reference.
    is_clean
        Whether somebody says that these are ordinary.
    """

    n: int
    step: float | None = None
    before: int = 0
    is_clean: bool = False

    @property
    def block(self) -> int:
        """Readings of a block."""
        block = max(LEAST_BLOCK, int(BLOCK * self.n))
        return min(block, max(self.known // 10, LEAST_BLOCK)) if self.known else block

    @property
    def known(self) -> int:
        """First readings that are known to be ordinary."""
        return self.before if self.is_clean else 0

    @property
    def first(self) -> int:
        """The first reading that may be an event: those before it only teach."""
        return max(self.before, int(min(TAUGHT * self.n, max(MOST_TAUGHT, self.n / 40))))

    @property
    def usual_part(self) -> slice:
        """Readings by which it is judged what is usual."""
        taught = int(min(TAUGHT * self.n, max(MOST_TAUGHT, self.n / 40)))
        return slice(0, self.known) if self.known else slice(taught, None)

    @property
    def n_judged(self) -> int:
        """How many readings an event may be in."""
        return self.n - (self.before or self.first)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of a channel: expected false events (log 10) of the surest detector, and which it is."""

    channel: int
    log_expected: Floats
    detector: NDArray[np.int8]
    alone: Floats  # what the channel says alone, without what others leave of it
    cycle: Cycle | None


def is_flat(x: Floats) -> bool:
    """Whether a channel never changes, but for rounding."""
    return not float(x.std()) > 1e-9 * (1 + float(np.abs(x).max()))


def gather(X: Floats, channel: int, pace: Pace) -> Evidence:
    """Ask all detectors about one channel, and keep the surest at each reading."""
    best = np.full(pace.n, np.inf)
    by = np.zeros(pace.n, dtype=np.int8)
    x = X[:, channel]
    cycle = None
    alone = best
    if not is_flat(x):
        cycle = find_cycle(x, pace.step)
        for name, told in _gather_of_detectors(X, channel, cycle, pace):
            if name == "relation":
                alone = best.copy()
            is_surer = told < best
            best[is_surer] = told[is_surer]
            by[is_surer] = DETECTORS.index(name)
    return Evidence(channel, best, by, alone, cycle)


def _gather_of_detectors(X: Floats, at: int, cycle: Cycle | None, pace: Pace) -> Iterator[tuple[str, Floats]]:
    """Each detector with its evidence, the weight of its budget counted."""
    x = X[:, at]
    rest = x if cycle is None else x - cycle.profile
    yield from _gather_of_novelty(x, rest, cycle, pace)
    if pace.known:  # what lasts is told by all channels together
        return
    scaled = standardise_readings(rest)
    widest = change.choose_scales(pace.n)[-1]
    block = max(pace.block, widest)
    for name, told in change.changes(scaled, pace.block, pace.usual_part).items():
        yield name, _weighed(name, told, block, pace)
    if not find_value_step(scaled):
        runs = change.measure_long_runs(x, pace.block, pace.usual_part)
        yield "stuck", _weighed("stuck", runs, pace.block, pace)
    if cycle is not None:
        lost = change.measure_course_losses(x, cycle, pace.block, pace.usual_part)
        yield "course", _weighed("course", lost, max(pace.block, cycle.period), pace)
    if X.shape[1] > 1:
        yield from _gather_of_relation(X, at, pace)


def gather_trend_evidence(x: Floats, cycle: Cycle | None, pace: Pace) -> Floats:
    """Evidence of another slope.

    It stands apart from the other detectors, since whatever moves for a while bends long means.
    """
    if is_flat(x) or pace.known:
        return np.full(pace.n, np.inf)
    rest = x if cycle is None else x - cycle.profile
    found = change.log_expected_bends(standardise_readings(rest))
    found[: pace.first] = np.inf
    return np.asarray(found)


def _gather_of_novelty(
    x: Floats, rest: Floats, cycle: Cycle | None, pace: Pace
) -> Iterator[tuple[str, Floats]]:
    """Windows unlike all before: of the series, of what its cycle leaves, of what a forecast leaves."""
    asked = partial(novelty, block=pace.block, usual_part=pace.usual_part, known=pace.known)
    told = asked(x)
    if cycle is not None:
        told = np.maximum(told, asked(rest))
    yield "novelty", _expect(told, pace.block, pace, WEIGHTS["novelty"])
    scaled = standardise_readings(rest)
    left = measure_unforeseen(scaled)
    told = asked(left, lengths=OF_FORECAST, step=find_value_step(scaled))
    yield "forecast", _expect(told, pace.block, pace, WEIGHTS["forecast"])
    if pace.n > 20 * OF_SHAPE[-1]:
        told = asked(rest, lengths=OF_SHAPE)
        block = max(pace.block, OF_SHAPE[-1])
        yield "shape", _expect(told, block, pace, WEIGHTS["shape"], PRIORS["shape"])


def _gather_of_relation(X: Floats, at: int, pace: Pace) -> Iterator[tuple[str, Floats]]:
    """A lasting change of what the other channels leave of this one."""
    rest = change.predict_rest_of_others(X, at)
    if rest is not None and not is_flat(rest):
        told = change.changes(standardise_readings(rest), pace.block, pace.usual_part)
        larger = np.maximum(told["level"], told["variance"])
        block = max(pace.block, change.choose_scales(pace.n)[-1])
        yield "relation", _weighed("relation", larger, block, pace)


def _weighed(name: str, told: Floats, block: int, pace: Pace) -> Floats:
    """What is to be expected of a detector of changes."""
    return _expect(told, block, pace, WEIGHTS[name], PRIORS[name], lowest=0.0)


def _expect(
    told: Floats,
    block: int,
    pace: Pace,
    weight: float,
    prior: tuple[float, float] = PRIOR,
    *,
    lowest: float = -0.4,
) -> Floats:
    found = log_expected(told, block, pace.usual_part, n_judged=pace.n_judged, prior=prior, lowest=lowest)
    return np.asarray(found + math.log10(weight))


LENGTHS = (1, 4, 10, 20)  # readings of a window
OF_FORECAST = (1, 2, 4)  # of what a forecast leaves
OF_SHAPE = (40, 80)
PARTS = 8  # means that a long window is described by
MOST_COMPARED = 4_000  # windows that each is compared with
OF_LONG_SERIES = 1_000  # the same in series of more than so many readings:
LONG = 200_000
STEPS_ALLOWED = 1.5  # of a series of few values
LEAST_USUAL = 0.03  # spreads: smaller distances are never new
LAGS = 8  # readings that the next one is foretold by


def compute_window_means(x: Floats, width: int) -> Floats:
    """Means of the parts of the window that ends at each place: (n, at most 8)."""
    n = len(x)
    n_parts = min(PARTS, width)
    sums = np.append(0.0, np.cumsum(x))
    at = np.arange(n)
    means = np.empty((n, n_parts))
    for k in range(n_parts):
        first = np.clip(at - width + 1 + round(k * width / n_parts), 0, n)
        last = np.clip(at - width + 1 + round((k + 1) * width / n_parts), 0, n)
        means[:, k] = (sums[last] - sums[first]) / np.maximum(last - first, 1)
    return means


def distances(x: Floats, width: int, known: int = 0) -> Floats:
    """Distance of the window that ends at each place to the nearest that ends a width before it.

    Of a long series, each is compared with some thousand earlier ones, drawn once. With `known`, windows are
    compared with those of the first so many readings, which are known to be ordinary.
    """
    pool = np.arange(width - 1, known or len(x))
    most = OF_LONG_SERIES if len(x) > LONG else MOST_COMPARED
    if len(pool) > 2 * most:
        pool = np.sort(pool[draw_sample(len(pool), most, np.random.default_rng(0))])
    means = compute_window_means(x, width)
    keys = means.sum(axis=1) / math.sqrt(means.shape[1])
    found = find_nearest_earlier(means, keys, pool, width, known)
    found[: max(2 * width, 20)] = 0.0
    allowed = STEPS_ALLOWED * find_value_step(x) / math.sqrt(width)
    return np.asarray(np.maximum(found - allowed, 0.0))


def novelty(
    x: Floats,
    block: int,
    usual_part: slice,
    *,
    lengths: tuple[int, ...] = LENGTHS,
    step: float | None = None,
    known: int = 0,
) -> Floats:
    """Mean over several lengths of the surprise at a window's distance from what was before it."""
    scaled = standardise_readings(x)
    jump = find_value_step(scaled) if step is None else step
    found = [
        surprise(
            distances(scaled, width, known),
            block,
            usual_part,
            max(LEAST_USUAL, jump / math.sqrt(width)),
        )
        for width in lengths
    ]
    return np.asarray(np.mean(found, axis=0))


def measure_unforeseen(x: Floats) -> Floats:
    """What a ridge on the last eight readings leaves.

    It learns from clipped readings, so that events weigh little.
    """
    low, high = np.quantile(x, [0.005, 0.995])
    clipped = np.clip(x, low, high)
    before = np.ones((len(x), LAGS + 1))
    for k in range(LAGS):
        before[:, k] = np.append(np.full(k + 1, clipped[0]), clipped[: -k - 1])
    ridge = 0.01 * len(x) / LAGS * max(float(clipped.var()), 1e-12)
    weights = np.linalg.solve(before.T @ before + ridge * np.eye(LAGS + 1), before.T @ clipped)
    return np.asarray(x - before @ weights)
