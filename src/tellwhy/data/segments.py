"""Pieces of one input: segments of images and sequences, and inputs in which some of them are replaced."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tellwhy.core.score_function import Floats, Integers

COMPACTNESS = 0.5  # weight of a segment's diameter against the standard deviation of the pixels
ROUNDS = 10  # of k-means
CHANNELS = (1, 3, 4)  # lengths of an axis of channels: grey, colour, colour with opacity


def spatial_axes(shape: Sequence[int]) -> tuple[int, ...]:
    """Axes along which an input extends; the remaining one, if any, holds channels.

    Examples
    --------
    >>> spatial_axes((3, 32, 32)), spatial_axes((32, 32, 3)), spatial_axes((28, 28)), spatial_axes((100,))
    ((1, 2), (0, 1), (0, 1), (0,))
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
    axes = spatial_axes(x.shape)
    pixels = np.moveaxis(x, axes, range(len(axes)))
    sizes = pixels.shape[: len(axes)]
    values = pixels.reshape(int(np.prod(sizes)), -1)
    lines = [np.arange(size) for size in sizes]
    places = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(len(values), -1)
    step = (len(values) / min(n_segments, len(values))) ** (1 / len(axes))
    spread = values.std() or 1.0
    # Places in units of a segment's diameter, values in units of their spread: the two are comparable then.
    points = np.hstack([places * (COMPACTNESS / step), values / spread])
    label = _k_means(points, _grid(sizes, step))
    numbered = np.unique(label, return_inverse=True)[1].reshape(*sizes, *[1] * (pixels.ndim - len(axes)))
    return np.ascontiguousarray(np.moveaxis(np.broadcast_to(numbered, pixels.shape), range(len(axes)), axes))


def _grid(sizes: Sequence[int], step: float) -> Integers:
    """Flat positions of a regular grid of cells."""
    lines = []
    for size in sizes:
        line = np.arange(step / 2, size, step).astype(np.int64)
        lines.append(np.unique(np.clip(line, 0, size - 1)))
    return np.ravel_multi_index(np.meshgrid(*lines, indexing="ij"), tuple(sizes)).ravel()


def _k_means(points: Floats, starts: Integers) -> Integers:
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


def present_cells(x: Floats, replacement: Floats) -> Integers:
    """Return a segment of its own for each cell that a replacement would change; all others share the last.

    Examples
    --------
    >>> present_cells(np.array([0.0, 2.0, 0.0, 1.0]), np.zeros(4))
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
