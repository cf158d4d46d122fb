"""What is usual for a number in each segment, drawn towards the whole table where a segment is small.

Values are taken to be y = m_s + σ_s·ε in segment s. The segments' m_s lie around the middle M of the table
with variance τ², and the logarithms of their σ_s around a common one with variance ω². Both variances are
learned from the segments themselves (empirical Bayes): how far apart they are, less what chance alone puts
between medians and spreads of so few rows. A row is judged without itself: a segment of one row tells nothing
of that row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from tellwhy.core.running import cut_batches
from tellwhy.core.score import Floats, Integers

TO_SIGMA = 1.4826  # times the median distance from the median: the standard deviation of a normal variable
VARIANCE_OF_MEDIAN = np.pi / 2  # times σ²/n
VARIANCE_OF_LOG_SPREAD = 1.36  # /n, of the logarithm of the median distance
ENOUGH = 5  # rows of a segment from which the differences between segments are learned
FEW = 30  # rows of a segment up to which each is left out in turn; one of more hardly moves a median
MOST_LEVELS = 200  # different values of a column that may be counts
COARSE = 0.2  # of the spread: steps above it are seen
LONG_TAIL = 1.5  # times longer to the right than to the left


class Bend(NamedTuple):
    """A form in which values are compared, and the way back."""

    there: Callable[[Floats], Floats]
    back: Callable[[Floats], Floats]


BENDS = {
    "as it is": Bend(lambda y: y, lambda z: z),
    "square root": Bend(np.sqrt, lambda z: np.maximum(z, 0.0) ** 2),
    "logarithm": Bend(np.log, lambda z: np.exp(np.minimum(z, 700.0))),  # e^710 is beyond all numbers
}


class Spread(NamedTuple):
    """Middle, spread and number of rows of each segment, as they are."""

    middle: Floats
    log_spread: Floats  # NaN where rows are too few, or all alike
    n: Floats


@dataclass(frozen=True)
class Prior:
    """What segments have in common: where they lie, how far apart, and the same of their spreads."""

    middle: float
    variance: float  # τ²
    log_spread: float
    variance_of_log_spread: float  # ω²

    @classmethod
    def learn(cls, found: Spread, values: Floats) -> Prior:
        """Learn from the segments with enough rows; from the whole table where none has enough."""
        many = np.flatnonzero(found.n >= ENOUGH)
        whole = _whole(values)
        if len(many) < 2:
            return cls(whole.middle, 0.0, whole.log_spread, 0.0)
        known = many[np.isfinite(found.log_spread[many])]
        spreads = found.log_spread[known]
        common = float(np.median(np.repeat(spreads, _weights(found.n[known])))) if len(known) else np.nan
        common = common if np.isfinite(common) else whole.log_spread
        between = _excess(spreads, VARIANCE_OF_LOG_SPREAD / found.n[known]) if len(known) > 1 else 0.0
        by_chance = VARIANCE_OF_MEDIAN * np.exp(2 * common) / found.n[many]
        return cls(whole.middle, _excess(found.middle[many], by_chance), common, between)

    def posterior(self, found: Spread) -> tuple[Floats, Floats]:
        """Middle that is usual in each segment, and the scale of what a new row there deviates from it."""
        weight = _shrinkage(self.variance_of_log_spread, VARIANCE_OF_LOG_SPREAD / np.maximum(found.n, 1))
        weight = np.where(np.isfinite(found.log_spread), weight, 0.0)
        log_spread = weight * np.nan_to_num(found.log_spread) + (1 - weight) * self.log_spread
        spread = np.exp(log_spread)
        by_chance = VARIANCE_OF_MEDIAN * spread**2 / np.maximum(found.n, 1)
        weight = np.where(found.n > 0, _shrinkage(self.variance, by_chance), 0.0)
        middle = weight * np.nan_to_num(found.middle) + (1 - weight) * self.middle
        return middle, np.sqrt(spread**2 + (1 - weight) * self.variance)


def _weights(n: Floats) -> Integers:
    """How often a segment counts: by its rows, but none more than a hundred times."""
    return np.clip(n / ENOUGH, 1, 100).astype(np.int64)


def _excess(values: Floats, by_chance: Floats) -> float:
    """Variance between segments beyond what chance puts there."""
    return float(max(np.var(values, ddof=1) - by_chance.mean(), 0.0))


def _shrinkage(between: float, by_chance: Floats) -> Floats:
    """Weight of a segment's own value: 1 where chance hardly moves it."""
    total = between + by_chance
    return np.divide(between, total, out=np.ones_like(total), where=total > 0)


class _Whole(NamedTuple):
    middle: float
    log_spread: float


def _whole(values: Floats) -> _Whole:
    middle = float(np.median(values))
    distances = np.sort(np.abs(values - middle))
    spread = TO_SIGMA * float(np.median(distances)) or float(distances.mean()) or 1.0
    return _Whole(middle, float(np.log(spread)))


@dataclass(frozen=True, eq=False)
class Baseline:
    """What is usual for one column in each segment of one level.

    Attributes
    ----------
    prior
        What segments have in common.
    middles, scales
        Of each segment, and of none (the last entry): rows whose segment is missing or new.
    """

    prior: Prior
    middles: Floats
    scales: Floats

    @classmethod
    def learn(cls, values: Floats, segments: Integers, n_segments: int) -> Baseline:
        """Learn from reference rows; those without a value or a segment are left out."""
        known = np.isfinite(values) & (segments >= 0)
        found = spread_of(values[known], segments[known], n_segments)
        prior = Prior.learn(found, values[np.isfinite(values)])
        nobody = Spread(*(np.append(part, end) for part, end in zip(found, (0.0, np.nan, 0.0), strict=True)))
        return cls(prior, *prior.posterior(nobody))

    def relative(self, values: Floats, segments: Integers) -> Floats:
        """How many scales each value is from the middle of its segment."""
        return (values - self.middles[segments]) / self.scales[segments]

    def absolute(self, relative: Floats, segments: Integers) -> Floats:
        """Values that are so many scales from the middle of their segment."""
        return self.middles[segments] + self.scales[segments] * relative

    def left_out(self, values: Floats, segments: Integers) -> Floats:
        """The same as `relative` for the rows that were learned from, each judged without itself."""
        found = self.relative(values, segments)
        known = np.flatnonzero(np.isfinite(values) & (segments >= 0))
        for group in small_groups(segments[known]):
            rows = known[group]
            for some in cut_batches(len(rows), 8 * rows.shape[1] ** 2):
                own = values[rows[some]]
                middle, scale = self.prior.posterior(_without_each(own))
                found[rows[some]] = (own - middle) / scale
        return found


def spread_of(values: Floats, segments: Integers, n_segments: int) -> Spread:
    """Median and median distance from it, per segment."""
    n = np.bincount(segments, minlength=n_segments).astype(np.float64)
    middle = _group_quantile(values, segments, n_segments, 0.5)
    distances = np.abs(values - middle[segments]) if len(values) else values
    spread = TO_SIGMA * _group_quantile(distances, segments, n_segments, 0.5)
    # Where most rows of a segment are alike, the few others tell how far they may lie.
    mean = np.bincount(segments, weights=distances, minlength=n_segments) / np.maximum(n, 1)
    spread = np.where(spread > 0, spread, mean)
    with np.errstate(divide="ignore"):
        log_spread = np.log(spread)
    return Spread(middle, np.where((n >= 2) & (spread > 0), log_spread, np.nan), n)


def _group_quantile(values: Floats, segments: Integers, n_segments: int, level: float) -> Floats:
    found = np.full(n_segments, np.nan)
    grouped = pd.Series(values).groupby(segments).quantile(level)
    found[grouped.index.to_numpy(dtype=np.int64)] = grouped.to_numpy()
    return found


def small_groups(segments: Integers) -> Iterator[Integers]:
    """Places of the members of the segments with few rows: one array per size, shape (segments, size)."""
    order = np.argsort(segments, kind="stable")
    starts = np.flatnonzero(np.diff(segments[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    for size in range(1, FEW + 1):
        first = starts[sizes == size]
        if len(first):
            yield order[first[:, None] + np.arange(size)]


def _without_each(values: Floats) -> Spread:
    """Middle and spread of the other members, for each member of segments of one size."""
    size = values.shape[1]
    if size == 1:
        none = np.full(values.shape, np.nan)
        return Spread(none, none, np.zeros(values.shape))
    others = np.array([[j for j in range(size) if j != i] for i in range(size)])
    rest = values[:, others]  # (segments, size, size − 1)
    middle = np.median(rest, axis=2)
    distances = np.abs(rest - middle[:, :, None])
    spread = TO_SIGMA * np.median(distances, axis=2)
    spread = np.where(spread > 0, spread, distances.mean(axis=2))
    with np.errstate(divide="ignore"):
        log_spread = np.where((spread > 0) & (size > 2), np.log(spread), np.nan)
    return Spread(middle, log_spread, np.full(values.shape, float(size - 1)))


def step_of(values: Floats, segments: Integers, n_segments: int) -> float:
    """The step between neighbouring values, where it is not small beside the spread within segments; else 0.

    Counts of 0, 1, 2 would be few points in each segment, and others in the next: once they are relative,
    whole segments would stand apart. With a random part of a step added, they fill the gaps.
    """
    known = np.isfinite(values) & (segments >= 0)
    levels = np.unique(values[known])
    if len(levels) < 2 or len(levels) > MOST_LEVELS:
        return 0.0
    step = float(np.diff(levels).min())
    spreads = spread_of(values[known], segments[known], n_segments).log_spread
    usual = float(np.exp(np.nanmedian(spreads))) if np.isfinite(spreads).any() else 0.0
    return step if step > COARSE * usual else 0.0


def chosen_bend(values: Floats, segments: Integers, n_segments: int) -> str:
    """In which form values reach about as far up as down within their segments; their own if they do so.

    Values of 0 have no logarithm, and stand apart with whatever is added to them.
    """
    known = np.isfinite(values) & (segments >= 0)
    some = values[known]
    if not len(some) or some.min() < 0:
        return "as it is"
    forms = ["as it is", "square root", *(["logarithm"] if some.min() > 0 else [])]
    tails = {form: _lopsided(BENDS[form].there(some), segments[known], n_segments) for form in forms}
    if tails["as it is"] <= LONG_TAIL:
        return "as it is"
    return min(forms, key=lambda form: abs(np.log(tails[form])))


def _lopsided(values: Floats, segments: Integers, n_segments: int) -> float:
    """How much longer the upper tail is than the lower one, within segments."""
    found = spread_of(values, segments, n_segments)
    spread = np.exp(np.where(np.isfinite(found.log_spread), found.log_spread, np.inf))
    ends = np.quantile((values - found.middle[segments]) / spread[segments], [0.02, 0.98])
    low, high = np.maximum([-ends[0], ends[1]], 1e-9).tolist()
    return float(high / low)
