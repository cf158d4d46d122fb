"""Readings that leave what is around them for a while: spikes, and shifts that pass.

For stretches of one reading, of two, three, five and so on, the mean of the stretch is compared with the
middle of what is before it and of what is after it: the smaller of the two differences counts, and none where
they differ in sign, as on a slope or at a step that stays. How large such differences are by chance is
learned from all stretches of the series, whatever its noise and however much a reading depends on the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t

from tellwhy.core.score import Floats

LENGTHS = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89)
FLANK = 2  # times the length of a stretch is looked at before and after it, and at least
LEAST_FLANK = 8
LEAST_STRETCHES = 12  # of a length that must fit into the series
FEWEST = 20  # readings of a series
MOST_KEPT = 100
LONG = 100_000
AT_THE_END = 0.6  # about the smaller of two differences, beside one
SPARED = 8  # largest differences that say nothing of the tail: they may be events
WEIGHTS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25)
LARGEST_WEIGHT = WEIGHTS[-1]


@dataclass(frozen=True)
class Bump:
    """Readings from `start` up to, not including, `end` that are off by `size` on average."""

    start: int
    end: int
    size: float
    surprise: float


def find_bumps(values: Floats, scale: Floats, level: float) -> list[Bump]:
    """Stretches whose surprise is above the level, none overlapping another, the most surprising first.

    Parameters
    ----------
    values
        Readings in the order of time, less what their time usually has.
    scale
        How much readings of each time vary.
    level
        Surprise to be exceeded, before it is corrected for the number of lengths.
    """
    n = len(values)
    lengths = [length for length in LENGTHS if length * LEAST_STRETCHES <= n]
    if n > LONG:  # every second length: between them, a stretch is found by its neighbours in the list
        lengths = lengths[::2]
    if n < FEWEST or not lengths:
        return []
    wanted = level + float(np.log(len(lengths)))
    weight = tail_weight(_differences(values, 1) / scale)
    found: list[Bump] = []
    for length in lengths:
        size = _differences(values, length)
        spread = pd.Series(scale).rolling(length).mean().to_numpy()[length - 1 :]  # from each start on
        surprise = _surprises(size / np.append(spread, np.ones(length - 1)), length, weight)
        for start in np.flatnonzero(surprise > wanted):
            off = float(size[start])
            found.append(Bump(int(start), int(start + length), off, float(surprise[start])))
    return [_fitted(values, bump) for bump in _apart(found)]


def _fitted(values: Floats, bump: Bump) -> Bump:
    """The same bump from the first to the last of the readings that are about as far off."""
    usual = around(values, bump.start, bump.end)
    off = (values - usual) * np.sign(bump.size)
    # A single reading far off may have been found as a stretch: those beside it are not.
    far = off >= max(abs(bump.size) / 2, float(off[bump.start : bump.end].max()) / 3)
    start = bump.start
    end = bump.end
    longest = FLANK * (end - start)
    while start > max(bump.start - longest, 0) and far[start - 1]:
        start -= 1
    while end < min(bump.end + longest, len(values)) and far[end]:
        end += 1
    while start < end - 1 and not far[start]:
        start += 1
    while end > start + 1 and not far[end - 1]:
        end -= 1
    size = float(np.mean(values[start:end])) - around(values, start, end)
    return Bump(start, end, size, bump.surprise)


def around(values: Floats, start: int, end: int) -> float:
    """The middle of what is there before and after a stretch; NaN where nothing is."""
    flank = max(FLANK * (end - start), LEAST_FLANK)
    beside = np.concatenate([values[max(start - flank, 0) : start], values[end : end + flank]])
    return float(pd.Series(beside).median())


def _differences(values: Floats, length: int) -> Floats:
    """Difference of the stretch that starts at each reading from its surroundings; 0 where they disagree."""
    n = len(values)
    flank = max(FLANK * length, LEAST_FLANK)
    series = pd.Series(values)
    means = series.rolling(length).mean().to_numpy()[length - 1 :]  # of the stretch from each start
    least = max(3, flank // 2)
    middles = series.rolling(flank, min_periods=least).median().to_numpy()  # of the flank that ends at each
    before = np.concatenate([[np.nan], middles[:-1]])[: len(means)]
    ahead = series[::-1].rolling(flank, min_periods=least).median().to_numpy()[::-1]  # that starts at each
    after = np.concatenate([ahead, np.full(length, np.nan)])[length : length + len(means)]
    one = means - before
    other = means - after
    # At the ends of the series there is only one side to compare with, and no second one to be smaller.
    one = np.where(np.isnan(one), AT_THE_END * other, one)
    other = np.where(np.isnan(other), AT_THE_END * one, other)
    smaller = np.where(np.abs(one) < np.abs(other), one, other)
    found = np.zeros(n)
    found[: len(means)] = np.where(one * other > 0, smaller, 0.0)
    return found


def tail_weight(differences: Floats) -> float:
    """How heavy the tails of single readings are: 0 for those of a normal variable, at most a quarter.

    Beyond its 70 % quantile, a normal variable falls off faster than the exponential law whose weight is 0.
    """
    sizes = np.abs(differences)
    some = sizes[sizes > 0]
    if len(some) < FEWEST:
        return LARGEST_WEIGHT
    # Up to where a few events can reach.
    levels = 1 - np.geomspace(0.5, max(SPARED / len(some), 0.001), 30)
    quantiles = np.log(np.quantile(some, levels))
    # The degrees of freedom with which Student's quantiles grow most nearly as these do.
    errors = {}
    for weight in WEIGHTS:
        rest = quantiles - np.log(_student(weight).ppf((1 + levels) / 2))
        errors[weight] = float(np.var(rest))
    least = min(errors.values())
    # Of weights that fit about as well, one of the smaller: short series cannot tell them apart.
    return float(np.quantile([weight for weight, error in errors.items() if error <= 1.5 * least], 0.25))


def _student(weight: float) -> Any:
    """Student's law with 1/weight degrees of freedom."""
    return t(1 / max(weight, 1e-3))


def _surprises(differences: Floats, length: int, weight: float) -> Floats:
    """−log of the chance of a difference as large.

    The scale is told by the median of all differences, which one event does not move. The mean of a long
    stretch has lighter tails than a reading, but its scale is known from fewer stretches.
    """
    sizes = np.abs(differences)
    some = sizes[sizes > 0]
    if len(some) < FEWEST:
        return np.zeros(len(sizes))
    n_stretches = len(sizes) / (3 * length)
    law = _student(max(weight / np.sqrt(length), 1 / max(n_stretches, 2.0) if length > 1 else 0.0))
    scale = float(np.median(some)) / float(law.ppf(0.75))
    return np.where(sizes > 0, -law.logsf(sizes / scale) - np.log(2.0), 0.0)


def _apart(found: list[Bump]) -> list[Bump]:
    """Keep the most surprising of bumps that are not farther from each other than they are long.

    What is beside a bump is compared with the bump, and may stand out for that alone.
    """
    kept: list[Bump] = []
    for bump in sorted(found, key=lambda each: (-each.surprise, each.end - each.start)):
        if all(_gap(bump, other) > other.end - other.start for other in kept):
            kept.append(bump)
        if len(kept) > MOST_KEPT:
            break
    return kept


def _gap(one: Bump, other: Bump) -> int:
    """Readings between two bumps; 0 and less where they touch."""
    return max(one.start - other.end, other.start - one.end)
