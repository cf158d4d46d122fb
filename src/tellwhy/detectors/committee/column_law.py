"""What is usual in one column: how surprising each of its values is.

`ColumnLaw` is the distribution of a column: a bulk, and tails. `PointMassLaw` is that of a column in which
most rows have one value; `TailShortening` shortens tails to those of a normal distribution.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, ndtri_exp

from tellwhy.core.params import Fit, is_increasing
from tellwhy.core.score import Floats, Integers
from tellwhy.scoring.surprise import (
    Surprise,
    choose_shown_levels,
    compute_growth,
    find_level_above,
    find_levels_above,
    fit_tail_of,
)

MOST_LEVELS = 20  # a column with at most that many values, in enough rows, is judged by how rare each is
ROWS_PER_LEVEL = 20
RARE = 0.001  # share of rows up to which one of few values is not a common one
PER_STEP = 1.0  # surprise of a rare value for each step that it is farther than the next one
MOST_KNOTS = 400
# Levels on each side from which its tail is extrapolated: quantiles up to the safe one, and from there up to
# the last one as far as they go on smoothly. Far values that grow out of the others belong to the tail; far
# values behind a gap do not.
FIRST_LEVEL = 0.80
SAFE_LEVEL = 0.95
LAST_LEVEL = 0.998
LEAST_BEYOND = 6  # values beyond the last quantile: of few rows, the largest value decides nothing
START = -float(np.log1p(-FIRST_LEVEL))  # surprise at which a tail starts, of its own side
LIGHTEST = -0.5  # shape of a normal distribution's tail
HEAVIEST = 0.6
ROWS_OF_A_HEAVY_TAIL = 600  # of fewer rows, neither very heavy nor
ROWS_OF_A_LIGHT_TAIL = 1_000  # very light tails are believed
TAIL_MARGIN = 1.0  # of the uncertainty of a shape is added to it: about 1/√(values in the tail)
# How many times what safe quantiles foretell others may be: less far out, where few rows make a quantile.
SMOOTH = 3.0
SMOOTH_FAR = 2.0
FAR_LEVEL = 0.985
MANY_COLUMNS = 4  # from so many on, cells are judged together


@dataclass(frozen=True)
class ColumnLaw:
    """What is usual in one column.

    Attributes
    ----------
    values
        Of a column with few values: each of them. Else quantiles, increasing.
    surprises
        Of a column with few values: −log of the share of rows whose value is as rare, or rarer. Else empty.
    starts, scales, shapes
        Where the lower (of −x) and the upper tail start, and their β and ξ; see `compute_growth`.
    unseen
        Surprise of a value that no row had.
    """

    values: Floats
    surprises: Floats
    starts: Floats
    scales: Floats
    shapes: Floats
    unseen: float

    @classmethod
    def learn(cls, column: Floats, *, lightest: float = LIGHTEST) -> ColumnLaw:
        """Learn from all rows; what a few per cent of them do does not matter.

        Parameters
        ----------
        column
            One value per row.
        lightest
            Smallest shape of a tail: 0 where one as short as a normal distribution's is not believed.
        """
        n = len(column)
        values, counts = np.unique(column, return_counts=True)
        spread = spread_of(column)
        if are_few(len(values), n):
            return cls._judge_few_values(values, counts.astype(np.int64), spread)
        tails = [fit_upper_tail(side, lightest, 1e-3 * spread) for side in (-column, column)]
        knots = np.quantile(column, np.linspace(0, 1, min(n, MOST_KNOTS)))
        starts = np.array([tail.start for tail in tails])
        scales = np.array([tail.scale for tail in tails])
        shapes = np.array([tail.shape for tail in tails])
        return cls(knots, np.empty(0), starts, scales, shapes, float(np.log(n + 1)))

    @classmethod
    def _judge_few_values(cls, values: Floats, counts: Integers, spread: float) -> ColumnLaw:
        """Rare values are the odder the farther they are from the common ones, beyond the next step."""
        n = int(counts.sum())
        common = values[counts > RARE * n]
        known = common if len(common) > 1 else values
        step = max(float(np.diff(known).min()) if len(known) > 1 else 0.0, spread)
        ends = np.array([-common[0], common[-1]])
        beyond = _beyond(values, ends + step) / step
        surprises = _measure_rarity(counts, n) + PER_STEP * beyond
        return cls(
            values, surprises, ends + step, np.full(2, step / PER_STEP), np.zeros(2), float(np.log(n + 1))
        )

    @property
    def largest(self) -> float:
        """Largest surprise of a value that rows had; numbers have none."""
        return float(self.surprises.max()) if len(self.surprises) else np.inf

    def surprise(self, column: Floats) -> Floats:
        """−log of the probability of a value as far out (few values: as rare) as each."""
        return self._judge_levels(column) if len(self.surprises) else self._of_numbers(column)

    def _judge_levels(self, column: Floats) -> Floats:
        place = np.minimum(np.searchsorted(self.values, column), len(self.values) - 1)
        is_known = self.values[place] == column
        beyond = _beyond(column, self.starts)
        # Values that no row had are all as rare; the farther from the range the odder.
        new = self.unseen + beyond / self.scales[0]
        return np.where(is_known, self.surprises[place], new)

    def _of_numbers(self, column: Floats) -> Floats:
        at_start = START - np.log(2.0)  # of either side
        found = np.zeros(len(column))
        for k, side in enumerate((-column, column)):
            beyond = np.maximum(side - self.starts[k], 0.0) / self.scales[k]
            tail = find_level_above(beyond, self.shapes[k], START)
            found = np.where(beyond > 0, np.maximum(found, at_start + tail), found)
        inside = found == 0
        share = np.interp(column[inside], self.values, np.linspace(0, 1, len(self.values)))
        found[inside] = -np.log(np.clip(2 * np.minimum(share, 1 - share), 2 * (1 - FIRST_LEVEL), 1.0))
        return found

    def _require(self) -> Iterator[Fit]:
        yield "values", self.values.ndim == 1 and len(self.values) > 0 and is_increasing(self.values), True
        yield "surprises", len(self.surprises) in (0, len(self.values)), True
        for name, array in (("starts", self.starts), ("scales", self.scales), ("shapes", self.shapes)):
            yield name, array.shape, (2,)
        yield "scales", bool((self.scales > 0).all()), True
        yield "shapes", bool((self.shapes > -1).all()), True


def are_few(n_values: int, n: int) -> bool:
    """Whether so many different values in n rows are judged by how rare each is."""
    return n_values <= max(2, min(MOST_LEVELS, n // ROWS_PER_LEVEL))


def _beyond(column: Floats, ends: Floats) -> Floats:
    """How far each value is below the lower end (given as its negative) or above the upper one."""
    return np.asarray(np.maximum(np.maximum(-column - ends[0], column - ends[1]), 0.0))


class _Tail(NamedTuple):
    start: float
    scale: float
    shape: float


def fit_upper_tail(side: Floats, lightest: float, least_scale: float, *, share: float = 1.0) -> _Tail:
    """Fit the upper tail of values; again without those behind a gap, which move all quantiles.

    The values are this share of the rows.
    """
    last = min(max(1 - LEAST_BEYOND / len(side), SAFE_LEVEL), LAST_LEVEL)
    levels = np.linspace(FIRST_LEVEL, last, 16)
    logs = -np.log1p(-levels) - np.log(share)
    first = float(logs[0])
    smooth = np.where(levels <= FAR_LEVEL, SMOOTH, SMOOTH_FAR)
    # The shape of a tail of few values is mostly chance: theirs is taken to be nearly exponential.
    side = _spread_out(side)
    values = side
    for _ in range(2):
        quantiles = np.quantile(values, levels)
        doubt = TAIL_MARGIN / np.sqrt((1 - FIRST_LEVEL) * len(values))
        scale, shape = fit_tail_of(
            quantiles,
            logs,
            HEAVIEST * min(1.0, len(side) / ROWS_OF_A_HEAVY_TAIL),
            least_shape=lightest * min(1.0, len(side) / ROWS_OF_A_LIGHT_TAIL),
            safe=1 - share * (1 - SAFE_LEVEL),
            smooth=smooth,
            margin=doubt,
        )
        tail = _Tail(float(quantiles[0]), max(scale, least_scale), shape)
        reach = SMOOTH_FAR * tail.scale * compute_growth(logs[-1:] - first, shape, first)
        near = side[side <= tail.start + reach]
        if len(near) < SAFE_LEVEL * len(side):  # no few odd values, but another shape of column
            return tail
        values = near
    return tail


def _spread_out(values: Floats) -> Floats:
    """Values in order; where many are equal, as whole numbers are, each group evenly over its step.

    Quantiles of rounded values move in steps, which would pass for the shape of a tail.
    """
    ordered = np.sort(values)
    levels, counts = np.unique(ordered, return_counts=True)
    if len(levels) < 2 or len(levels) > len(values) / 3:
        return ordered
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    within = (np.arange(len(values)) - starts + 0.5) / np.repeat(counts, counts) - 0.5
    return ordered + within * float(np.diff(levels).min())


def spread_of(column: Floats) -> float:
    """A length of the column: its quartiles' distance, else its mean deviation, else 1."""
    low, high = np.quantile(column, [0.25, 0.75]).tolist()
    return float((high - low) or np.abs(column - np.median(column)).mean() or 1.0)


def _measure_rarity(counts: Integers, n: int) -> Floats:
    """−log of the share of rows with a value at most as common."""
    order = np.argsort(counts, kind="stable")
    ordered = counts[order]
    up_to = np.cumsum(ordered)[np.searchsorted(ordered, ordered, "right") - 1]
    shares = np.empty(len(counts))
    shares[order] = up_to / n
    return np.asarray(-np.log(shares))


class CellLaw(Protocol):
    """What is usual in a column, whatever its shape."""

    @property
    def largest(self) -> float:
        """Largest surprise of a value that rows had; infinite where there is none."""
        ...

    def surprise(self, column: Floats) -> Floats:
        """−log of the probability of a value as odd as each."""
        ...


def compute_surprises(laws: Sequence[CellLaw], X: Floats) -> Floats:
    """Surprise of each cell under the law of its column."""
    found = np.empty(X.shape)
    tailed = [j for j, law in enumerate(laws) if isinstance(law, ColumnLaw) and not len(law.surprises)]
    if len(tailed) >= MANY_COLUMNS:
        found[:, tailed] = _compute_surprises_of_numbers([laws[j] for j in tailed], X[:, tailed])
    done = set(tailed if len(tailed) >= MANY_COLUMNS else ())
    for j, law in enumerate(laws):
        if j not in done:
            found[:, j] = law.surprise(X[:, j])
    return found


def _compute_surprises_of_numbers(laws: Sequence[Any], X: Floats) -> Floats:
    """`ColumnLaw._of_numbers` of many columns at once, to the bit."""
    starts = np.array([law.starts for law in laws]).T
    scales = np.array([law.scales for law in laws]).T
    shapes = np.array([law.shapes for law in laws]).T
    found = np.zeros(X.shape)
    for k, side in enumerate((-X, X)):
        beyond = np.maximum(side - starts[k], 0.0) / scales[k]
        row, column = np.nonzero(beyond > 0)
        tail = find_levels_above(beyond[row, column], shapes[k, column], START)
        found[row, column] = np.maximum(found[row, column], START - np.log(2.0) + tail)
    share = [
        np.interp(x, law.values, np.linspace(0, 1, len(law.values))) for law, x in zip(laws, X.T, strict=True)
    ]
    inside = np.array(share).T
    usual = -np.log(np.clip(2 * np.minimum(inside, 1 - inside), 2 * (1 - FIRST_LEVEL), 1.0))
    return np.where(found == 0, usual, found)


def count_reaching(laws: Sequence[CellLaw], surprises: Floats) -> Floats:
    """In how many columns an ordinary cell can be as surprising as each of these.

    The rarest of a few values has a largest surprise: beyond it, such a column cannot raise a false alarm.
    """
    largest = np.sort([law.largest for law in laws])
    return np.asarray(len(laws) - np.searchsorted(largest, surprises, "left"), dtype=np.float64)


SPIKE = 0.5  # share of the rows that makes a value a spike
FEW_BESIDE = 20  # rows on a side of the spike; fewer tell no tail, which may then be a heavy one,
LEAST_BESIDE = 5  # and of fewer still, what is usual on both sides is the unit


@dataclass(frozen=True)
class PointMassLaw:
    """What is usual in a column with a spike: a value in at least half of the rows, such as 0.

    Values beside the spike are judged among themselves. With r the share of rows above the spike, and P the
    distribution of these rows alone, a value x there has the surprise −log(2 r P(values ≥ x)), as far out in
    a distribution with two sides; below the spike likewise. The spike has none. So a twentieth of the rows is
    never odd for being no zero, and one of them that is far from the others is.

    Attributes
    ----------
    spike
        The value.
    sides
        Laws of the distance below and above the spike, −log of the share of all rows as far on that side.
    """

    spike: float
    sides: tuple[Surprise, Surprise]

    @classmethod
    def learn(cls, column: Floats) -> PointMassLaw | None:
        """Learn from all rows; None where there is no spike, or a tail of either side tells enough."""
        n = len(column)
        spike = float(np.partition(column, n // 2)[n // 2])  # the value of more than half of the rows
        away = column - spike
        beyond = [-away[away < 0], away[away > 0]]
        shares = np.array([len(side) / n for side in beyond])
        is_beside = (shares > 0) & (shares < 1 - FIRST_LEVEL)
        if shares.sum() > 1 - SPIKE or not is_beside.any():
            return None
        usual = float(np.median(np.concatenate(beyond)))
        return cls(spike, (_side(beyond[0], n, usual), _side(beyond[1], n, usual)))

    @property
    def largest(self) -> float:
        """Largest surprise of a value that rows had; numbers have none."""
        return np.inf

    def surprise(self, column: Floats) -> Floats:
        """−log of the probability of a value as far from the spike."""
        return np.maximum(self._judge_sides(column) - np.log(2.0), 0.0)

    def normal_scores(self, column: Floats) -> Floats:
        """Put the spike at 0, and other values where a normal distribution has values as rare."""
        levels = self._judge_sides(column)
        far = np.flatnonzero(levels > np.log(2.0))
        found = np.zeros(len(column))
        found[far] = np.sign(column[far] - self.spike) * -ndtri_exp(-levels[far])
        return found

    def _judge_sides(self, column: Floats) -> Floats:
        """Surprise of each value on its own side; 0 at the spike."""
        away = column - self.spike
        found = np.zeros(len(column))
        for side, law in zip((-away, away), self.sides, strict=True):
            far = np.flatnonzero(side > 0)
            found[far] = law.value(side[far])
        return found

    def _require(self) -> Iterator[Fit]:
        yield "spike", isinstance(self.spike, float) and bool(np.isfinite(self.spike)), True
        yield "sides", len(self.sides) == 2 and all(isinstance(side, Surprise) for side in self.sides), True


Law = ColumnLaw | PointMassLaw


def learn_law(column: Floats) -> Law:
    """Learn what is usual in a column: beside a spike, unless it has few values there."""
    spiked = PointMassLaw.learn(column)
    if spiked is None:
        return ColumnLaw.learn(column)
    # Rows of the spike do not tell whether the other values repeat: a dozen amounts among zeros are measured.
    beside = column[column != spiked.spike]
    return ColumnLaw.learn(column) if are_few(len(np.unique(beside)), len(beside)) else spiked


def _side(distances: Floats, n: int, usual: float) -> Surprise:
    """Law of the distances of one side, of n rows in all; `usual` is the usual distance on both sides."""
    if len(distances) < FEW_BESIDE:
        seen = -np.log(max(len(distances), 0.5) / n)
        unit = usual if len(distances) < LEAST_BESIDE else float(np.median(distances))
        return Surprise(np.zeros(1), np.array([seen]), unit, HEAVIEST)
    share = len(distances) / n
    tail = fit_upper_tail(distances, LIGHTEST, 1e-3 * spread_of(distances), share=share)
    knots, levels = choose_shown_levels(distances, tail.start)
    return Surprise(knots, levels - np.log(share), tail.scale, tail.shape)


NORMAL_START = float(ndtri(FIRST_LEVEL))
NEVER = float(
    np.finfo(np.float64).max
)  # where a tail starts that is not there; files hold finite numbers only
# How fast a normal distribution's quantiles grow with the surprise where a tail starts: (1 − p)/φ(z).
NORMAL_SLOPE = (1 - FIRST_LEVEL) * float(np.sqrt(2 * np.pi) * np.exp(NORMAL_START**2 / 2))


@dataclass(frozen=True)
class TailShortening:
    """Values beyond the start of a tail, put where a normal distribution has values as surprising.

    Distances are dominated by the column with the longest tail, whose far values are nothing unusual in it.
    Between the starts of the two tails nothing changes, so that clusters stay where they are; beyond them a
    value moves inwards, never outwards, and the order of values stays.

    Where most rows have one value, the others are a class of their own, at a distance that says how rare they
    are: such a column becomes the normal scores of `PointMassLaw`. In standard deviations, which follow the
    spike, every value beside it would be far from all rows.

    Attributes
    ----------
    starts, scales, shapes
        Of the lower (of −x) and the upper tail of each column, shape (2, columns). Columns with few values
        and those with a spike have no tails: theirs start at `NEVER`.
    spiked, spikes
        Columns with a spike (and more than two values), and the laws of these.
    """

    starts: Floats
    scales: Floats
    shapes: Floats
    spiked: tuple[int, ...] = ()
    spikes: tuple[PointMassLaw, ...] = ()

    @classmethod
    def learn(cls, X: Floats, laws: Sequence[Law]) -> TailShortening:
        """Take the tails and the spikes of these laws, and of few values the spike, if they have one."""
        n_columns = len(laws)
        found = cls.none(n_columns)
        spikes = {}
        for j, law in enumerate(laws):
            if isinstance(law, ColumnLaw) and not len(law.surprises):
                found.starts[:, j] = law.starts
                found.scales[:, j] = law.scales
                found.shapes[:, j] = law.shapes
                continue
            spike = law if isinstance(law, PointMassLaw) else _find_spike_of_few(law, X[:, j])
            if spike is not None:
                spikes[j] = spike
        return replace(found, spiked=tuple(spikes), spikes=tuple(spikes.values()))

    @classmethod
    def none(cls, n_columns: int) -> TailShortening:
        """Leave all columns as they are."""
        return cls(np.full((2, n_columns), NEVER), np.ones((2, n_columns)), np.zeros((2, n_columns)))

    def spikes_alone(self) -> TailShortening:
        """Leave long tails as they are."""
        return replace(self, starts=np.full_like(self.starts, NEVER))

    @property
    def is_spiked(self) -> NDArray[np.bool_]:
        """Which columns have a spike."""
        found = np.zeros(self.starts.shape[1], dtype=bool)
        found[list(self.spiked)] = True
        return found

    def of(self, X: Floats) -> Floats:
        """Straighten rows."""
        found = np.array(X, dtype=np.float64)
        for column, law in zip(self.spiked, self.spikes, strict=True):
            found[:, column] = law.normal_scores(X[:, column])
        for k, sign in enumerate((-1.0, 1.0)):
            tails = np.flatnonzero(self.starts[k] < NEVER)
            beyond = sign * X[:, tails] - self.starts[k, tails]
            row, tail = np.nonzero(beyond > 0)
            found[row, tails[tail]] -= sign * self._measure_surplus(beyond[row, tail], k, tails[tail])
        return found

    def _measure_surplus(self, beyond: Floats, side: int, columns: Integers) -> Floats:
        """By how much values are farther beyond the start than as surprising ones of a normal tail."""
        scale = self.scales[side, columns]
        level = START + find_levels_above(beyond / scale, self.shapes[side, columns], START)
        normal = scale / NORMAL_SLOPE * (-ndtri_exp(-level) - NORMAL_START)
        return np.asarray(np.maximum(beyond - normal, 0.0))

    def _require(self) -> Iterator[Fit]:
        yield "starts", self.starts.ndim == 2 and len(self.starts) == 2, True
        yield "scales", self.scales.shape, self.starts.shape
        yield "scales", bool((self.scales > 0).all()), True
        yield "shapes", self.shapes.shape, self.starts.shape
        yield "shapes", bool((self.shapes > -1).all()), True
        n_columns = self.starts.shape[1]
        yield "spiked", all(isinstance(j, int) and 0 <= j < n_columns for j in self.spiked), True
        yield "spikes", len(self.spikes), len(self.spiked)
        yield "spikes", all(isinstance(law, PointMassLaw) for law in self.spikes), True


def _find_spike_of_few(law: ColumnLaw, column: Floats) -> PointMassLaw | None:
    """Return the spike of a column with few values; two have a distance already (see `Units`)."""
    return PointMassLaw.learn(column) if len(law.values) > 2 else None
