"""Outlierness of images and series: the sum over their patches, scored in threads or on a device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.progress import track
from tellwhy.core.running import choose_device, in_threads
from tellwhy.core.score import Floats, HasGradient, LeavesRowsOut
from tellwhy.data.pieces import PatchRows, Piece, Windows
from tellwhy.scoring.function_scores import read_array_rows
from tellwhy.scoring.one_class_torch import DevicePoints, base_values

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
        self.device = choose_device(device, "patches on a device")
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
        X = self._move_to_device(inputs)
        for piece, points in self._split_into_tasks(inputs, "scoring patches"):
            found = points.scores(self._cut(X, piece), unseen=unseen)
            place = maps[(piece.inputs, *piece.positions)]
            place += found.reshape(place.shape)
        return _numbers(maps, torch)

    def relevance(self, inputs: Floats) -> dict[str, Any]:
        """Relevance of every cell, scores and base values of every patch, and how many left their own out."""
        import torch

        X = self._move_to_device(inputs)
        values: Any = torch.zeros_like(X)
        maps = self._maps(inputs)
        bases = np.zeros(maps.shape)
        n_left_out = 0
        for piece, points in self._split_into_tasks(inputs, "explaining patches"):
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

        X = self._move_to_device(inputs)
        there = torch.as_tensor(np.ascontiguousarray(is_there), device=self.device)
        there = (there[..., None] if X.ndim > there.ndim else there).expand_as(X).double()
        totals = torch.zeros(len(inputs), dtype=torch.float64, device=self.device)
        for piece, points in self._split_into_tasks(inputs, "flipping"):
            rows = self._cut(X, piece)
            kept = torch.ones_like(rows)
            cells = _cut(there, self._rules.windows, piece)
            kept[:, : cells.shape[1]] = cells  # the place of a patch, where it counts, stays
            found = points.masked_scores(rows, kept).double()
            totals[piece.inputs] += found.reshape(len(totals[piece.inputs]), -1).sum(dim=1)
        return _numbers(totals, torch)

    def _move_to_device(self, inputs: Floats) -> Tensor:
        import torch

        return torch.as_tensor(self._rules.prepared(inputs), device=self.device)

    def _maps(self, inputs: Floats) -> Tensor:
        import torch

        grid = self._rules.windows.grid(inputs.shape[1:])
        return torch.zeros((len(inputs), *grid), dtype=torch.float64, device=self.device)

    def _split_into_tasks(self, inputs: Floats, label: str) -> Iterator[tuple[Piece, DevicePoints]]:
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


class PatchScore:
    """O(x) = Σ_t o(patch t): one score of patches for all positions, one for each, or one for each channel.

    Parameters
    ----------
    inner
        The score of patches; several where every position, or every channel, has its own, in their order.
    patch_rows
        How inputs become rows.
    shape
        Shape of the inputs of the fit; with one score per position, the only one there is.
    threshold
        Score above which an input is anomalous.
    by
        What there are several scores for: "position" or "channel"; "" where there is one.
    device, dtype
        Where patches are scored and explained: by threads here, or by PyTorch on a device.
    """

    feature_names = None
    any_shape = True

    def __init__(
        self,
        inner: list[Any],
        patch_rows: PatchRows,
        shape: tuple[int, ...],
        threshold: float | None,
        *,
        by: str = "",
        device: str = "cpu",
        dtype: str = "float64",
    ):
        self.inner = inner
        self.patch_rows = patch_rows
        self.shape = shape
        self.threshold = threshold
        self.by = by
        self.on_device = None if device == "cpu" else DevicePatches(self, device, dtype)
        # series without channels are rows of a table of any length, which a known shape would not allow
        self.feature_shape = None
        if all(isinstance(score, HasGradient) for score in inner):
            self.gradient = self._sum_gradient

    @property
    def describes(self) -> str:
        """Which scalar it is."""
        return f"sum over patches of the {self.inner[0].describes}"

    def pieces_and_scores(self, shape: tuple[int, ...], most: int | None = None) -> list[tuple[Piece, Any]]:
        """Return the pieces that inputs of a shape are cut into, each with the score of its patches."""
        windows = self.patch_rows.windows
        if self.by == "position":
            return list(zip(windows.places(shape), self.inner, strict=True))
        pieces = windows.pieces(shape) if most is None else windows.pieces(shape, most)
        if self.by == "channel":
            return [(replace(p, channel=c), score) for c, score in enumerate(self.inner) for p in pieces]
        return [(piece, self.inner[0]) for piece in pieces]

    def value(self, X: Any) -> Floats:
        """Return the sum over the patches of each input."""
        maps = self.positions(X)
        return np.asarray(maps.reshape(len(maps), -1).sum(axis=1))

    def positions(self, X: Any, *, unseen: bool = False) -> Floats:
        """Return the score of each patch, shape (n, *grid); `unseen`: trained patches without themselves."""
        inputs = self.checked(X)
        if self.on_device is not None:
            return self.on_device.positions(inputs, unseen=unseen)
        prepared = self.patch_rows.prepared(inputs)
        maps = np.zeros((len(inputs), *self.patch_rows.windows.grid(inputs.shape[1:])))

        tasks = self.pieces_and_scores(inputs.shape)

        def score_piece(task: tuple[Piece, Any]) -> Floats:
            piece, score = task
            rows = self.patch_rows.cut(prepared, piece)
            left_out = (score.match(rows),) if unseen and isinstance(score, LeavesRowsOut) else ()
            return np.asarray(score.value(rows, *left_out))

        for (piece, _), found in zip(tasks, in_threads(score_piece, tasks, "scoring patches"), strict=True):
            place = maps[(piece.inputs, *piece.positions)]
            place += found.reshape(place.shape)  # of channels with a model each, the sum
        return maps

    def _sum_gradient(self, X: Any) -> Floats:
        inputs = self.checked(X)
        prepared = self.patch_rows.prepared(inputs)
        tasks = self.pieces_and_scores(inputs.shape)

        def slopes(task: tuple[Piece, Any]) -> Floats:
            return np.asarray(task[1].gradient(self.patch_rows.cut(prepared, task[0])))

        total = np.zeros(inputs.shape)
        for task, found in zip(tasks, in_threads(slopes, tasks, "computing gradients"), strict=True):
            self.patch_rows.fold(total, found, task[0])
        return total / self.patch_rows.scale

    def checked(self, X: Any) -> Floats:
        """Return inputs as finite numbers of a shape that the model can be asked about."""
        inputs = read_array_rows(X)
        n_axes = len(self.patch_rows.windows.size)
        is_fixed = self.by == "position"
        fixed = inputs.shape[1:] if is_fixed else inputs.shape[1 + n_axes :]
        wanted = self.shape if is_fixed else self.shape[n_axes:]
        if fixed != wanted or inputs.ndim != 1 + len(self.shape):
            raise InvalidInput(
                f"X holds inputs of shape {inputs.shape[1:]}; the model was fitted on {self.shape}"
                + (", with one model per position." if is_fixed else ", any size of the axes.")
            )
        self.patch_rows.windows.grid(inputs.shape[1:])
        return inputs
