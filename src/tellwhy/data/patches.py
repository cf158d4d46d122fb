"""Windows of sequences and patches of images: cut out, and put back where they were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats, Integers

PIECE = 2_048  # patches that are dealt with at once: memory stays bounded, and every core gets some


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


@dataclass(frozen=True)
class Piece:
    """Some positions of some inputs, of all channels or of one: the patches that are dealt with at once."""

    inputs: slice
    positions: tuple[slice, ...]
    channel: int | None = None


@dataclass(frozen=True)
class Windows:
    """Where the patches of inputs (n, *axes[, channels]) lie: their size along each axis, and the step.

    Examples
    --------
    >>> windows = Windows((3,), 1)
    >>> X = np.arange(10.0).reshape(2, 5)
    >>> pieces = windows.pieces(X.shape)
    >>> windows.cut(X, pieces[0]).shape
    (6, 3)
    """

    size: tuple[int, ...]
    stride: int

    def grid(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Number of positions along each axis of one input."""
        return patch_grid(shape, self.size, self.stride)

    def pieces(self, shape: Sequence[int], most: int = PIECE) -> list[Piece]:
        """Cut inputs of shape (n, …) into pieces of about `most` patches."""
        n = shape[0]
        grid = self.grid(shape[1:])
        rest = tuple(slice(0, g) for g in grid[1:])
        together = most // int(np.prod(grid))
        if together >= 1:
            everywhere = (slice(0, grid[0]), *rest)
            return [Piece(slice(i, min(i + together, n)), everywhere) for i in range(0, n, together)]
        band = max(1, most // int(np.prod(grid[1:])))
        bands = [slice(a, min(a + band, grid[0])) for a in range(0, grid[0], band)]
        return [Piece(slice(i, i + 1), (rows, *rest)) for i in range(n) for rows in bands]

    def places(self, shape: Sequence[int]) -> list[Piece]:
        """One piece per position: that patch of every input."""
        everyone = slice(0, shape[0])
        corners = np.ndindex(*self.grid(shape[1:]))
        return [Piece(everyone, tuple(slice(c, c + 1) for c in corner)) for corner in corners]

    def cut(self, X: Floats, piece: Piece) -> Floats:
        """Return the patches of a piece, one per row, channels included."""
        return self._as_rows(self._windows(X[self.covered(piece)], self.stride))

    def sample(self, X: Floats, chosen: Integers) -> Floats:
        """Return patches by their numbers, counted over all inputs and positions."""
        grid = self.grid(X.shape[1:])
        place = np.unravel_index(chosen, (len(X), *grid))
        corners = tuple(at * self.stride for at in place[1:])
        taken = self._windows(X, 1)[(place[0], *corners)]  # (chosen, channels…, patch…)
        n_axes = len(self.size)
        channels = range(1, taken.ndim - n_axes)
        order = (0, *range(taken.ndim - n_axes, taken.ndim), *channels)
        return np.ascontiguousarray(taken.transpose(order).reshape(len(chosen), -1))

    def fold(self, total: Floats, values: Floats, piece: Piece) -> None:
        """Add what each patch of a piece has for its cells to `total`, which is shaped like the inputs."""
        part = total[self.covered(piece)]
        counts = tuple(at.stop - at.start for at in piece.positions)
        channels = part.shape[1 + len(self.size) :]
        shaped = values.reshape(len(part), *counts, *self.size, *channels)
        whole = (slice(None),) * (1 + len(counts))
        for offset in np.ndindex(*self.size):  # few cells of a patch, many positions: each step adds all
            steps = zip(offset, counts, strict=True)
            covered = tuple(slice(o, o + self.stride * (n - 1) + 1, self.stride) for o, n in steps)
            part[(slice(None), *covered)] += shaped[whole + offset]

    def corners(self, shape: Sequence[int], piece: Piece) -> Integers:
        """First cell of each patch of a piece along each axis, shape (patches, axes)."""
        axes = [np.arange(at.start, at.stop) * self.stride for at in piece.positions]
        mesh = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        n = len(range(*piece.inputs.indices(shape[0])))
        return np.tile(mesh, (n, 1))

    def covered(self, piece: Piece) -> tuple[slice, ...]:
        """Return where the cells that the patches of a piece cover are."""
        ends = zip(piece.positions, self.size, strict=True)
        covered = (slice(at.start * self.stride, (at.stop - 1) * self.stride + p) for at, p in ends)
        if piece.channel is None:
            return (piece.inputs, *covered)
        return (piece.inputs, *covered, slice(piece.channel, piece.channel + 1))

    def _windows(self, X: Floats, stride: int) -> Any:
        """All windows of inputs, without a copy: (n, positions…, channels…, patch…)."""
        axes = tuple(range(1, 1 + len(self.size)))
        windows = np.lib.stride_tricks.sliding_window_view(X, self.size, axis=axes)
        return windows[(slice(None), *(slice(None, None, stride) for _ in axes))]

    def _as_rows(self, windows: Any) -> Floats:
        """(n, positions…, channels…, patch…) → one row per patch, its channels last."""
        n_axes = len(self.size)
        first = range(1 + n_axes)
        channels = range(1 + n_axes, windows.ndim - n_axes)
        patch = range(windows.ndim - n_axes, windows.ndim)
        ordered = windows.transpose((*first, *patch, *channels))
        return np.ascontiguousarray(ordered.reshape(int(np.prod(ordered.shape[: 1 + n_axes])), -1))
