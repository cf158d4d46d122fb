"""Windows that are moved over an input, and what each of its cells gets of what they found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import Rule, Rules, integer, none
from tellwhy.core.score_function import Floats
from tellwhy.data.segments import spatial_axes

Sizes = int | Sequence[int] | None


def _is_sizes(value: object) -> bool:
    return (
        isinstance(value, (tuple, list))
        and len(value) > 0
        and all(isinstance(v, (int, np.integer)) and v >= 1 for v in value)
    )


def _is_axes(value: object) -> bool:
    return isinstance(value, (tuple, list)) and all(isinstance(v, (int, np.integer)) for v in value)


WINDOW_PARAMETERS: dict[str, Rules] = {
    "patch": (none, integer(1), Rule("a size of at least 1 for each axis", _is_sizes)),
    "stride": (none, integer(1), Rule("a step of at least 1 for each axis", _is_sizes)),
    "axes": (none, Rule("axes of one input", _is_axes)),
}


@dataclass(frozen=True)
class Windows:
    """Windows of one size on inputs of one shape; those at the far edges are moved back inside.

    Attributes
    ----------
    shape
        Of one input.
    starts
        First place of each window along each axis, shape (n_windows, n_axes).
    sizes
        Length along each axis: the whole axis where windows are not moved along it.
    """

    shape: tuple[int, ...]
    starts: NDArray[np.int64]
    sizes: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.starts)

    def cells(self, part: slice) -> NDArray[np.bool_]:
        """Which cells some of the windows cover, shape (windows, cells)."""
        starts = self.starts[part]
        covered = np.ones((len(starts), *[1] * len(self.shape)), dtype=bool)
        for axis, (length, size) in enumerate(zip(self.shape, self.sizes, strict=True)):
            place = np.arange(length)
            first = starts[:, axis, None]
            inside = (place >= first) & (place < first + size)
            along = [1] * len(self.shape)
            along[axis] = length
            covered = covered & inside.reshape(len(starts), *along)
        return covered.reshape(len(starts), -1)

    def around(self, number: int, margin: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Cells of one window, and those that surround it up to a margin along the axes it moves on."""
        inside = np.zeros(self.shape, dtype=bool)
        near = np.zeros(self.shape, dtype=bool)
        start = self.starts[number]
        inside[tuple(slice(s, s + n) for s, n in zip(start, self.sizes, strict=True))] = True
        near[
            tuple(slice(max(0, s - margin), s + n + margin) for s, n in zip(start, self.sizes, strict=True))
        ] = True
        return inside.ravel(), (near & ~inside).ravel()

    def per_cell(self, found: Floats) -> Floats:
        """Give each cell the mean, over the windows that cover it, of its even share of what they found.

        `found` has one number per window; the shares of one that overlaps with none add up to its number.
        """
        size = int(np.prod(self.sizes))
        counts = self._added(np.ones(len(self)))
        return np.divide(
            self._added(found / size), counts, out=np.zeros(int(np.prod(self.shape))), where=counts > 0
        )

    def error_per_cell(self, errors: Floats) -> Floats:
        """The same for independent standard errors of the windows."""
        size = int(np.prod(self.sizes))
        counts = self._added(np.ones(len(self)))
        spread = np.sqrt(self._added(np.square(errors / size)))
        return np.divide(spread, counts, out=np.zeros_like(spread), where=counts > 0)

    def _added(self, found: Floats) -> Floats:
        total = np.zeros(self.shape)
        for start, number in zip(self.starts, found, strict=True):
            total[tuple(slice(s, s + n) for s, n in zip(start, self.sizes, strict=True))] += number
        return total.ravel()


def windows(
    shape: tuple[int, ...], patch: Sizes, stride: Sizes = None, axes: Sequence[int] | None = None
) -> Windows:
    """Windows of a size, moved by a stride, over inputs of a shape.

    Parameters
    ----------
    shape
        Of one input.
    patch
        Length along each of `axes`; one number stands for all of them; None: single cells of those axes.
    stride
        Step along each of them; None: the size of the patch, so that windows do not overlap.
    axes
        Axes that windows move along; by default those of a picture's places (channels come first or last), of
        a sequence its one axis. All other axes are covered as a whole.

    Examples
    --------
    >>> windows((1, 4, 5), (2, 3)).starts.tolist()
    [[0, 0, 0], [0, 0, 2], [0, 2, 0], [0, 2, 2]]
    """
    chosen = spatial_axes(shape) if axes is None else tuple(int(a) % len(shape) for a in axes)
    if (
        len(set(chosen)) != len(chosen)
        or not chosen
        or (axes is not None and max(map(abs, axes)) > len(shape))
    ):
        raise InvalidParameter(f"axes={axes!r} do not fit inputs of shape {shape}: name each axis once.")
    sizes = _each(1 if patch is None else patch, chosen, "patch", shape)
    steps = sizes if stride is None else _each(stride, chosen, "stride", shape)
    lengths = list(shape)
    starts: list[list[int]] = [[0] for _ in shape]
    for axis, size, step in zip(chosen, sizes, steps, strict=True):
        lengths[axis] = min(size, shape[axis])
        last = shape[axis] - lengths[axis]
        starts[axis] = sorted({min(place, last) for place in range(0, last + step, step)})
    return Windows(tuple(shape), np.array(list(product(*starts)), dtype=np.int64), tuple(lengths))


def _each(given: int | Sequence[int], axes: Sequence[int], name: str, shape: tuple[int, ...]) -> list[int]:
    """One number for each axis."""
    listed = [given] * len(axes) if isinstance(given, (int, np.integer)) else list(given)
    if len(listed) != len(axes):
        raise InvalidParameter(
            f"{name}={given!r} has {len(listed)} numbers for {len(axes)} axes {tuple(axes)} of inputs of "
            f"shape {shape}: give one number, or one per axis, and say which with axes=…."
        )
    return [int(number) for number in listed]
