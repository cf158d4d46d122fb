"""What chance alone would do: tails of columns, edges of their range, counts. All in −log probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tellwhy.core.score import Floats

LEVEL = 7.0  # −log of one in a thousand: how rarely chance may make a claim in a whole table
_FEWEST = 10
_MOST = 500
_HEAVIEST = 1.0
_LIGHTEST = 0.1


@dataclass(frozen=True)
class Tail:
    """How the upper tail of a column falls: a `share` of its values lies beyond `start`.

    P(value > v) = share · (1 + shape (v − start)/scale)^(−1/shape), a generalised Pareto tail.
    """

    start: float
    share: float
    scale: float
    shape: float

    def surprise(self, v: float | Floats) -> Floats:
        """−log P(value > v); 0 below the start of the tail."""
        excess = np.maximum(np.asarray(v, dtype=np.float64) - self.start, 0) / self.scale
        fall = np.log1p(self.shape * excess) / self.shape if self.shape > 1e-6 else excess
        return np.asarray(fall - math.log(self.share) * (excess > 0))


def fit_tail(rising: Floats, *, step: float, lightest: float = _LIGHTEST, doubts: float = math.inf) -> Tail:
    """Fit the upper tail of sorted values by probability-weighted moments (Hosking and Wallis, 1987).

    Parameters
    ----------
    rising
        The values, in rising order.
    step
        The least difference between values: the tail is not taken to fall faster than by 1/e in a step.
    lightest
        The least shape. 0.1 is a little heavier than exponential: no claim may hang on a light tail.
    doubts
        Unless the tail is so clearly light: it is taken to be exponential where its shape is negative by this
        many standard errors, 1/√m for m values.
    """
    n = len(rising)
    m = tail_size(n)
    start = float(rising[n - m - 1]) if n > m else float(rising[0])
    excess = rising[n - m :] - start
    mean = float(excess.mean())
    weights = (m - 1 - np.arange(m)) / max(m - 1, 1)
    weighted = float((weights * excess).mean())
    spare = mean - 2 * weighted
    shape = 2 - mean / spare if spare > 0 else 0.0
    upper = shape + doubts / math.sqrt(m)
    shape = min(max(shape, min(lightest, max(upper, 0.0))), _HEAVIEST)
    scale = mean * (1 - min(shape, 0.9))
    return Tail(start, m / n, max(scale, step), shape)


def tail_size(n: int) -> int:
    """How many of n values a tail is fitted to: a tenth, at most 500."""
    return min(max(n // 10, min(_FEWEST, n - 1), 1), _MOST)


def many(k: float, expected: float) -> float:
    """−log P(count ≥ k) of a Poisson count (Chernoff's bound from below); 0 where k is expected.

    Examples
    --------
    >>> many(3, 5.0), round(many(10, 1.0), 1)
    (0.0, 14.0)
    """
    if k <= expected:
        return 0.0
    return float(k * math.log(k / max(expected, 1e-300)) - k + expected)


def few(k: float, expected: float) -> float:
    """−log P(count ≤ k) of a Poisson count, at least (Chernoff's bound).

    Examples
    --------
    >>> few(0, 5.0), few(7, 5.0)
    (5.0, 0.0)
    """
    if k >= expected:
        return 0.0
    return float(expected - k + (k * math.log(k / expected) if k else 0.0))


def agreement(hits: float, n: float, chance: float) -> float:
    """−log P(≥ hits of n agree) when each agrees with probability `chance`, at least (Chernoff's bound).

    Examples
    --------
    >>> round(agreement(20, 20, 0.5), 2), agreement(10, 20, 0.5)
    (13.86, 0.0)
    """
    share = hits / n if n else 0.0
    if share <= chance:
        return 0.0
    chance = max(chance, 1e-12)
    rest = (1 - share) * math.log((1 - share) / (1 - chance)) if share < 1 else 0.0
    return float(n * (share * math.log(share / chance) + rest))


def edge_evidence(rising: Floats, *, beyond: int, step: float) -> float:
    """Evidence that the values end at a hard lower edge instead of thinning out.

    Three windows from the least value on, with n₀, n₁ and n₂ values, tell how the density goes and bends. One
    that goes on like this puts λ = n₀ · (n₀/n₁) · (n₀/n₁)/(n₁/n₂) values into the window below, each ratio
    at most 1. Finding only `beyond` there is the evidence, λ itself where there are none.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> bool(edge_evidence(np.sort(rng.exponential(size=1000)), beyond=0, step=1e-6) > 20)
    True
    >>> bool(edge_evidence(np.sort(rng.normal(size=1000)), beyond=0, step=1e-6) > 3)
    False
    """
    if len(rising) < 20:
        return 0.0
    # The smaller window alone would be unsure; the wider alone takes a group of a few rows for an edge.
    windows = [edge_window(rising, step, share) for share in (0.02, 0.05)]
    expected = [_expected_below(rising, window, step) for window in windows]
    # Beyond an edge lies next to nothing; what merely thins out faster than carried on is no edge.
    return min(few(beyond, lam) if beyond <= 0.1 * lam else 0.0 for lam in expected)


def beyond_evidence(rising: Floats, *, k: int, gap: int, step: float) -> float:
    """Evidence that k values lie `gap` steps or more below the least of a scale of few steps, not by chance.

    The counts of the lowest three steps are carried on: each step falls by the last ratio, and bends on.
    """
    counts = [int((rising == rising[0] + j * step).sum()) for j in range(3)]
    if min(counts) == 0:
        return 0.0
    falls = min(1.0, counts[0] / counts[1])
    bends = min(falls / min(1.0, counts[1] / counts[2]), 0.9)
    expected = (counts[0] + 2 * math.sqrt(counts[0])) * falls**gap * bends ** (gap * (gap + 1) / 2)
    return many(k, expected)


def _expected_below(rising: Floats, window: float, step: float) -> float:
    # Half a step below the ends of the windows: differences of rounded numbers are off by their last bits.
    ends = np.searchsorted(rising, rising[0] + window * np.arange(1, 4) - step / 2, side="left")
    first = float(ends[0])
    counts = np.maximum(np.diff(ends), 1)
    falls = min(1.0, first / counts[0])
    bends = min(1.0, falls / min(1.0, counts[0] / counts[1]))
    certain = max(first - 2 * math.sqrt(first), 0)  # the window begins at a value, and counts vary
    return float(certain * falls * bends)


def edge_window(rising: Floats, step: float, share: float = 0.05) -> float:
    """Width of the windows of `edge_evidence`: what the lowest values take up, at least a step.

    Such a share of the lowest (40 at least), and no more than a quarter of the interquartile range: a wider
    window would hold a small group of rows whole, and miss that it thins out.
    """
    n = len(rising)
    quarter = n // 4
    width = 0.25 * float(rising[-1 - quarter] - rising[quarter])
    width = min(width, float(rising[min(max(int(share * n), 40), n - 1)] - rising[0]))
    # A window of 2.3 steps would hold two values here and three there.
    return step * max(round(width / step), 1)


def oddness(rising: Floats, values: Floats) -> Floats:
    """−log of how many values lie as far out, or farther, on the same side."""
    n = len(rising)
    above = n - np.searchsorted(rising, values, side="left")
    below = np.searchsorted(rising, values, side="right")
    return -np.log(np.clip(2 * np.minimum(above, below), 1, n) / n)


def most(n: int) -> float:
    """The largest surprise a finding states: one chance in n², well above that of any ordinary row."""
    return 2 * math.log(max(n, 2))
