"""Series in which nothing happens, of sixteen families, each by a length and a seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.signal import lfilter

from tellwhy.core.score import Floats

Generator = np.random.Generator
DAY = 96  # readings


def _autoregression(new: Floats, *weights: float) -> Floats:
    return np.asarray(lfilter([1.0], [1.0, *(-w for w in weights)], new))


def _white(rng: Generator, n: int) -> Floats:
    return rng.normal(size=n)


def _weakly_dependent(rng: Generator, n: int) -> Floats:
    return _autoregression(rng.normal(size=n), 0.5)


def _strongly_dependent(rng: Generator, n: int) -> Floats:
    return _autoregression(rng.normal(size=n), 0.9)


def _heavy_tails(rng: Generator, n: int) -> Floats:
    return _autoregression(rng.standard_t(4, size=n), 0.7)


def _oscillation(rng: Generator, n: int) -> Floats:
    return _autoregression(rng.normal(size=n), 1.6, -0.85)


def _random_walk(rng: Generator, n: int) -> Floats:
    return np.cumsum(rng.normal(size=n))


def _day(rng: Generator, n: int) -> Floats:
    return 3 * np.sin(2 * np.pi * np.arange(n) / DAY) + _autoregression(rng.normal(size=n), 0.5)


def _working_week(rng: Generator, n: int) -> Floats:
    at = np.arange(n)
    works = ((at // DAY) % 7 < 5) & (at % DAY >= 32) & (at % DAY < 72)
    return 6.0 * works + rng.normal(size=n)


def _counts(rng: Generator, n: int) -> Floats:
    return rng.poisson(4 + 3 * np.sin(2 * np.pi * np.arange(n) / DAY), n).astype(np.float64)


def _coarse(rng: Generator, n: int) -> Floats:
    return np.round(_autoregression(rng.normal(size=n), 0.8))


def _volatile(rng: Generator, n: int) -> Floats:
    spread = np.exp(0.25 * _autoregression(rng.normal(size=n) * 0.2, 0.98))
    return spread * rng.normal(size=n)


def _skewed(rng: Generator, n: int) -> Floats:
    return np.exp(0.5 * _autoregression(rng.normal(size=n) * 0.6, 0.8))


def _rising(rng: Generator, n: int) -> Floats:
    return 8 * np.arange(n) / n + _autoregression(rng.normal(size=n), 0.3)


def _on_and_off(rng: Generator, n: int) -> Floats:
    turns = rng.random(n) < 1 / 40
    return 4.0 * (np.cumsum(turns) % 2) + 0.5 * rng.normal(size=n)


def _sawtooth(rng: Generator, n: int) -> Floats:
    lengths = rng.integers(45, 56, n // 45 + 2)
    wave = np.concatenate([np.arange(k) / k for k in lengths])[:n]
    return 5 * wave + 0.3 * rng.normal(size=n)


def _bursts(rng: Generator, n: int) -> Floats:
    shots = (rng.random(n) < 0.03) * rng.gamma(2.0, 1.0, n)
    return _autoregression(shots, 0.8) + 0.1 * rng.normal(size=n)


FAMILIES: dict[str, Callable[[Generator, int], Floats]] = {
    "noise": _white,
    "autoregression .5": _weakly_dependent,
    "autoregression .9": _strongly_dependent,
    "autoregression, heavy tails": _heavy_tails,
    "oscillation": _oscillation,
    "random walk": _random_walk,
    "a day": _day,
    "a working week": _working_week,
    "counts over a day": _counts,
    "whole numbers": _coarse,
    "changing noise": _volatile,
    "skewed": _skewed,
    "rising": _rising,
    "on and off": _on_and_off,
    "sawtooth": _sawtooth,
    "bursts": _bursts,
}
