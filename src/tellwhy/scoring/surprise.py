"""Surprise: minus the logarithm of the probability that an ordinary row scores this high.

`ForetoldHeights` tell the same of the highest of many ordinary stretches, from those of a reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from tellwhy.core.params import Fit, is_increasing
from tellwhy.core.score import Floats

# The tail starts at the first level. It is fitted to quantiles up to the safe one, which a few per cent of
# anomalies among the rows cannot reach, and from there up to the last one as far as they go on smoothly.
FIRST_LEVEL = 0.70
SAFE_LEVEL = 0.97
LAST_LEVEL = 0.985
LEAST_SAFE = 5  # quantiles, to tell how the others should go on
SMOOTH = 3.0  # times what the safe quantiles foretell: beyond it, quantiles are of anomalies

# Of rows that are known to be ordinary, the tail is this share of them, or so many where that is more.
CLEAN_TAIL_SHARE = 0.02
CLEAN_TAIL_ROWS = 50
LARGEST_SHAPE = 0.6
MOST_KNOTS = 500
# Scores above equal ones that tell how surprising such scores are: so many, and such a share.
LEAST_ABOVE = 5
SHARE_ABOVE = 0.005
# Of a list that may be odd in one of fifteen, only the middle says what is ordinary. The shape that so few
# quantiles tell is uncertain, and a heavy one would call nothing odd.
MIDDLE = (0.60, 0.93)
MIDDLE_SHAPE = 0.2


@dataclass(frozen=True)
class Surprise:
    """T(s) = −log P(score ≥ s), increasing and continuous.

    Up to the last knot it is what the rows show, between knots a straight line. Beyond, the tail is a
    generalised Pareto distribution, T(s) = T(u) + log(1 + ξ (s − u)/β)/ξ, so that scores beyond all that was
    seen stay in order. ξ is never negative: such a tail would have an end, and infinite surprise behind it.

    Attributes
    ----------
    knots, levels
        Scores, increasing, and the surprise of each. The last knot is u.
    scale, shape
        β and ξ.
    """

    knots: Floats
    levels: Floats
    scale: float
    shape: float

    @classmethod
    def learn(
        cls,
        scores: Floats,
        *,
        is_clean: bool = False,
        least_scale: float = 0.0,
        most_shape: float = LARGEST_SHAPE,
    ) -> Surprise:
        """Learn from the scores of rows, each scored as if it were new.

        Parameters
        ----------
        scores
            One number per row.
        is_clean
            Whether the rows are known to be ordinary: the tail then follows higher quantiles too.
        least_scale
            Smallest β. Scores that are surprises already have 1: they cannot become more surprising.

        Examples
        --------
        >>> ordinary = -np.log(np.linspace(0.0005, 0.9995, 1000))
        >>> Surprise.learn(ordinary).value(np.array([3.0, 30.0])).round()
        array([ 3., 30.])
        """
        levels = _choose_tail_levels(len(scores), is_clean=is_clean)
        quantiles = np.quantile(scores, levels)
        scale, shape = fit_tail_of(quantiles, -np.log1p(-levels), most_shape)
        is_tied = scale == 0
        low, high = np.quantile(scores, [0.05, 0.95]).tolist()
        # Where most scores are equal the quantiles do not tell a scale: the mean distance takes its place.
        spread = (high - low) or float(np.abs(scores - quantiles[0]).mean())
        scale = max(scale, least_scale, 1e-3 * spread) or 1.0
        knots, body = choose_shown_levels(scores, quantiles[0])
        if is_tied:
            scale = max(scale, _measure_scale_above(scores, quantiles[0], float(body[-1])))
        return cls(knots, body, scale, shape)

    @classmethod
    def of_middle(cls, scores: Floats) -> Surprise:
        """Learn from the scores of a list whose odd things, up to one of fifteen, must not count as ordinary.

        Examples
        --------
        >>> ordinary = -np.log(np.linspace(0.003, 0.997, 280))
        >>> law = Surprise.of_middle(np.append(ordinary, np.full(20, 30.0)))
        >>> bool(law.value(np.array([3.0]))[0] < 3.0 < 8.0 < law.value(np.array([30.0]))[0])
        True
        """
        levels = np.linspace(*MIDDLE, 28)
        quantiles = np.quantile(scores, levels)
        surprises = -np.log1p(-levels)
        if quantiles[0] == quantiles[-1]:  # equal scores tell no scale
            return cls.learn(scores)
        scale, shape = fit_tail_of(quantiles, surprises, MIDDLE_SHAPE, safe=MIDDLE[1])
        knots, body = choose_shown_levels(scores, quantiles[0])
        return cls(knots, body, scale, shape)

    def with_groups(self, scores: Floats) -> Surprise:
        """Keep to how common scores are that many rows share exactly, beyond where the tail starts.

        Rows that are equal in all columns are a group as frequent as it is, however far from the others.

        Parameters
        ----------
        scores
            Those that the law was learned from.

        Examples
        --------
        >>> scores = np.append(np.linspace(0.0, 1.0, 580), np.full(20, 30.0))
        >>> law = Surprise.learn(scores)
        >>> bool(law.value(np.array([30.0]))[0] > 9), law.with_groups(scores).value(np.array([30.0])).round(2)
        (True, array([4.09]))
        """
        values, counts = np.unique(scores, return_counts=True)
        at_least = np.cumsum(counts[::-1])[::-1]
        levels = -np.log((at_least - 0.5 * counts) / len(scores))
        is_group = counts >= max(LEAST_ABOVE, SHARE_ABOVE * len(scores))
        is_group &= (values > self.knots[-1]) & (self.value(values) > levels) & (levels > self.levels[-1])
        if not is_group.any():
            return self
        knots = np.append(self.knots, values[is_group])
        return Surprise(knots, np.append(self.levels, levels[is_group]), self.scale, self.shape)

    def value(self, scores: Floats) -> Floats:
        """Return the surprise of each score."""
        below = np.interp(scores, self.knots, self.levels)
        beyond = np.maximum(scores - self.knots[-1], 0.0) / self.scale
        tail = find_level_above(beyond, self.shape, self.levels[-1])
        return np.asarray(below + tail)

    def score_of(self, surprise: float) -> float:
        """Return the score that has this surprise; the smallest knot for less than any score has."""
        rest = surprise - self.levels[-1]
        if rest <= 0:
            return float(np.interp(surprise, self.levels, self.knots))
        beyond = compute_growth(np.asarray(rest), self.shape, self.levels[-1])
        return float(self.knots[-1] + self.scale * beyond)

    def _require(self) -> Iterator[Fit]:
        yield "knots", self.knots.ndim == 1 and len(self.knots) > 0 and is_increasing(self.knots), True
        yield "levels", self.levels.shape, self.knots.shape
        yield "levels", is_increasing(self.levels), True
        yield "scale", bool(np.isfinite(self.scale) and self.scale > 0), True
        yield "shape", bool(-1 < self.shape <= 1), True


def _measure_scale_above(scores: Floats, tied: float, level: float) -> float:
    """β where nearly all scores are equal: the middle one of those above is as surprising as these are rare.

    Of a handful above, each may be odd: they tell no scale.
    """
    above = scores[scores > tied]
    if len(above) < max(LEAST_ABOVE, SHARE_ABOVE * len(scores)):
        return 0.0
    rare = float(-np.log(0.5 * len(above) / len(scores)))
    return float(np.median(above) - tied) / max(rare - level, 1.0)


def _choose_tail_levels(n: int, *, is_clean: bool) -> Floats:
    """Levels of the quantiles that the tail follows; of clean rows, only the last few."""
    if not is_clean:
        return np.linspace(FIRST_LEVEL, LAST_LEVEL, 28)
    first = max(FIRST_LEVEL, 1 - max(CLEAN_TAIL_SHARE, CLEAN_TAIL_ROWS / n))
    return 1 - (1 - first) * np.geomspace(1, max(1 / 20, 3 / ((n + 3) * (1 - first))), 28)


def fit_tail_of(
    quantiles: Floats,
    levels: Floats,
    most_shape: float = LARGEST_SHAPE,
    *,
    least_shape: float = 0.0,
    safe: float = SAFE_LEVEL,
    smooth: float | Floats = SMOOTH,
    margin: float = 0.0,
) -> tuple[float, float]:
    """β and ξ with which quantiles grow most nearly as `compute_growth` says.

    For each ξ of a grid, β is a least-squares slope; the ξ with the smallest error wins. Quantiles beyond the
    safe level count as long as they are not far above what those below foretell: those are of anomalies.

    Parameters
    ----------
    quantiles, levels
        Scores, increasing, and the surprise of each.
    least_shape, most_shape
        Ends of the grid.
    safe
        Share of rows below the safe level.
    smooth
        How many times what the safe quantiles foretell others may be.
    margin
        Added to the shape that wins: by how much it is uncertain.
    """
    shapes = _shapes(least_shape, most_shape)
    is_safe = levels <= -np.log1p(-safe) + 1e-9
    if is_safe.all() or is_safe.sum() < LEAST_SAFE:  # of clean rows all quantiles are safe
        return _fit_least_squares(quantiles, levels, shapes, margin)
    scale, shape = _fit_least_squares(quantiles[is_safe], levels[is_safe], shapes)
    foretold = scale * compute_growth(levels - levels[0], shape, float(levels[0]))
    goes_on = np.cumprod(is_safe | (quantiles - quantiles[0] <= smooth * foretold)).astype(bool)
    return _fit_least_squares(quantiles[goes_on], levels[goes_on], shapes, margin)


def compute_growth(above: Floats, shape: float, first: float) -> Floats:
    """By how much scores rise, in units of β, until their surprise is so much above the first level.

    A shape ξ > 0 is a generalised Pareto tail, (exp(ξ L) − 1)/ξ; 0 an exponential one, L; ξ < 0 a tail like
    Weibull's, in which scores grow as (first + L)^(1 + ξ): with −1/2 like those of a normal distribution. It
    has no end, as a generalised Pareto tail with negative shape would.
    """
    if shape > 0:
        return np.asarray(np.expm1(shape * above) / shape)
    if shape == 0:
        return above
    power = 1.0 + shape
    return np.asarray(first / power * ((1.0 + above / first) ** power - 1.0))


def find_level_above(risen: Floats, shape: float, first: float) -> Floats:
    """By how much the surprise rises with scores: the inverse of `compute_growth`."""
    if shape > 0:
        return np.asarray(np.log1p(shape * risen) / shape)
    if shape == 0:
        return risen
    power = 1.0 + shape
    return np.asarray(first * ((1.0 + power * risen / first) ** (1.0 / power) - 1.0))


def find_levels_above(risen: Floats, shapes: Floats, first: float) -> Floats:
    """Do it where each score has a shape of its own; shapes are few, for they come from a list."""
    found = np.empty(len(risen))
    for shape in np.unique(shapes):
        has = shapes == shape
        found[has] = find_level_above(risen[has], float(shape), first)
    return found


def _fit_least_squares(
    quantiles: Floats, levels: Floats, shapes: Floats, margin: float = 0.0
) -> tuple[float, float]:
    rise = quantiles - quantiles[0]
    above = levels - levels[0]
    best = (np.inf, 0.0)
    for shape in shapes:
        grown = compute_growth(above, shape, levels[0])
        error = float(((rise - _slope(grown, rise) * grown) ** 2).sum())
        # A heavier tail must fit clearly better: it makes every far score less surprising.
        if error < best[0] * (1 - 1e-9):
            best = (error, float(shape))
    shape = min(best[1] + margin, float(shapes[-1]))
    return _slope(compute_growth(above, shape, levels[0]), rise), shape


def _shapes(least: float, most: float) -> Floats:
    """Shapes to try, from the lightest tail to the heaviest."""
    return np.concatenate([np.linspace(least, 0.0, 6)[:-1] if least < 0 else [], np.linspace(0.0, most, 13)])


def _slope(grown: Floats, rise: Floats) -> float:
    return float(grown @ rise / (grown @ grown))


def choose_shown_levels(scores: Floats, start: float) -> tuple[Floats, Floats]:
    """Knots up to where the tail starts; equal scores share the middle of their ranks."""
    n = len(scores)
    ordered = np.sort(scores)
    values = np.unique(ordered[ordered < start])
    if len(values) > MOST_KNOTS:
        values = values[np.linspace(0, len(values) - 1, MOST_KNOTS).round().astype(np.int64)]
    at_least = n - np.searchsorted(ordered, values, "left")
    above = n - np.searchsorted(ordered, values, "right")
    shares = (0.5 * (at_least + above) + 0.5) / (n + 1)
    at_start = (
        n - np.searchsorted(ordered, start, "left") + n - np.searchsorted(ordered, start, "right")
    ) / 2
    knots = np.append(values, start)
    levels = -np.log(np.minimum(np.append(shares, (at_start + 0.5) / (n + 1)), 1.0))
    return knots, np.maximum.accumulate(levels)


TAIL_SHARE = 0.5  # of the heights: each is the highest of many windows already
TAIL_MOST = 50  # heights in the tail, or
TAIL_LEAST_SHARE = 0.02  # of them where that is more

# From tails with an end to those whose mean is infinite: heights are squares of readings, more or less, and
# squares of Student's t with three degrees of freedom have a shape of 2/3. Few heights tell it badly.
SHAPES = np.linspace(-0.5, 1.2, 27)
SCALES = np.geomspace(0.15, 6.0, 41)  # times the mean excess

# Share of the weight that all tails have in equal parts, whatever the reference says. In a few dozen heights
# the rare large readings of a heavy tail may not have come yet, and what did come then looks light. Chosen,
# with the two numbers below, on eleven kinds of series and tried on others: docs/results/patch_series.md.
TAIL_MARGIN = 0.03

# A stretch is as high as its readings make it, and there are many more readings than stretches: the highest
# of them tell the shape of the tail, too. Each tells little, since neighbours share their windows.
READINGS_SHARE = 0.2
READINGS_MOST = 400
READINGS_WEIGHT = 0.2
_SHAPES = np.where(np.abs(SHAPES) < 1e-6, 1e-6, SHAPES)[:, None, None]
_SCALES = SCALES[:, None]

# Of pictures, whose scores have no readings: a tail fitted to a dozen of them would promise too much. Chosen
# on clean pictures of two kinds, and tried on others: docs/results/patch_pictures.md.
USUAL_SHAPE = 0.3
SPREAD_OF_SHAPES = 0.2
TAIL_SHARE_OF_FEW = 0.7
RISES = np.geomspace(1e-3, 1e9, 600)  # times the mean excess, where the law is tabulated


@dataclass(frozen=True, eq=False)
class ForetoldHeights:
    """Surprise of a stretch, −log p, where p holds for new stretches, not only for those of the reference.

    The tail of the heights is a generalised Pareto distribution whose scale and shape nobody knows: they are
    weighted by how well they explain the reference, and p(s) is averaged over them. A fitted tail would be
    taken for the true one, while the highest of n new stretches is an alarm only where p < 0.1/n: ten times
    as far out as a reference of their length has been.

    Attributes
    ----------
    knots, levels
        Heights, increasing, and the surprise of each; straight lines between them.
    """

    knots: Floats
    levels: Floats

    @classmethod
    def learn(cls, heights: Floats, readings: Floats | None = None) -> ForetoldHeights:
        """Learn from ordinary stretches in the order of time, each scored as if it were new.

        Parameters
        ----------
        heights
            Scores of stretches of the reference.
        readings
            Relevance of its single readings, whose tail has the shape of that of the heights.

        Examples
        --------
        >>> heights = np.random.default_rng(0).exponential(size=100)
        >>> law = ForetoldHeights.learn(heights)
        >>> bool(law.surprises(np.array([heights.max()]))[0] < np.log(100 / 0.1))
        True
        >>> round(law.score_of(1.0))
        1
        """
        told = 0.0 if readings is None else _weigh_by_highest(readings)
        return cls._learned(heights, TAIL_SHARE, told, doubt=TAIL_MARGIN, in_time=True)

    @classmethod
    def of_scores(cls, scores: Floats) -> ForetoldHeights:
        """Learn from a few scores of whole things, such as pictures, in no order.

        No single readings tell the shape of their tail, and a dozen scores tell it badly: shapes near the
        usual one count more.

        Examples
        --------
        >>> scores = np.random.default_rng(0).normal(10.0, 1.0, size=15)
        >>> surprises = ForetoldHeights.of_scores(scores).surprises(np.array([13.0, 40.0]))
        >>> bool(surprises[0] < np.log(15 / 0.1) < surprises[1])
        True
        """
        usual = -0.5 * ((SHAPES[:, None] - USUAL_SHAPE) / SPREAD_OF_SHAPES) ** 2
        return cls._learned(scores, TAIL_SHARE_OF_FEW, usual, doubt=0.0, in_time=False)

    @classmethod
    def _learned(
        cls, heights: Floats, tail_share: float, told: Floats | float, *, doubt: float, in_time: bool
    ) -> ForetoldHeights:
        """Learn the tail from the highest ones, and from what else is told of its shape."""
        n = len(heights)
        n_tail = int(min(tail_share * n, max(TAIL_MOST, TAIL_LEAST_SHARE * n)))
        ordered = np.sort(heights)
        start = ordered[n - n_tail - 1]
        body = -np.log(np.arange(n, n_tail, -1) / (n + 1))
        excesses = ordered[n - n_tail :] - start
        # Where all heights are equal there is no excess to tell a unit.
        unit = float(excesses.mean()) or abs(float(start)) or 1.0
        weight = measure_independence(heights > start) if in_time else 1.0
        tail = _foretold(weight * _compute_likelihood(excesses / unit) + told, (n_tail + 1) / (n + 1), doubt)
        levels = np.maximum.accumulate(np.append(body, tail))
        return cls(np.append(ordered[: n - n_tail], start + unit * RISES), levels)

    def surprises(self, scores: Floats) -> Floats:
        """−log of the probability that an ordinary stretch is this high."""
        return np.asarray(np.interp(scores, self.knots, self.levels))

    def score_of(self, surprise: float) -> float:
        """Return the height with this surprise."""
        return float(np.interp(surprise, self.levels, self.knots))


def _compute_likelihood(excesses: Floats) -> Floats:
    """Log-likelihood of each shape and scale, (shapes, scales)."""
    densities = _log_survival(excesses, _SHAPES, _SCALES, power=1.0) - np.log(_SCALES)
    return np.asarray(densities.sum(axis=-1))


def _weigh_by_highest(readings: Floats) -> Floats:
    """What the highest readings tell of each shape, whatever their scale, (shapes, 1)."""
    n = len(readings)
    n_tail = int(min(READINGS_SHARE * n, READINGS_MOST))
    if not n_tail:
        return np.zeros((len(SHAPES), 1))
    ordered = np.sort(readings)
    excesses = ordered[n - n_tail :] - ordered[n - n_tail - 1]
    unit = float(excesses.mean())
    if unit <= 0:
        return np.zeros((len(SHAPES), 1))
    return np.asarray(
        logsumexp(READINGS_WEIGHT * _compute_likelihood(excesses / unit), axis=1, keepdims=True)
    )


def _foretold(likelihood: Floats, share: float, doubt: float) -> Floats:
    """Surprise at the start of the tail plus each of `RISES`; `share` of the heights are in the tail."""
    weights = np.exp(likelihood - likelihood.max())
    weights = (1.0 - doubt) * weights / weights.sum() + doubt / weights.size
    p = share * np.exp(_log_survival(RISES, _SHAPES, _SCALES, power=0.0))
    return np.asarray(-np.log(np.einsum("ij,ijk->k", weights, p)))


def _log_survival(rises: Floats, shapes: Floats, scales: Floats, *, power: float) -> Floats:
    """−(power + 1/ξ) log(1 + ξ y/β): of the density with power 1 (but for β), of what is above y with 0."""
    inside = 1.0 + shapes * rises / scales
    found = -(power + 1.0 / shapes) * np.log(np.maximum(inside, 1e-300))
    return np.where(inside > 0, found, -np.inf)


def measure_independence(is_high: np.ndarray) -> float:
    """Share of high stretches that come on their own, not in a burst, as far as runs of them tell.

    Ten high stretches of one burst tell about as much of the tail as one. k high stretches in a random order,
    a share q of all, have k (1 − q) runs; fewer runs are bursts.

    Examples
    --------
    >>> measure_independence(np.arange(60) % 3 == 0)
    1.0
    >>> round(measure_independence(np.arange(300) % 100 < 15), 2)
    0.08
    """
    n_runs = int(is_high[0]) + int((np.diff(is_high.astype(np.int8)) == 1).sum())
    expected = is_high.sum() * (1.0 - is_high.mean())
    return float(min(1.0, n_runs / expected)) if expected > 0 and n_runs else 1.0
