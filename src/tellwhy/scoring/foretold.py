"""How high the highest of so many ordinary stretches will be, foretold from those of a reference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from tellwhy.core.score import Floats

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
        told = 0.0 if readings is None else _told_by(readings)
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
        weight = independence(heights > start) if in_time else 1.0
        tail = _foretold(weight * _likelihood(excesses / unit) + told, (n_tail + 1) / (n + 1), doubt)
        levels = np.maximum.accumulate(np.append(body, tail))
        return cls(np.append(ordered[: n - n_tail], start + unit * RISES), levels)

    def surprises(self, scores: Floats) -> Floats:
        """−log of the probability that an ordinary stretch is this high."""
        return np.asarray(np.interp(scores, self.knots, self.levels))

    def score_of(self, surprise: float) -> float:
        """Return the height with this surprise."""
        return float(np.interp(surprise, self.levels, self.knots))


def _likelihood(excesses: Floats) -> Floats:
    """Log-likelihood of each shape and scale, (shapes, scales)."""
    densities = _log_survival(excesses, _SHAPES, _SCALES, power=1.0) - np.log(_SCALES)
    return np.asarray(densities.sum(axis=-1))


def _told_by(readings: Floats) -> Floats:
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
    return np.asarray(logsumexp(READINGS_WEIGHT * _likelihood(excesses / unit), axis=1, keepdims=True))


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


def independence(is_high: np.ndarray) -> float:
    """Share of high stretches that come on their own, not in a burst, as far as runs of them tell.

    Ten high stretches of one burst tell about as much of the tail as one. k high stretches in a random order,
    a share q of all, have k (1 − q) runs; fewer runs are bursts.

    Examples
    --------
    >>> independence(np.arange(60) % 3 == 0)
    1.0
    >>> round(independence(np.arange(300) % 100 < 15), 2)
    0.08
    """
    n_runs = int(is_high[0]) + int((np.diff(is_high.astype(np.int8)) == 1).sum())
    expected = is_high.sum() * (1.0 - is_high.mean())
    return float(min(1.0, n_runs / expected)) if expected > 0 and n_runs else 1.0
