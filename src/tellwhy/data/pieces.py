"""Patches of pictures, windows, segments.

Windows of sequences and patches of images: cut out, and put back where they were.

Patches of inputs as the rows of a table: what a model of patches is fitted to and asked about.

Pieces of one input: segments of images and sequences, and inputs in which some of them are replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tellwhy.core.arrays import Capability
from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import Fit, is_whole
from tellwhy.core.score import Floats, Integers, ScoreFunction

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
    grid = patch_grid(X.shape, patch, stride)
    everywhere = Piece(slice(0, 1), tuple(slice(0, g) for g in grid))
    return Windows(tuple(patch), stride).cut(X[None], everywhere)


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
        return self._make_rows(self._cut_windows(X[self.covered(piece)], self.stride))

    def sample(self, X: Floats, chosen: Integers) -> Floats:
        """Return patches by their numbers, counted over all inputs and positions."""
        grid = self.grid(X.shape[1:])
        place = np.unravel_index(chosen, (len(X), *grid))
        corners = tuple(at * self.stride for at in place[1:])
        taken = self._cut_windows(X, 1)[(place[0], *corners)]  # (chosen, channels…, patch…)
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

    def _cut_windows(self, X: Floats, stride: int) -> Any:
        """All windows of inputs, without a copy: (n, positions…, channels…, patch…)."""
        axes = tuple(range(1, 1 + len(self.size)))
        windows = np.lib.stride_tricks.sliding_window_view(X, self.size, axis=axes)
        return windows[(slice(None), *(slice(None, None, stride) for _ in axes))]

    def _make_rows(self, windows: Any) -> Floats:
        """(n, positions…, channels…, patch…) → one row per patch, its channels last."""
        n_axes = len(self.size)
        first = range(1 + n_axes)
        channels = range(1 + n_axes, windows.ndim - n_axes)
        patch = range(windows.ndim - n_axes, windows.ndim)
        ordered = windows.transpose((*first, *patch, *channels))
        return np.ascontiguousarray(ordered.reshape(int(np.prod(ordered.shape[: 1 + n_axes])), -1))

    def _require(self) -> Iterator[Fit]:
        sizes = self.size
        yield "size", isinstance(sizes, tuple) and len(sizes) in (1, 2) and all(map(is_whole, sizes)), True
        yield "stride", is_whole(self.stride), True


@dataclass(frozen=True)
class PatchRows:
    """How inputs (n, *axes[, channels]) become rows.

    Attributes
    ----------
    windows
        Size and step of the patches.
    scale
        Length that each channel is divided by, or one for all.
    position_weight
        What the place of a patch counts beside its cells: 0 for nothing. Rows then end with one column per
        axis, the first cell's place as a share of the axis times this weight.
    """

    windows: Windows
    scale: Floats
    position_weight: float = 0.0

    def prepared(self, X: Floats) -> Floats:
        """Return inputs with their channels divided by their lengths."""
        return X if (self.scale == 1.0).all() else X / self.scale

    def cut(self, X: Floats, piece: Piece) -> Floats:
        """Return the rows of a piece of prepared inputs."""
        rows = self.windows.cut(X, piece)
        return self._join_places(rows, self.windows.corners(X.shape, piece), X.shape)

    def sample(self, X: Floats, chosen: Integers) -> Floats:
        """Return rows of prepared inputs by their numbers, counted over all inputs and positions."""
        place = np.unravel_index(chosen, (len(X), *self.windows.grid(X.shape[1:])))
        corners = np.stack(place[1:], axis=-1) * self.windows.stride
        return self._join_places(self.windows.sample(X, chosen), corners, X.shape)

    def fold(self, total: Floats, values: Floats, piece: Piece) -> None:
        """Add what each row has for its cells to `total`; what the place of a patch has belongs to none."""
        n_places = len(self.windows.size) if self.position_weight else 0
        self.windows.fold(total, values[:, : values.shape[1] - n_places], piece)

    def _join_places(self, rows: Floats, corners: Integers, shape: tuple[int, ...]) -> Floats:
        return np.hstack([rows, self.places(corners, shape)]) if self.position_weight else rows

    def places(self, corners: Integers, shape: tuple[int, ...]) -> Floats:
        """Return the columns that tell where patches are, from their first cells."""
        room = np.maximum(np.array(shape[1 : 1 + corners.shape[1]]) - self.windows.size, 1)
        return np.asarray(self.position_weight * corners / room)

    def _require(self) -> Iterator[Fit]:
        yield "windows", isinstance(self.windows, Windows), True
        yield "scale", isinstance(self.scale, np.ndarray) and self.scale.ndim == 1, True
        yield "scale", bool((self.scale > 0).all()), True
        yield "position_weight", isinstance(self.position_weight, float) and self.position_weight >= 0, True


@runtime_checkable
class HasPatches(ScoreFunction, Protocol, metaclass=Capability):
    """A score of inputs that is the sum of the scores of their patches."""

    @property
    def patch_rows(self) -> PatchRows:
        """How inputs become rows."""
        ...

    def checked(self, X: Any) -> Floats:
        """Return inputs as finite numbers of a shape that the model can be asked about."""
        ...

    def pieces_and_scores(self, shape: tuple[int, ...]) -> list[tuple[Piece, Any]]:
        """Return the pieces that inputs of a shape are cut into, each with the score of its patches."""
        ...


@runtime_checkable
class OnDevice(Protocol, metaclass=Capability):
    """A score of patches that are computed on a device."""

    @property
    def on_device(self) -> Any:
        """What cuts, scores and explains patches there; None where threads do."""
        ...


@runtime_checkable
class HasFeatures(ScoreFunction, Protocol, metaclass=Capability):
    """A score of inputs through the activations of a layer of a network."""

    @property
    def patches(self) -> Any:
        """The score of activations, a sum of the scores of their patches."""
        ...

    @property
    def features(self) -> Any:
        """From inputs to activations, and the network up to the layer."""
        ...

    def checked(self, X: Any) -> Floats:
        """Return inputs as finite numbers of a shape that the network takes."""
        ...


COMPACTNESS = 0.5  # weight of a segment's diameter against the standard deviation of the pixels
ROUNDS = 10  # of k-means
CHANNELS = (1, 3, 4)  # lengths of an axis of channels: grey, colour, colour with opacity


def find_spatial_axes(shape: Sequence[int]) -> tuple[int, ...]:
    """Axes along which an input extends; the remaining one, if any, holds channels.

    Examples
    --------
    >>> find_spatial_axes((3, 32, 32)), find_spatial_axes((32, 32, 3))
    ((1, 2), (0, 1))
    >>> find_spatial_axes((28, 28)), find_spatial_axes((100,))
    ((0, 1), (0,))
    """
    if len(shape) < 3:
        return tuple(range(len(shape)))
    # Channels come first in PyTorch and last elsewhere; an axis of length 1 in front is taken for them, too.
    return (1, 2) if shape[0] in CHANNELS and shape[-1] not in CHANNELS[1:] else (0, 1)


def segment(x: Floats, n_segments: int) -> Integers:
    """Return the segment of each cell of an image or sequence, by k-means of places and values.

    Clusters start from a regular grid, so that the same input has the same segments. Every channel of a pixel
    belongs to the same segment; segments are numbered 0, 1, … without gaps.

    Examples
    --------
    >>> segment(np.array([0.0, 0.0, 0.0, 5.0, 5.0, 5.0]), 2)
    array([0, 0, 0, 1, 1, 1])
    """
    axes = find_spatial_axes(x.shape)
    pixels = np.moveaxis(x, axes, range(len(axes)))
    sizes = pixels.shape[: len(axes)]
    values = pixels.reshape(int(np.prod(sizes)), -1)
    lines = [np.arange(size) for size in sizes]
    places = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(len(values), -1)
    step = (len(values) / min(n_segments, len(values))) ** (1 / len(axes))
    spread = values.std() or 1.0
    # Places in units of a segment's diameter, values in units of their spread: the two are comparable then.
    points = np.hstack([places * (COMPACTNESS / step), values / spread])
    label = _cluster_points(points, _place_grid(sizes, step))
    numbered = np.unique(label, return_inverse=True)[1].reshape(*sizes, *[1] * (pixels.ndim - len(axes)))
    return np.ascontiguousarray(np.moveaxis(np.broadcast_to(numbered, pixels.shape), range(len(axes)), axes))


def _place_grid(sizes: Sequence[int], step: float) -> Integers:
    """Flat positions of a regular grid of cells."""
    lines = []
    for size in sizes:
        line = np.arange(step / 2, size, step).astype(np.int64)
        lines.append(np.unique(np.clip(line, 0, size - 1)))
    return np.ravel_multi_index(np.meshgrid(*lines, indexing="ij"), tuple(sizes)).ravel()


def _cluster_points(points: Floats, starts: Integers) -> Integers:
    """Return the cluster of each point; a cluster that loses all its points stays where it was."""
    centres = points[starts]
    label = np.zeros(len(points), dtype=np.int64)
    for _ in range(ROUNDS):
        distances = (centres**2).sum(axis=1) - 2.0 * points @ centres.T  # less |point|², the same for all
        label = distances.argmin(axis=1)
        counts = np.bincount(label, minlength=len(centres))
        sums = np.stack([np.bincount(label, column, minlength=len(centres)) for column in points.T], axis=1)
        centres = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
    return label


def find_present_cells(x: Floats, replacement: Floats) -> Integers:
    """Return a segment of its own for each cell that a replacement would change; all others share the last.

    Examples
    --------
    >>> find_present_cells(np.array([0.0, 2.0, 0.0, 1.0]), np.zeros(4))
    array([2, 0, 2, 1])
    """
    differs = (x != replacement).ravel()
    label = np.full(differs.size, int(differs.sum()), dtype=np.int64)
    label[differs] = np.arange(int(differs.sum()))
    return label.reshape(x.shape)


def neighbours(x: Floats, replacement: Floats, label: Integers, masks: Floats) -> Floats:
    """Return the input with the lost segments of each mask replaced."""
    keep = masks[:, label.ravel()].reshape(len(masks), *x.shape)
    return np.where(keep > 0, x, replacement)
