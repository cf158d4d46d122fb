"""Windows of sequences and patches of images: cut out, and put back where they were."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats


def patch_grid(shape: Sequence[int], patch: Sequence[int], stride: int = 1) -> tuple[int, ...]:
    """Number of patch positions along each axis.

    Examples
    --------
    >>> patch_grid((28, 28), (7, 7))
    (22, 22)
    """
    if len(patch) > len(shape) or any(p < 1 or p > s for p, s in zip(patch, shape, strict=False)):
        raise InvalidInput(f"A patch of {tuple(patch)} does not fit into an input of shape {tuple(shape)}.")
    return tuple((s - p) // stride + 1 for s, p in zip(shape, patch, strict=False))


def cut_patches(X: Floats, patch: Sequence[int], stride: int = 1) -> Floats:
    """All patches of one input, one per row, channels included: shape (n_positions, patch size × channels).

    Examples
    --------
    >>> cut_patches(np.arange(5.0), (3,))
    array([[0., 1., 2.],
           [1., 2., 3.],
           [2., 3., 4.]])
    """
    axes = tuple(range(len(patch)))
    patch_grid(X.shape, patch, stride)
    windows = np.lib.stride_tricks.sliding_window_view(X, tuple(patch), axis=axes)
    every = windows[tuple(slice(None, None, stride) for _ in axes)]
    # (positions…, channels…, patch…) → (positions…, patch…, channels…)
    n_axes = len(patch)
    n_channels = X.ndim - n_axes
    order = (*axes, *range(n_axes + n_channels, every.ndim), *range(n_axes, n_axes + n_channels))
    ordered = every.transpose(order)
    return np.ascontiguousarray(ordered.reshape(int(np.prod(ordered.shape[:n_axes])), -1))


def put_back(values: Floats, shape: Sequence[int], patch: Sequence[int], stride: int = 1) -> Floats:
    """Add the values of each patch at its position: the transpose of `cut_patches`.

    Examples
    --------
    >>> put_back(np.ones((3, 3)), (5,), (3,))
    array([1., 2., 3., 2., 1.])
    """
    grid = patch_grid(shape, patch, stride)
    channels = tuple(shape[len(patch) :])
    shaped = values.reshape(*grid, *patch, *channels)
    total = np.zeros(tuple(shape))
    for offset in np.ndindex(*patch):  # few cells of a patch, many positions: each step adds all positions
        covered = tuple(slice(o, o + stride * g, stride) for o, g in zip(offset, grid, strict=True))
        total[covered] += shaped[(slice(None),) * len(grid) + offset]
    return total
