"""How densely numbers lie on a line: a kernel estimate in the middle, Pareto tails of every plausible shape.

A tail is an average of generalised Pareto tails, each weighed by how well it fits: from a few values
nobody knows how heavy a tail is. The outermost values count as "beyond", not as where they are: errors
do not make tails heavy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from tellwhy.core.params import Fit, are_finite
from tellwhy.core.score import Floats

_GRID = 1024
_TAIL = 0.1  # share of the values in each tail
_CENSORED = 0.015  # of all: how far out these are does not shape the tail
_SHAPES = np.linspace(-0.4, 0.9, 14)
_SCALES = np.exp(np.linspace(-1, 1, 11))
_USUAL_SHAPE = (0.1, 0.25)  # mean and spread of the shapes that columns have
_KNOTS = np.expm1(np.linspace(0, np.log(1e12), 300))  # excesses, in widths, at which a tail is kept
_LEAST = -600.0  # log density of what cannot be
_MOST_FITTED = 100
_NEGLIGIBLE = 1e-4
_GRAIN = 0.6  # of a step: narrower kernels would see the steps between values


@dataclass(frozen=True, eq=False)
class Density:
    """The density of numbers on a line.

    Attributes
    ----------
    n
        How many numbers it was learned from.
    width
        A robust standard deviation.
    ends
        Where the tails begin.
    shares
        Of the numbers, in each tail.
    start, step, body
        Of the grid between the tails: its first place, its step, the density there.
    bandwidth
        Of the kernel.
    falls, survivals
        Of each tail, at the excesses `_KNOTS` × width: log density and log probability to be beyond.
    knots, scores
        Values and their normal scores, between which scores are interpolated.
    """

    n: int
    width: float
    ends: Floats
    shares: Floats
    start: float
    step: float
    body: Floats
    bandwidth: float
    falls: Floats
    survivals: Floats
    knots: Floats
    scores: Floats

    def _require(self) -> Iterator[Fit]:
        yield "body", len(self.body), _GRID
        yield "falls", self.falls.shape, (2, len(_KNOTS))
        yield "survivals", self.survivals.shape, (2, len(_KNOTS))
        yield "scores", len(self.scores), len(self.knots)
        for name in ("ends", "shares", "body", "knots", "scores"):
            yield name, are_finite(*getattr(self, name).tolist()), True

    def log_density(self, values: Floats, *, own: bool = False) -> Floats:
        """Log density; `own` says that the values are among those learned from: each is left out."""
        place = np.clip((values - self.start) / self.step, 0, _GRID - 1.001)
        below = place.astype(np.int64)
        part = place - below
        found = self.body[below] * (1 - part) + self.body[below + 1] * part
        if own:  # nearly all of a number's own kernel; the grid blurs it a little
            alone = 0.98 / (np.sqrt(2 * np.pi) * self.bandwidth * self.n)
            found = np.maximum(found - alone, 0) * self.n / max(self.n - 1, 1)
        floor = 0.3 / self.n / max(float(self.ends[1] - self.ends[0]), self.width)
        result = np.log(found + floor)
        for side, excess in enumerate(self._excesses(values)):
            beyond = excess > 0
            fall = np.interp(_place(excess[beyond], self.width), np.arange(len(_KNOTS)), self.falls[side])
            result[beyond] = np.maximum(fall, _LEAST)
        return result

    def log_tail(self, values: Floats) -> Floats:
        """Log of the probability to lie as far out, on the same side."""
        result = np.full(len(values), np.log(0.3))
        for side, excess in enumerate(self._excesses(values)):
            beyond = excess > 0
            at = _place(excess[beyond], self.width)
            result[beyond] = np.interp(at, np.arange(len(_KNOTS)), self.survivals[side])
        return result

    def normal_score(self, values: Floats) -> Floats:
        """Where a value is among the others, as a standard normal number."""
        scores = np.interp(values, self.knots, self.scores)
        for side, excess in enumerate(self._excesses(values)):
            beyond = excess > 0
            if beyond.any():
                tail = np.exp(np.maximum(self.log_tail(values[beyond]), -27))
                scores[beyond] = ndtri(np.clip(tail, 1e-12, 0.5)) * (1 if side == 0 else -1)
        return scores

    def _excesses(self, values: Floats) -> tuple[Floats, Floats]:
        return self.ends[0] - values, values - self.ends[1]


def _place(excess: Floats, width: float) -> Floats:
    """Where an excess is between the knots."""
    each = np.log(1e12) / (len(_KNOTS) - 1)
    return np.log1p(excess / width) / each


def learn_density(values: Floats, *, step: float = 0.0) -> Density:
    """Learn the density of finite values; `step` is the least difference with which they are written."""
    rising = np.sort(values)
    n = len(rising)
    at = {
        share: float(np.quantile(rising, share))
        for share in (0.015, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.985)
    }
    width = max(
        (at[0.75] - at[0.25]) / 1.349,
        (at[0.95] - at[0.05]) / 3.29 / 2,
        (at[0.985] - at[0.015]) / 4.34 / 4,
        0.3 * step,
        1e-9 * max(1.0, abs(at[0.5])),
    )
    low, high = at[0.1], at[0.9]
    if high - low < 1e-9 * max(1.0, abs(at[0.5])):
        low, high = at[0.5] - width, at[0.5] + width
    bandwidth = max(0.9 * width * n**-0.2, _GRAIN * step)
    start = low - 4 * bandwidth
    spacing = (high - low + 8 * bandwidth) / (_GRID - 1)
    shares = np.array(
        [max(float(np.mean(rising < low)), 0.5 / n), max(float(np.mean(rising > high)), 0.5 / n)]
    )
    excesses = (low - rising[rising < low], rising[rising > high] - high)
    reach = (at[_TAIL] - at[_CENSORED], at[1 - _CENSORED] - at[1 - _TAIL])
    tails = [_tail(e, max(c, step, 0.15 * width), width) for e, c in zip(excesses, reach, strict=True)]
    knots, scores = _ranks(rising)
    return Density(
        n=n,
        width=width,
        ends=np.array([low, high]),
        shares=shares,
        start=start,
        step=spacing,
        body=_body(rising, start, spacing, bandwidth),
        bandwidth=bandwidth,
        falls=np.array([fall for fall, _ in tails]) + np.log(shares)[:, None],
        survivals=np.array([survival for _, survival in tails]) + np.log(shares)[:, None],
        knots=knots,
        scores=scores,
    )


def _body(rising: Floats, start: float, spacing: float, bandwidth: float) -> Floats:
    """Gaussian kernels on a grid, by a convolution of counts."""
    inside = rising[(rising >= start) & (rising <= start + spacing * (_GRID - 1))]
    counts = np.bincount(np.round((inside - start) / spacing).astype(np.int64), minlength=_GRID).astype(float)
    away = spacing * np.arange(-(_GRID - 1), _GRID)
    kernel = np.exp(-0.5 * (away / bandwidth) ** 2) / (np.sqrt(2 * np.pi) * bandwidth)
    size = 4 * _GRID
    both = np.fft.irfft(np.fft.rfft(counts[:_GRID], size) * np.fft.rfft(kernel, size), size)
    return np.maximum(both[_GRID - 1 : 2 * _GRID - 1], 0) / len(rising)


def _tail(excess: Floats, limit: float, width: float) -> tuple[Floats, Floats]:
    """Log density and log survival at the knots: tails of many shapes and scales, by their posterior."""
    near = excess[excess <= limit]
    n_beyond = len(excess) - len(near)
    usual = max((near.sum() + n_beyond * limit) / max(len(near), 1), 0.1 * width) if len(near) else width / 2
    shape = np.repeat(_SHAPES, len(_SCALES))[:, None]
    scale = np.tile(usual * _SCALES, len(_SHAPES))[:, None]
    each = max(1.0, len(near) / _MOST_FITTED)
    if each > 1:
        near = np.quantile(near, (np.arange(_MOST_FITTED) + 0.5) / _MOST_FITTED)
    fit = n_beyond * _log_survival(np.array([limit]), shape, scale)[:, 0]
    if len(near):
        fit = fit + each * _log_fall(near, shape, scale).sum(axis=1)
    mean, spread = _USUAL_SHAPE
    fit = fit - ((shape[:, 0] - mean) / spread) ** 2 / 2 - np.log(scale[:, 0] / usual) ** 2 / 2
    fit = np.where(np.isfinite(fit), fit, -np.inf)
    if not np.isfinite(fit).any():
        fit = np.where(shape[:, 0] > 0, 0.0, -np.inf)
    weights = np.exp(fit - fit.max())
    kept = weights > _NEGLIGIBLE  # of the likeliest tail: others change nothing
    weights = weights[kept] / weights[kept].sum()
    knots = _KNOTS * width
    survival = np.exp(_log_survival(knots, shape[kept], scale[kept]))
    fall = np.exp(_log_fall(knots, shape[kept], scale[kept]))
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(weights @ fall), _LEAST), np.maximum(np.log(weights @ survival), _LEAST)


def _log_survival(excess: Floats, shape: Floats, scale: Floats) -> Floats:
    """log (1 + shape · excess/scale)^(−1/shape); −excess/scale where the shape is 0."""
    with np.errstate(all="ignore"):
        inner = 1 + shape * excess / scale
        bent = np.where(inner > 0, -np.log(inner) / shape, -np.inf)
    return np.maximum(np.where(np.abs(shape) < 1e-6, -excess / scale, bent), _LEAST)


def _log_fall(excess: Floats, shape: Floats, scale: Floats) -> Floats:
    with np.errstate(all="ignore"):
        inner = 1 + shape * excess / scale
        log_inner = np.where(inner > 0, np.log(inner), np.inf)
    return _log_survival(excess, shape, scale) - np.log(scale) - log_inner


def _ranks(rising: Floats) -> tuple[Floats, Floats]:
    """Values and the normal scores of their middle ranks; of many values, every so-manieth."""
    values, counts = np.unique(rising, return_counts=True)
    first = np.cumsum(counts) - counts
    kept = np.unique(np.linspace(0, len(values) - 1, _GRID).astype(np.int64))
    ranks = (first[kept] + counts[kept] / 2) / len(rising)
    return values[kept], ndtri(np.clip(ranks, 0.5 / len(rising), 1 - 0.5 / len(rising)))
