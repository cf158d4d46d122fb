"""What detectors of events share: spreads, moving means, largest values of blocks, surprise and chance."""

from __future__ import annotations

import math

import numpy as np

from tellwhy.core.score import Floats

LEAST_LOG = 0.3  # scores are not distinguished below this part of their usual largest value
QUIET = 0.5  # of the blocks: the tail begins at their median
BUSY = 0.8  # blocks above this hundredth may hold events: they only count as being above


def spread_of(x: Floats) -> float:
    """Robust standard deviation, never below a tenth of the plain one.

    Examples
    --------
    >>> round(spread_of(np.array([0.0, 1.0, 2.0, 3.0, 400.0])), 1)
    15.9
    """
    from_median = 1.4826 * median_distance(x)
    return max(from_median, 0.1 * float(x.std()), 1e-9 * (1 + float(np.abs(x).max())))


def median_distance(x: Floats) -> float:
    """Median distance from the median."""
    return float(np.median(np.abs(x - np.median(x))))


def standardise_readings(x: Floats) -> Floats:
    """Distances from the median in spreads."""
    return np.asarray((x - np.median(x)) / spread_of(x))


def find_value_step(x: Floats) -> float:
    """Usual step between neighbouring values of a series of few values, else 0.

    Examples
    --------
    >>> find_value_step(np.tile([1.0, 2.0, 3.0], 50)), find_value_step(np.arange(50.0))
    (1.0, 0.0)
    """
    values = np.unique(x)
    return float(np.median(np.diff(values))) if 1 < len(values) < len(x) / 20 else 0.0


def filled(x: Floats) -> Floats:
    """Return missing readings as straight lines between their neighbours; zeros where all are missing."""
    there = np.isfinite(x)
    if there.all():
        return x
    if not there.any():
        return np.zeros(len(x))
    at = np.arange(len(x))
    return np.asarray(np.where(there, x, np.interp(at, at[there], x[there])))


def average_until(x: Floats, width: int) -> Floats:
    """Mean of the last `width` values at each place; at the beginning, of those there are.

    Examples
    --------
    >>> average_until(np.array([2.0, 4.0, 6.0]), 2)
    array([2., 3., 5.])
    """
    sums = np.append(0.0, np.cumsum(x))
    last = np.arange(1, len(x) + 1)
    first = np.maximum(last - width, 0)
    return np.asarray((sums[last] - sums[first]) / (last - first))


def find_block_maxima(scores: Floats, width: int) -> Floats:
    """Largest value in each of the blocks of about this width, at least five of them."""
    n_blocks = max(len(scores) // width, 5)
    size = len(scores) // n_blocks
    return scores[: size * n_blocks].reshape(n_blocks, size).max(axis=1) if size else scores


def surprise(scores: Floats, width: int, usual_part: slice, floor: float) -> Floats:
    """Logarithm of scores over their usual largest value in a block."""
    usual = max(float(np.median(find_block_maxima(scores[usual_part], width))), floor)
    return np.asarray(np.log(np.maximum(scores / usual, LEAST_LOG)))


def log_expected(
    surprises: Floats,
    width: int,
    usual_part: slice,
    *,
    n_judged: int,
    prior: tuple[float, float],
    lowest: float = -0.4,
) -> Floats:
    """Logarithm (of 10) of how many events as large `n_judged` readings of a quiet series have.

    Beyond the median of the blocks' largest surprises, their tail is exponential. Its scale is that of the
    blocks between the median and the 80th hundredth; those above it, which may hold events, are only counted.
    `prior` is a number of further blocks, and the scale that these had in series without events. The scale is
    not known but estimated, so the tail is that of a Pareto law.
    """
    largest = np.sort(find_block_maxima(surprises[usual_part], width))
    low, high = np.quantile(largest, [QUIET, BUSY])
    between = largest[(largest > low) & (largest <= high)]
    n_prior, scale_before = prior
    weight = max(len(between), 3) + n_prior
    censored = float((largest > high).sum()) * (high - low)
    scale = (float(np.sum(between - low)) + censored + n_prior * scale_before) / weight
    beyond = np.maximum(surprises - max(low, lowest), 0.0)
    n_blocks = max(n_judged // width, 5)
    return np.asarray(math.log10(n_blocks * QUIET) - weight * np.log10(1 + beyond / (weight * scale)))


def count_run_lengths(values: Floats) -> Floats:
    """Length of the run of equal values that ends at each place.

    Examples
    --------
    >>> count_run_lengths(np.array([2.0, 2.0, 5.0, 5.0, 5.0]))
    array([1., 2., 1., 2., 3.])
    """
    places = np.arange(len(values))
    is_new = np.ones(len(values), dtype=bool)
    is_new[1:] = values[1:] != values[:-1]
    first = np.maximum.accumulate(np.where(is_new, places, 0))
    return (places - first + 1).astype(np.float64)
