"""Patches cut, scored and put back on a device: PyTorch does what `PatchScore` does with threads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from tellwhy.core.progress import track
from tellwhy.core.score_function import Floats
from tellwhy.core.torch_devices import actual_device
from tellwhy.data.patch_rows import PatchRows
from tellwhy.data.patches import Piece, Windows
from tellwhy.detectors.patches.device_points import DevicePoints, base_values

Tensor = Any
MEMORY = 2**31  # bytes of distances that are held at once


class DevicePatches:
    """The patches of a `PatchScore` on a device.

    Parameters
    ----------
    score
        The score of whole inputs.
    device
        "cuda", or "auto" for it where there is one.
    dtype
        "float64", or "float32" for devices that are slow in double precision.
    memory
        Bytes of distances that are held at once.
    """

    def __init__(self, score: Any, device: str, dtype: str = "float64", *, memory: int = MEMORY):
        self.score = score
        self.device = actual_device(device, "patches on a device")
        self.dtype = dtype
        self.memory = memory

    @cached_property
    def _points(self) -> dict[int, DevicePoints]:
        return {id(inner): DevicePoints(inner, self.device, self.dtype) for inner in self.score.inner}

    @property
    def _rules(self) -> PatchRows:
        rules: PatchRows = self.score.patch_rows
        return rules

    def positions(self, inputs: Floats, *, unseen: bool = False) -> Floats:
        """Return the score of each patch, shape (n, *grid)."""
        import torch

        maps = self._maps(inputs)
        X = self._on_device(inputs)
        for piece, points in self._tasks(inputs, "scoring patches"):
            found = points.scores(self._cut(X, piece), unseen=unseen)
            place = maps[(piece.inputs, *piece.positions)]
            place += found.reshape(place.shape)
        return _numbers(maps, torch)

    def relevance(self, inputs: Floats) -> dict[str, Any]:
        """Relevance of every cell, scores and base values of every patch, and how many left their own out."""
        import torch

        X = self._on_device(inputs)
        values: Any = torch.zeros_like(X)
        maps = self._maps(inputs)
        bases = np.zeros(maps.shape)
        n_left_out = 0
        for piece, points in self._tasks(inputs, "explaining patches"):
            found = points.relevance(self._cut(X, piece))
            self._rules.fold(values, found.values.double(), piece)
            at = (piece.inputs, *piece.positions)
            place = maps[at]
            place += found.scores.reshape(place.shape)
            bases[at] += base_values(points.score, found.skipped).reshape(place.shape)
            n_left_out += int((found.skipped >= 0).sum())
        return {
            "values": _numbers(values, torch),
            "positions": _numbers(maps, torch),
            "base": bases.reshape(len(inputs), -1).sum(axis=1),
            "left_out": n_left_out,
        }

    def masked_sums(self, inputs: Floats, is_there: Any) -> Floats:
        """Score of each input whose absent cells differ from no support point."""
        import torch

        X = self._on_device(inputs)
        there = torch.as_tensor(np.ascontiguousarray(is_there), device=self.device)
        there = (there[..., None] if X.ndim > there.ndim else there).expand_as(X).double()
        totals = torch.zeros(len(inputs), dtype=torch.float64, device=self.device)
        for piece, points in self._tasks(inputs, "flipping"):
            rows = self._cut(X, piece)
            kept = torch.ones_like(rows)
            cells = _cut(there, self._rules.windows, piece)
            kept[:, : cells.shape[1]] = cells  # the place of a patch, where it counts, stays
            found = points.masked_scores(rows, kept).double()
            totals[piece.inputs] += found.reshape(len(totals[piece.inputs]), -1).sum(dim=1)
        return _numbers(totals, torch)

    def _on_device(self, inputs: Floats) -> Tensor:
        import torch

        return torch.as_tensor(self._rules.prepared(inputs), device=self.device)

    def _maps(self, inputs: Floats) -> Tensor:
        import torch

        grid = self._rules.windows.grid(inputs.shape[1:])
        return torch.zeros((len(inputs), *grid), dtype=torch.float64, device=self.device)

    def _tasks(self, inputs: Floats, label: str) -> Iterator[tuple[Piece, DevicePoints]]:
        """Pieces of as many patches as memory allows, each with the points of its score."""
        most = max(len(points.points) + 4 * points.points.shape[1] for points in self._points.values())
        tasks = self.score.pieces_and_scores(inputs.shape, max(1, self.memory // (40 * most)))
        for piece, inner in track(tasks, len(tasks), label):
            yield piece, self._points[id(inner)]

    def _cut(self, X: Tensor, piece: Piece) -> Tensor:
        import torch

        rows = _cut(X, self._rules.windows, piece)
        if not self._rules.position_weight:
            return rows
        corners = self._rules.windows.corners(tuple(X.shape), piece)
        places = torch.as_tensor(self._rules.places(corners, tuple(X.shape)), device=self.device)
        return torch.hstack([rows, places])


def _cut(X: Tensor, windows: Windows, piece: Piece) -> Tensor:
    """One row per patch, its channels last; X has the rows first."""
    part = X[windows.covered(piece)]
    n_axes = len(windows.size)
    for axis, size in enumerate(windows.size, start=1):
        part = part.unfold(axis, size, windows.stride)
    # (n, positions…, channels…, patch…) → (n, positions…, patch…, channels…)
    channels = range(1 + n_axes, part.ndim - n_axes)
    patch = range(part.ndim - n_axes, part.ndim)
    ordered = part.permute(*range(1 + n_axes), *patch, *channels)
    n_rows = int(np.prod(ordered.shape[: 1 + n_axes]))
    return ordered.reshape(n_rows, -1)


def _numbers(tensor: Tensor, torch: Any) -> Floats:
    """A tensor as an array of double precision in the main memory."""
    return np.asarray(tensor.to(torch.float64).cpu().numpy())
