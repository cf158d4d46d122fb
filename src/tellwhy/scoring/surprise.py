"""Surprise: minus the logarithm of the probability that an ordinary row scores this high."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

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
        levels = _tail_levels(len(scores), is_clean=is_clean)
        quantiles = np.quantile(scores, levels)
        scale, shape = fitted_tail(quantiles, -np.log1p(-levels), most_shape)
        low, high = np.quantile(scores, [0.05, 0.95]).tolist()
        # Where most scores are equal the quantiles do not tell a scale: the mean distance takes its place.
        spread = (high - low) or float(np.abs(scores - quantiles[0]).mean())
        scale = max(scale, least_scale, 1e-3 * spread) or 1.0
        knots, body = shown_levels(scores, quantiles[0])
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
        scale, shape = fitted_tail(quantiles, surprises, MIDDLE_SHAPE, safe=MIDDLE[1])
        knots, body = shown_levels(scores, quantiles[0])
        return cls(knots, body, scale, shape)

    def value(self, scores: Floats) -> Floats:
        """Return the surprise of each score."""
        below = np.interp(scores, self.knots, self.levels)
        beyond = np.maximum(scores - self.knots[-1], 0.0) / self.scale
        tail = level_above(beyond, self.shape, self.levels[-1])
        return np.asarray(below + tail)

    def score_of(self, surprise: float) -> float:
        """Return the score that has this surprise; the smallest knot for less than any score has."""
        rest = surprise - self.levels[-1]
        if rest <= 0:
            return float(np.interp(surprise, self.levels, self.knots))
        beyond = growth(np.asarray(rest), self.shape, self.levels[-1])
        return float(self.knots[-1] + self.scale * beyond)

    def _require(self) -> Iterator[Fit]:
        yield "knots", self.knots.ndim == 1 and len(self.knots) > 0 and is_increasing(self.knots), True
        yield "levels", self.levels.shape, self.knots.shape
        yield "levels", is_increasing(self.levels), True
        yield "scale", bool(np.isfinite(self.scale) and self.scale > 0), True
        yield "shape", bool(-1 < self.shape <= 1), True


def _tail_levels(n: int, *, is_clean: bool) -> Floats:
    """Levels of the quantiles that the tail follows; of clean rows, only the last few."""
    if not is_clean:
        return np.linspace(FIRST_LEVEL, LAST_LEVEL, 28)
    first = max(FIRST_LEVEL, 1 - max(CLEAN_TAIL_SHARE, CLEAN_TAIL_ROWS / n))
    return 1 - (1 - first) * np.geomspace(1, max(1 / 20, 3 / ((n + 3) * (1 - first))), 28)


def fitted_tail(
    quantiles: Floats,
    levels: Floats,
    most_shape: float = LARGEST_SHAPE,
    *,
    least_shape: float = 0.0,
    safe: float = SAFE_LEVEL,
    smooth: float | Floats = SMOOTH,
    margin: float = 0.0,
) -> tuple[float, float]:
    """β and ξ with which quantiles grow most nearly as `growth` says.

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
        return _least_squares(quantiles, levels, shapes, margin)
    scale, shape = _least_squares(quantiles[is_safe], levels[is_safe], shapes)
    foretold = scale * growth(levels - levels[0], shape, float(levels[0]))
    goes_on = np.cumprod(is_safe | (quantiles - quantiles[0] <= smooth * foretold)).astype(bool)
    return _least_squares(quantiles[goes_on], levels[goes_on], shapes, margin)


def growth(above: Floats, shape: float, first: float) -> Floats:
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


def level_above(risen: Floats, shape: float, first: float) -> Floats:
    """By how much the surprise rises with scores: the inverse of `growth`."""
    if shape > 0:
        return np.asarray(np.log1p(shape * risen) / shape)
    if shape == 0:
        return risen
    power = 1.0 + shape
    return np.asarray(first * ((1.0 + power * risen / first) ** (1.0 / power) - 1.0))


def levels_above(risen: Floats, shapes: Floats, first: float) -> Floats:
    """`level_above` where each score has a shape of its own; shapes are few, for they come from a list."""
    found = np.empty(len(risen))
    for shape in np.unique(shapes):
        has = shapes == shape
        found[has] = level_above(risen[has], float(shape), first)
    return found


def _least_squares(
    quantiles: Floats, levels: Floats, shapes: Floats, margin: float = 0.0
) -> tuple[float, float]:
    rise = quantiles - quantiles[0]
    above = levels - levels[0]
    best = (np.inf, 0.0)
    for shape in shapes:
        grown = growth(above, shape, levels[0])
        error = float(((rise - _slope(grown, rise) * grown) ** 2).sum())
        # A heavier tail must fit clearly better: it makes every far score less surprising.
        if error < best[0] * (1 - 1e-9):
            best = (error, float(shape))
    shape = min(best[1] + margin, float(shapes[-1]))
    return _slope(growth(above, shape, levels[0]), rise), shape


def _shapes(least: float, most: float) -> Floats:
    """Shapes to try, from the lightest tail to the heaviest."""
    return np.concatenate([np.linspace(least, 0.0, 6)[:-1] if least < 0 else [], np.linspace(0.0, most, 13)])


def _slope(grown: Floats, rise: Floats) -> float:
    return float(grown @ rise / (grown @ grown))


def shown_levels(scores: Floats, start: float) -> tuple[Floats, Floats]:
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
