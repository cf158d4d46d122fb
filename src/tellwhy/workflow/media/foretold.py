"""How high the highest of so many ordinary stretches will be, foretold from those of a reference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tellwhy.core.score_function import Floats

TAIL_SHARE = 0.5  # of the heights: each is the highest of many windows already
TAIL_MOST = 50  # heights in the tail, or
TAIL_LEAST_SHARE = 0.02  # of them where that is more
# From tails with an end to those whose mean is infinite: heights are squares of readings, more or less, and
# squares of Student's t with three degrees of freedom have a shape of 2/3. Few heights tell it badly.
SHAPES = np.linspace(-0.5, 1.2, 27)
SCALES = np.geomspace(0.15, 6.0, 41)  # times the mean excess
# Share of the weight that all tails have in equal parts, whatever the reference says. In a few dozen heights
# the rare large readings of a heavy tail may not have come yet, and what did come then looks light. Chosen
# on eight kinds of series and tried on others: docs/results/patch_series.md.
DOUBT = 0.07
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
    def learn(cls, heights: Floats) -> ForetoldHeights:
        """Learn from ordinary stretches in the order of time, each scored as if it were new.

        Parameters
        ----------
        heights
            Scores of stretches of the reference.

        Examples
        --------
        >>> heights = np.random.default_rng(0).exponential(size=100)
        >>> law = ForetoldHeights.learn(heights)
        >>> bool(law.surprises(np.array([heights.max()]))[0] < np.log(100 / 0.1))
        True
        >>> round(law.score_of(1.0))
        1
        """
        n = len(heights)
        n_tail = int(min(TAIL_SHARE * n, max(TAIL_MOST, TAIL_LEAST_SHARE * n)))
        ordered = np.sort(heights)
        start = ordered[n - n_tail - 1]
        body = -np.log(np.arange(n, n_tail, -1) / (n + 1))
        excesses = ordered[n - n_tail :] - start
        # Where all heights are equal there is no excess to tell a unit.
        unit = float(excesses.mean()) or abs(float(start)) or 1.0
        share = (n_tail + 1) / (n + 1)
        tail = _foretold(excesses / unit, independence(heights > start), share)
        levels = np.maximum.accumulate(np.append(body, tail))
        return cls(np.append(ordered[: n - n_tail], start + unit * RISES), levels)

    def surprises(self, scores: Floats) -> Floats:
        """−log of the probability that an ordinary stretch is this high."""
        return np.asarray(np.interp(scores, self.knots, self.levels))

    def score_of(self, surprise: float) -> float:
        """Return the height with this surprise."""
        return float(np.interp(surprise, self.levels, self.knots))


def _foretold(excesses: Floats, weight: float, share: float) -> Floats:
    """Surprise at the start of the tail plus each of `RISES`; `share` of the heights are in the tail."""
    shapes = np.where(np.abs(SHAPES) < 1e-6, 1e-6, SHAPES)[:, None, None]
    scales = SCALES[:, None]
    likelihood = weight * (_log_survival(excesses, shapes, scales, power=1.0) - np.log(scales)).sum(axis=-1)
    weights = np.exp(likelihood - likelihood.max())
    weights = (1.0 - DOUBT) * weights / weights.sum() + DOUBT / weights.size
    p = share * np.exp(_log_survival(RISES, shapes, scales, power=0.0))
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
