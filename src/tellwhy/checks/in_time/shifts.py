"""Levels that change for good, and slow drifts.

The series is cut into some hundred blocks, of which the medians are looked at. A step at each place, and a
line that begins to rise at each place, are fitted to them. Whether the best of all is better than chance
makes it is found out on simulated series without a change, whose blocks depend on each other as much as here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from tellwhy.core.score import Floats, Integers
from tellwhy.scoring.surprise import Surprise

MOST_BLOCKS = 100
FEWEST_BLOCKS = 12
LEAST_SIDE = 3  # blocks on either side of a step, and behind the begin of a drift
N_SIMULATED = 400
STRONGEST = 0.8  # dependence between blocks beyond which the series wanders, and nothing can be said
LEAST_STEP = 1.0  # size of a step, and of all of a drift, in standard deviations of readings
LEAST_DRIFT = 2.0
MOST_CHANGES = 4
SUDDEN = 0.6  # of a step, beside a slope around it
TO_SIGMA = 1.4826


@dataclass(frozen=True)
class Change:
    """A step at a reading, or a drift that begins there, by `size` in all."""

    kind: str  # "level_shift" | "drift"
    start: int
    size: float
    surprise: float


def find_changes(values: Floats, level: float) -> list[Change]:
    """Steps and drifts whose surprise is above the level, in the order of time.

    Parameters
    ----------
    values
        Readings in the order of time, less what their time usually has; NaN where they are explained.
    level
        Surprise to be exceeded.
    """
    blocks = _Blocks.of(values)
    if blocks is None:
        return []
    noise = _noise(values)
    rest = blocks.medians
    found: list[Change] = []
    for _ in range(MOST_CHANGES):
        fit = _best(rest)
        surprise = _surprise(rest, fit) - float(np.log(MOST_CHANGES))
        least = LEAST_STEP if fit.is_step else LEAST_DRIFT
        if surprise <= level or abs(fit.size) < least * noise:
            break
        rest = rest - fit.line
        start = blocks.refined(values, fit) if fit.is_step else int(blocks.starts[fit.place])
        if not fit.is_step:
            found.append(Change("drift", start, fit.size, surprise))
        elif blocks.is_sudden(values, start, fit.size):
            found.append(Change("level_shift", start, fit.size, surprise))
    return _merged(sorted(found, key=lambda change: change.start), 2 * len(values) // len(rest))


def _merged(changes: list[Change], near: int) -> list[Change]:
    """Steps that are next to each other as one, which is the sum of them."""
    found: list[Change] = []
    for change in changes:
        last = found[-1] if found else None
        if (
            last is not None
            and last.kind == change.kind == "level_shift"
            and change.start - last.start <= near
        ):
            found[-1] = replace(last, size=last.size + change.size)
        else:
            found.append(change)
    return found


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Medians of stretches of readings, and where each stretch starts."""

    medians: Floats
    starts: Integers

    @classmethod
    def of(cls, values: Floats) -> _Blocks | None:
        n_blocks = min(MOST_BLOCKS, len(values) // 3)
        if n_blocks < FEWEST_BLOCKS:
            return None
        starts = np.linspace(0, len(values), n_blocks, endpoint=False).astype(np.int64)
        parts = np.split(values, starts[1:])
        medians = np.array([np.nanmedian(p) if np.isfinite(p).any() else np.nan for p in parts])
        there = np.flatnonzero(np.isfinite(medians))
        if len(there) < FEWEST_BLOCKS:
            return None
        return cls(np.interp(np.arange(n_blocks), there, medians[there]), starts)

    def is_sudden(self, values: Floats, start: int, size: float) -> bool:
        """Whether most of a step happens at once: a slope, or a slow wave, is no change of level."""
        width = max(10, 3 * len(values) // len(self.starts))
        low = max(start - width, 0)
        part = values[low : start + width]
        there = np.flatnonzero(np.isfinite(part))
        is_after = there >= start - low
        if min(int(is_after.sum()), int((~is_after).sum())) < LEAST_SIDE:
            return False
        design = np.column_stack([np.ones(len(there)), there - there.mean(), is_after])
        jump = float(np.linalg.lstsq(design, part[there], rcond=None)[0][2])
        return jump * np.sign(size) >= SUDDEN * abs(size)

    def refined(self, values: Floats, fit: _Fit) -> int:
        """The reading at which a step is, within the blocks beside it."""
        low = int(self.starts[max(fit.place - 2, 0)])
        high = int(self.starts[min(fit.place + 2, len(self.starts) - 1)])
        if not np.isfinite(values[low:high]).any():
            return int(self.starts[fit.place])  # a passing event covers all of it: any place is as good
        part = np.nan_to_num(values[low:high], nan=float(np.nanmedian(values[low:high])))
        centred = part - part.mean()
        sums = np.cumsum(centred)[:-1]
        size = np.arange(1, len(part))
        # Explained sum of squares of a step after each reading.
        gain = sums**2 * len(part) / (size * (len(part) - size))
        return low + 1 + int(np.argmax(gain))


@dataclass(frozen=True, eq=False)
class _Fit:
    """The best step or drift: where, how large, its line, and its gain beside what is left."""

    is_step: bool
    place: int
    size: float
    line: Floats
    ratio: float


@lru_cache(maxsize=32)
def _shapes(n: int) -> Floats:
    """All steps, then all drifts, centred and of length 1: shape (shapes, n)."""
    t = np.arange(n)
    places = np.arange(LEAST_SIDE, n - LEAST_SIDE + 1)
    steps = (t[None, :] >= places[:, None]).astype(np.float64)
    # A drift that begins before the series is a line through all of it.
    begins = np.concatenate([[0], np.arange(LEAST_SIDE, n - 2 * LEAST_SIDE)])
    drifts = np.maximum(t[None, :] - begins[:, None], 0).astype(np.float64)
    shapes = np.vstack([steps, drifts])
    shapes -= shapes.mean(axis=1, keepdims=True)
    return np.asarray(shapes / np.linalg.norm(shapes, axis=1, keepdims=True))


def _best(medians: Floats) -> _Fit:
    n = len(medians)
    shapes = _shapes(n)
    weights = shapes @ (medians - medians.mean())
    k = int(np.argmax(np.abs(weights)))
    line = weights[k] * shapes[k]
    n_steps = n - 2 * LEAST_SIDE + 1
    is_step = k < n_steps
    begins = [0, *range(LEAST_SIDE, n - 2 * LEAST_SIDE)]
    place = LEAST_SIDE + k if is_step else begins[k - n_steps]
    return _Fit(is_step, place, float(line[-1] - line[0]), line, float(_ratios(medians[None, :])[0]))


def _ratios(medians: Floats) -> Floats:
    """Root of the best shape's part of the squares beside the rest, for each series."""
    centred = medians - medians.mean(axis=1, keepdims=True)
    gain = ((centred @ _shapes(medians.shape[1]).T) ** 2).max(axis=1)
    rest = np.maximum((centred**2).sum(axis=1) - gain, 1e-12 * gain + 1e-300)
    return np.sqrt(gain / rest)


def _surprise(medians: Floats, fit: _Fit) -> float:
    """−log of the chance that a series without a change has a shape that fits as well."""
    dependence = _dependence(medians)
    if dependence >= STRONGEST:
        return 0.0
    # A grid of dependences, rounded up, so that few series are simulated.
    law = _chance(len(medians), float(np.ceil(20 * max(dependence, 0.0)) / 20))
    return float(law.value(np.array([fit.ratio]))[0])


def _dependence(medians: Floats) -> float:
    """Correlation φ of a block with the next, told by the steps between blocks, of which changes move few.

    Steps are correlated by −(1 − φ)/2, and not at all in a series that wanders. What chance may hide of that
    in so few blocks is added.
    """
    steps = np.diff(medians)
    steps = steps - np.median(steps)
    is_usual = np.abs(steps) <= 3 * TO_SIGMA * float(np.median(np.abs(steps)))
    one = steps[1:][is_usual[1:] & is_usual[:-1]]
    other = steps[:-1][is_usual[1:] & is_usual[:-1]]
    total = float(one @ one + other @ other) / 2
    found = float(one @ other) / total if total > 0 else 0.0
    return 1 + 2 * found + 1 / np.sqrt(len(medians))


@lru_cache(maxsize=64)
def _chance(n: int, dependence: float) -> Surprise:
    """How large ratios are without a change."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(N_SIMULATED, n + 50))
    for t in range(1, n + 50):
        noise[:, t] += dependence * noise[:, t - 1]
    return Surprise.learn(_ratios(noise[:, 50:]), is_clean=True, most_shape=0.1)


def _noise(values: Floats) -> float:
    """Standard deviation of readings around their neighbours' level."""
    filled = values[np.isfinite(values)]
    steps = np.diff(filled)
    own = TO_SIGMA * float(np.median(np.abs(filled - np.median(filled))))
    return max(TO_SIGMA * float(np.median(np.abs(steps))) / np.sqrt(2), 0.2 * own)
