"""Cutting images and other arrays into regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.score_function import Floats, Integers


@dataclass(frozen=True)
class Regions:
    """Regions of one input.

    `index` holds the number of each cell's region and has the shape of one input, with length 1 along axes
    that are not cut; `sizes` are the lengths of a region along `axes`.
    """

    index: Integers
    count: int
    axes: tuple[int, ...]
    sizes: tuple[int, ...]

    def sums(self, values: Floats) -> Floats:
        """Sum of values (n, *shape) over each region and all other axes, shape (n, count)."""
        others = tuple(1 + axis for axis in range(values.ndim - 1) if axis not in self.axes)
        flat = values.sum(axis=others).reshape(len(values), -1)
        numbers = self.index.ravel()
        return np.stack([np.bincount(numbers, weights=row, minlength=self.count) for row in flat])


def tile(shape: tuple[int, ...], region: int | Sequence[int], axes: Sequence[int] | None = None) -> Regions:
    """Cut inputs of a shape into regions of equal size; those at the far edges may be smaller.

    Examples
    --------
    >>> tile((3, 4, 5), (2, 3)).index[0]
    array([[0, 0, 0, 1, 1],
           [0, 0, 0, 1, 1],
           [2, 2, 2, 3, 3],
           [2, 2, 2, 3, 3]])
    """
    sizes = _sizes(region, shape, axes)
    n_axes = len(shape)
    given = range(n_axes - len(sizes), n_axes) if axes is None else axes
    chosen = tuple(int(a) + n_axes if a < 0 else int(a) for a in given)
    is_each_once = len(set(chosen)) == len(chosen) == len(sizes)
    if not is_each_once or not all(0 <= a < n_axes for a in chosen):
        raise InvalidParameter(
            f"region={region!r} and axes={axes!r} do not fit inputs of shape {shape}: give one size per "
            "axis, and each axis once."
        )
    cuts = sorted(zip(chosen, sizes, strict=True))
    index = np.zeros([1] * n_axes, dtype=np.int64)
    for axis, size in cuts:
        numbers = np.arange(shape[axis]) // size
        along = [1] * n_axes
        along[axis] = shape[axis]
        # Like digits: regions along this axis count fastest, those along earlier axes slower.
        index = index * (int(numbers[-1]) + 1) + numbers.reshape(along)
    return Regions(
        index=index,
        count=int(index.max()) + 1,
        axes=tuple(axis for axis, _ in cuts),
        sizes=tuple(size for _, size in cuts),
    )


def _sizes(region: Any, shape: tuple[int, ...], axes: Sequence[int] | None) -> tuple[int, ...]:
    """Length of a region along each axis that is cut: one number stands for all of them, two axes at most."""
    n_axes = len(axes) if axes is not None else min(2, len(shape))
    sizes = (region,) * n_axes if np.ndim(region) == 0 else tuple(region)
    if not sizes or not all(isinstance(size, (int, np.integer)) and size >= 1 for size in sizes):
        raise InvalidParameter(
            "The 'region' parameter must be a whole number of cells, at least 1, or one per axis. Got "
            f"{region!r} instead."
        )
    if axes is None and len(sizes) > len(shape):
        if len(shape) == 1 and len(set(sizes)) == 1:
            return sizes[:1]  # the default (8, 8), for a sequence
        raise InvalidParameter(f"region={region!r} has more sizes than inputs of shape {shape} have axes.")
    return tuple(int(size) for size in sizes)
