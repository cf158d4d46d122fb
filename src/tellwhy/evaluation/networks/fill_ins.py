"""What is painted over the regions of an input that are taken away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats
from tellwhy.evaluation.networks.regions import Regions

# From inputs X (n, *shape) to what broadcasts against them. Channels are filled in one by one: axes that are
# not cut into regions keep their own mean, range and blur.
Filler = Callable[[Floats, Regions, np.random.Generator], Floats]


def _mean(X: Floats, regions: Regions, rng: np.random.Generator) -> Floats:  # noqa: ARG001
    return np.asarray(X.mean(axis=_cut_axes(regions), keepdims=True))


def _zero(X: Floats, regions: Regions, rng: np.random.Generator) -> Floats:  # noqa: ARG001
    return np.zeros((1,) * X.ndim)


def _noise(X: Floats, regions: Regions, rng: np.random.Generator) -> Floats:
    low = X.min(axis=_cut_axes(regions), keepdims=True)
    high = X.max(axis=_cut_axes(regions), keepdims=True)
    return np.asarray(low + (high - low) * rng.random(X.shape))


def _blur(X: Floats, regions: Regions, rng: np.random.Generator) -> Floats:  # noqa: ARG001
    widths = np.zeros(X.ndim)  # of 0: rows and channels are not blurred into each other
    widths[list(_cut_axes(regions))] = regions.sizes
    return np.asarray(gaussian_filter(X, widths, mode="nearest"))


FILL_INS: dict[str, Filler] = {"mean": _mean, "zero": _zero, "noise": _noise, "blur": _blur}


def fill_in(X: Floats, fill: Any, regions: Regions, rng: np.random.Generator) -> Floats:
    """Return what each input X (n, *shape) looks like where everything is painted over.

    Examples
    --------
    >>> from tellwhy.evaluation.networks.regions import tile
    >>> X = np.arange(8.0).reshape(1, 2, 4)
    >>> fill_in(X, "mean", tile((2, 4), (2,)), np.random.default_rng(0))[0, :, 0]
    array([1.5, 5.5])
    """
    if isinstance(fill, str):
        return np.broadcast_to(FILL_INS[fill](X, regions, rng), X.shape)
    given = np.asarray(fill.detach().cpu() if hasattr(fill, "detach") else fill, dtype=np.float64)
    try:
        filled = np.broadcast_to(given, X.shape)
    except ValueError:
        raise InvalidInput(
            f"fill has shape {given.shape}; expected a number, one input {X.shape[1:]} or all of them "
            f"{X.shape}."
        ) from None
    if not np.isfinite(given).all():
        raise InvalidInput(
            "fill is not finite everywhere; regions can only be painted over with finite numbers."
        )
    return filled


def _cut_axes(regions: Regions) -> tuple[int, ...]:
    """Axes of X (n, *shape) that are cut into regions."""
    return tuple(1 + axis for axis in regions.axes)
