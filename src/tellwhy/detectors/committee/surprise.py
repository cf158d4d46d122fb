"""Surprise: minus the logarithm of the probability that an ordinary row scores this high."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tellwhy.core.score_function import Floats

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
        knots, body = _body(scores, quantiles[0])
        return cls(knots, body, scale, shape)

    def value(self, scores: Floats) -> Floats:
        """Return the surprise of each score."""
        below = np.interp(scores, self.knots, self.levels)
        beyond = np.maximum(scores - self.knots[-1], 0.0) / self.scale
        tail = np.log1p(self.shape * beyond) / self.shape if self.shape > 0 else beyond
        return np.asarray(below + tail)

    def score_of(self, surprise: float) -> float:
        """Return the score that has this surprise; the smallest knot for less than any score has."""
        rest = surprise - self.levels[-1]
        if rest <= 0:
            return float(np.interp(surprise, self.levels, self.knots))
        beyond = np.expm1(self.shape * rest) / self.shape if self.shape > 0 else rest
        return float(self.knots[-1] + self.scale * beyond)


def _tail_levels(n: int, *, is_clean: bool) -> Floats:
    """Levels of the quantiles that the tail follows; of clean rows, only the last few."""
    if not is_clean:
        return np.linspace(FIRST_LEVEL, LAST_LEVEL, 28)
    first = max(FIRST_LEVEL, 1 - max(CLEAN_TAIL_SHARE, CLEAN_TAIL_ROWS / n))
    return 1 - (1 - first) * np.geomspace(1, max(1 / 20, 3 / ((n + 3) * (1 - first))), 28)


def fitted_tail(
    quantiles: Floats, levels: Floats, most_shape: float = LARGEST_SHAPE, *, safe: float = SAFE_LEVEL
) -> tuple[float, float]:
    """β and ξ with which quantiles grow most nearly as β (exp(ξ L) − 1)/ξ, L the level above the first.

    For each ξ of a grid, β is a least-squares slope; the ξ with the smallest error wins. Quantiles beyond the
    safe level count as long as they are not far above what those below foretell: those are of anomalies.
    """
    is_safe = levels <= -np.log1p(-safe) + 1e-9
    if is_safe.all() or is_safe.sum() < LEAST_SAFE:  # of clean rows all quantiles are safe
        return _least_squares(quantiles, levels, most_shape)
    scale, shape = _least_squares(quantiles[is_safe], levels[is_safe], most_shape)
    above = levels - levels[0]
    foretold = scale * (np.expm1(shape * above) / shape if shape > 0 else above)
    goes_on = np.cumprod(is_safe | (quantiles - quantiles[0] <= SMOOTH * foretold)).astype(bool)
    return _least_squares(quantiles[goes_on], levels[goes_on], most_shape)


def _least_squares(quantiles: Floats, levels: Floats, most_shape: float) -> tuple[float, float]:
    rise = quantiles - quantiles[0]
    above = levels - levels[0]
    best = (np.inf, 0.0, 0.0)
    for shape in np.linspace(0.0, most_shape, 13):
        growth = np.expm1(shape * above) / shape if shape > 0 else above
        scale = float(growth @ rise / (growth @ growth))
        error = float(((rise - scale * growth) ** 2).sum())
        # A heavier tail must fit clearly better: it makes every far score less surprising.
        if error < best[0] * (1 - 1e-9):
            best = (error, scale, float(shape))
    return best[1], best[2]


def _body(scores: Floats, start: float) -> tuple[Floats, Floats]:
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
