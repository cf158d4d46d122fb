"""Outlierness of images and series: the sum over their patches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tellwhy.core.capabilities import HasGradient, LeavesRowsOut
from tellwhy.core.errors import InvalidInput
from tellwhy.core.parallel import in_threads
from tellwhy.core.score_function import Floats
from tellwhy.data.patch_rows import PatchRows
from tellwhy.data.patches import Piece
from tellwhy.detectors.patches.device_patches import DevicePatches
from tellwhy.scoring.scores.flat_score import array_rows


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
            self.gradient = self._summed_gradient

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

    def _summed_gradient(self, X: Any) -> Floats:
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
        inputs = array_rows(X)
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
