"""Novelty: how far the window that ends now is from the nearest window before it."""

from __future__ import annotations

import math

import numpy as np

from tellwhy.core.arrays import draw_sample
from tellwhy.core.score import Floats
from tellwhy.detectors.series._compiled import nearest_earlier
from tellwhy.detectors.series.measures import standardised, surprise, value_step

LENGTHS = (1, 4, 10, 20)  # readings of a window
OF_FORECAST = (1, 2, 4)  # of what a forecast leaves
OF_SHAPE = (40, 80)
PARTS = 8  # means that a long window is described by
MOST_COMPARED = 4_000  # windows that each is compared with
OF_LONG_SERIES = 1_000  # the same in series of more than so many readings:
LONG = 200_000
STEPS_ALLOWED = 1.5  # of a series of few values
LEAST_USUAL = 0.03  # spreads: smaller distances are never new
LAGS = 8  # readings that the next one is foretold by


def window_means(x: Floats, width: int) -> Floats:
    """Means of the parts of the window that ends at each place: (n, at most 8)."""
    n = len(x)
    n_parts = min(PARTS, width)
    sums = np.append(0.0, np.cumsum(x))
    at = np.arange(n)
    means = np.empty((n, n_parts))
    for k in range(n_parts):
        first = np.clip(at - width + 1 + round(k * width / n_parts), 0, n)
        last = np.clip(at - width + 1 + round((k + 1) * width / n_parts), 0, n)
        means[:, k] = (sums[last] - sums[first]) / np.maximum(last - first, 1)
    return means


def distances(x: Floats, width: int, known: int = 0) -> Floats:
    """Distance of the window that ends at each place to the nearest that ends a width before it.

    Of a long series, each is compared with some thousand earlier ones, drawn once. With `known`, windows are
    compared with those of the first so many readings, which are known to be ordinary.
    """
    pool = np.arange(width - 1, known or len(x))
    most = OF_LONG_SERIES if len(x) > LONG else MOST_COMPARED
    if len(pool) > 2 * most:
        pool = np.sort(pool[draw_sample(len(pool), most, np.random.default_rng(0))])
    means = window_means(x, width)
    keys = means.sum(axis=1) / math.sqrt(means.shape[1])
    found = nearest_earlier(means, keys, pool, width, known)
    found[: max(2 * width, 20)] = 0.0
    allowed = STEPS_ALLOWED * value_step(x) / math.sqrt(width)
    return np.asarray(np.maximum(found - allowed, 0.0))


def novelty(
    x: Floats,
    block: int,
    usual_part: slice,
    *,
    lengths: tuple[int, ...] = LENGTHS,
    step: float | None = None,
    known: int = 0,
) -> Floats:
    """Mean over several lengths of the surprise at a window's distance from what was before it."""
    scaled = standardised(x)
    jump = value_step(scaled) if step is None else step
    found = [
        surprise(
            distances(scaled, width, known),
            block,
            usual_part,
            max(LEAST_USUAL, jump / math.sqrt(width)),
        )
        for width in lengths
    ]
    return np.asarray(np.mean(found, axis=0))


def unforeseen(x: Floats) -> Floats:
    """What a ridge on the last eight readings leaves.

    It learns from clipped readings, so that events weigh little.
    """
    low, high = np.quantile(x, [0.005, 0.995])
    clipped = np.clip(x, low, high)
    before = np.ones((len(x), LAGS + 1))
    for k in range(LAGS):
        before[:, k] = np.append(np.full(k + 1, clipped[0]), clipped[: -k - 1])
    ridge = 0.01 * len(x) / LAGS * max(float(clipped.var()), 1e-12)
    weights = np.linalg.solve(before.T @ before + ridge * np.eye(LAGS + 1), before.T @ clipped)
    return np.asarray(x - before @ weights)
