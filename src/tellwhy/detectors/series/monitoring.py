"""Several channels beside a reference: how far all of them together are from what they are known to be.

Four scores are averaged as logarithms: channel means beside what a slow drift explains, the largest of levels
and roughnesses in directions without correlation (as T² and Q have them), the distance to the nearest of the
reference, and what a ridge on the last three readings leaves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import uniform_filter1d

from tellwhy.core.score import Floats, Integers
from tellwhy.detectors.series._compiled import find_nearest_earlier
from tellwhy.detectors.series.evidence import Pace, is_flat
from tellwhy.detectors.series.measures import average_until, find_block_maxima, log_expected

WIDTHS = (5, 20)  # readings of a mean
SMOOTH = 31
LEAST_KNOWN = 100  # readings of a reference, for all this
SURE_FROM = 1_000  # readings of a reference that promises something
HELD_OUT = 0.4  # of the reference, scored by the rest of it
LAGS = (1, 2, 3)
DRIFTS = 0.25  # power of time: squared differences that grow more slowly are no drift
PRIOR = (24.0, 0.2)


@dataclass(frozen=True, eq=False)
class Together:
    """What all channels say together.

    Attributes
    ----------
    log_expected
        Logarithm (of 10) of the expected false events, at each reading.
    channel
        The channel that is farthest off.
    drifting
        Channels that drift slowly within the reference.
    """

    log_expected: Floats
    channel: Integers
    drifting: tuple[int, ...]


def judge_together(X: Floats, pace: Pace) -> Together | None:
    """Judge readings of all channels beside the first, known ones; None where these are too few."""
    known = pace.known
    moving = [k for k in range(X.shape[1]) if not is_flat(X[:known, k])] if known else []
    if known < LEAST_KNOWN or not moving:
        return None
    Y = X[:, moving]
    score, deviations = _score(Y, known)
    first = int((1 - HELD_OUT) * known)
    held, _ = _score(Y[:known], first)
    # The end of the reference, scored by its beginning, tells how far ordinary readings go astray.
    usual = held[first + WIDTHS[-1] // 2 : known - SMOOTH // 2]
    width = max(pace.block, SMOOTH)
    middle = float(np.median(find_block_maxima(usual, width)))
    joined = np.concatenate([usual, score]) - middle
    part = slice(0, len(usual))
    told = log_expected(joined, width, part, n_judged=pace.n_judged, prior=PRIOR, lowest=0.0)
    channel = np.array(moving)[np.argmax(np.abs(deviations), axis=1)]
    drifting = tuple(k for k, at in zip(moving, range(Y.shape[1]), strict=True) if _drifts(Y[:known, at]))
    return Together(told[len(usual) :], channel, drifting)


def _score(X: Floats, known: int) -> tuple[Floats, Floats]:
    """How far readings are from the reference (a logarithm, smoothed), and how far each channel is."""
    Z = (X - X[:known].mean(axis=0)) / X[:known].std(axis=0)
    allowed = np.column_stack([estimate_drift_variance(z, known) for z in Z.T])
    parts = []
    for width in WIDTHS:
        level, rough = _measure_deviations(Z, known, width, allowed)
        parts.append(_sum_deviations(level))
    whitened = _whiten_features(np.column_stack([level, rough]), known)
    parts.append(np.abs(whitened).max(axis=1))
    keys = whitened.sum(axis=1) / math.sqrt(whitened.shape[1])
    places = np.arange(WIDTHS[-1], known)
    parts.append(find_nearest_earlier(whitened, keys, places, WIDTHS[-1], known))
    parts.append(_measure_unforeseen(Z, known))
    joined = np.mean([_take_logarithm(part, known) for part in parts], axis=0)
    farther = np.where(np.abs(level) > np.abs(rough), level, rough)
    return np.asarray(uniform_filter1d(joined, SMOOTH)), farther


def estimate_drift_variance(z: Floats, known: int) -> Floats:
    """Variance to allow at each reading beyond the reference's own, since slow channels drift on.

    The mean squared difference of readings so far apart grows as a power of the distance in the reference,
    and is taken to go on growing so.
    """
    reference = z[:known]
    lags = np.array([1, 2, 5, 10, 25, 50, 100, min(200, known // 2)])
    grown = np.array([np.mean((reference[lag:] - reference[:-lag]) ** 2) / 2 for lag in lags]) + 1e-18
    if grown[-1] <= 1.5 * grown[0]:
        return np.zeros(len(z))
    power = np.clip(math.log(grown[-1] / grown[4]) / math.log(max(lags[-1] / lags[4], 1.1)), 0, 2)
    away = np.maximum(np.arange(len(z)) - known + known // 2, 1.0)
    later = np.maximum(grown[-1] * (away / lags[-1]) ** power - reference.var(), 0.0)
    return np.asarray(np.where(away > lags[-1], later, 0.0))


def _drifts(reference: Floats) -> bool:
    """Whether readings grow farther apart through the whole reference."""
    n = len(reference)
    short = n // 16
    long = n // 2
    near = float(np.mean((reference[short:] - reference[:-short]) ** 2))
    far = float(np.mean((reference[long:] - reference[:-long]) ** 2))
    return math.log(far / max(near, 1e-18)) / math.log(long / short) > DRIFTS


def _measure_deviations(Z: Floats, known: int, width: int, allowed: Floats) -> tuple[Floats, Floats]:
    """Means and logarithms of roughness of each channel, in the spreads of the reference."""
    means = np.column_stack([average_until(z, width) for z in Z.T])
    level = means / np.sqrt(means[width:known].var(axis=0) + allowed)
    steps = np.abs(np.diff(Z, axis=0, prepend=Z[:1]))
    least = 1e-4 * steps[:known].var(axis=0) + 1e-18
    rough = np.log(np.column_stack([average_until(s * s, max(width, 8)) for s in steps.T]) + least)
    part = rough[width:known]
    return level, (rough - part.mean(axis=0)) / (part.std(axis=0) + 0.05)


def _whiten_features(features: Floats, known: int) -> Floats:
    """Features in directions without correlation in the reference."""
    values, vectors = np.linalg.eigh(np.cov(features[WIDTHS[-1] : known].T))
    return np.ascontiguousarray(np.clip(features @ vectors / np.sqrt(values + 0.05), -30, 30))


def _measure_unforeseen(Z: Floats, known: int) -> Floats:
    before = np.column_stack([np.ones(len(Z)), *[np.roll(Z, lag, axis=0) for lag in LAGS]])
    rows = slice(LAGS[-1], known)
    ridge = 10 * np.eye(before.shape[1])
    weights = np.linalg.solve(before[rows].T @ before[rows] + ridge, before[rows].T @ Z[rows])
    left = Z - before @ weights
    left[: LAGS[-1]] = 0.0
    return np.asarray(uniform_filter1d(_sum_deviations(left / (left[rows].std(axis=0) + 1e-9)), SMOOTH))


def _sum_deviations(deviations: Floats) -> Floats:
    """Sum over channels of deviations with long tails."""
    return np.asarray(np.log1p(deviations * deviations / 3).sum(axis=1))


def _take_logarithm(score: Floats, known: int) -> Floats:
    part = score[known // 10 : known]
    middle = float(np.median(part))
    high = float(np.quantile(part, 0.95)) - middle + 1e-9
    return np.asarray(np.log(np.maximum(score - middle, 0.0) / high + 0.3))
