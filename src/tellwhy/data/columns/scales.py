"""Scales on which numbers of any column can be compared: one unit is about one robust standard deviation."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from tellwhy.core.score_function import Floats

LARGEST = 1e100  # keeps squared distances finite
_NORMAL_RANGE = 3.29  # from 5 % to 95 % of a normal distribution, in standard deviations
_LINEAR = 3.0  # beyond so many standard deviations, z grows like its root


def robust_scale(values: Floats) -> tuple[float, float]:
    """Return the median, and the range from 5 % to 95 % in standard deviations of a normal distribution.

    Where that range is empty, the standard deviation takes its place.

    Examples
    --------
    >>> robust_scale(np.arange(101.0))
    (50.0, 27.3...)
    """
    size = float(np.abs(values).max())
    if size > LARGEST:  # where differences and squares would overflow
        centre, scale = robust_scale(values / size)
        return centre * size, scale * size
    quantiles = np.quantile(values, [0.05, 0.5, 0.95])
    middle = float(quantiles[1])
    scale = float(quantiles[2] - quantiles[0]) / _NORMAL_RANGE
    # A range of a few units in the last place is rounding, as of a constant 1e9 + noise.
    if scale <= 4 * np.finfo(float).eps * abs(middle):
        scale = float(np.std(values - middle))
    return middle, scale if scale > 0 else 1.0


def compressed(z: Floats) -> Floats:
    """Return z where |z| ≤ 3, ±3·(2√(|z|/3) − 1) beyond.

    Examples
    --------
    >>> compressed(np.array([-1.0, 3.0, -48.0])).tolist()
    [-1.0, 3.0, -21.0]
    """
    size = np.abs(z)
    beyond = size > _LINEAR
    if not beyond.any():  # the usual case, without a copy
        return z
    tail = _LINEAR * (2.0 * np.sqrt(np.where(beyond, size, _LINEAR) / _LINEAR) - 1.0)
    return np.where(beyond, np.copysign(tail, z), z)


def expanded(u: Floats) -> Floats:
    """Return the z that `compressed` maps to u."""
    size = np.abs(u)
    tail = _LINEAR * ((np.maximum(size, _LINEAR) / _LINEAR + 1.0) / 2.0) ** 2
    return np.where(size > _LINEAR, np.copysign(tail, u), u)


def rarity(shares: Floats) -> Floats:
    """Return the distance Φ⁻¹(1 − p/2) that a share p of a normal distribution exceeds."""
    return np.asarray(-ndtri(np.asarray(shares) / 2), dtype=np.float64)
