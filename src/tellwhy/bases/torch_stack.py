"""Bases trained side by side in PyTorch: one tensor holds a layer of several bases, padded to the widest.

PyTorch is imported when a function runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tellwhy.bases.feature_map import FeatureMap
from tellwhy.bases.projections import DenseProjection, HadamardProjection, Projection
from tellwhy.bases.torch_features import Tensor, structured_projections, structured_waves, wave_features
from tellwhy.core.score_function import Floats


@dataclass
class BasisStack:
    """E bases of one kernel, layer by layer.

    `layers[l]` has shape (E, inputs, directions), or (E, copies, k, p) for structured projections.
    `gains[l]`, shape (E, 1, features), is √(2/D) where a basis has a feature and 0 in its padding. Rows come
    in divided by the bandwidth, which stays a fixed factor: only the projections are trained.
    """

    maps: Sequence[FeatureMap]
    layers: list[Tensor]
    gains: list[Tensor]

    @classmethod
    def of(cls, maps: Sequence[FeatureMap], device: str) -> BasisStack:
        """Stack bases that differ in their draws and numbers of features only."""
        depth = len(maps[0].layers)
        layers = [_stacked([m.layers[i] for m in maps], device) for i in range(depth)]
        gains = [
            _gains([m.layers[i].n_directions for m in maps], maps[0].kernel, device) for i in range(depth)
        ]
        return cls(maps, layers, gains)

    def __len__(self) -> int:
        return len(self.maps)

    def features(self, Z: Tensor) -> Tensor:
        """φ of rows (b, d), shape (E, b, features)."""
        x = Z.expand(len(self), *Z.shape)
        apply = self._waves if self.maps[0].kernel == "gaussian" else self._rectified
        for index, gain in enumerate(self.gains):
            x = apply(x, index, gain)
        return x

    def _waves(self, x: Tensor, index: int, gain: Tensor) -> Tensor:
        layer, first = self.layers[index], self.maps[0].layers[index]
        if isinstance(first, DenseProjection):
            return wave_features(x.bmm(layer), gain)
        return structured_waves(x, layer, first.factor, gain)

    def _rectified(self, x: Tensor, index: int, gain: Tensor) -> Tensor:
        layer, first = self.layers[index], self.maps[0].layers[index]
        if isinstance(first, DenseProjection):
            return x.bmm(layer).relu() * gain
        return structured_projections(x, layer, first.factor).flatten(2)[..., : gain.shape[-1]].relu() * gain

    def member(self, index: int) -> FeatureMap:
        """Return one basis as a feature map."""
        old = self.maps[index]
        new = [_cut(layer[index].detach().cpu().double().numpy(), was) for layer, was in self._pairs(index)]
        return replace(old, layers=tuple(new))

    def _pairs(self, index: int) -> list[tuple[Tensor, Projection]]:
        return list(zip(self.layers, self.maps[index].layers, strict=True))


def _stacked(projections: Sequence[Projection], device: str) -> Tensor:
    import torch

    arrays = [p.matrix if isinstance(p, DenseProjection) else p.diagonals for p in projections]
    shape = tuple(max(a.shape[axis] for a in arrays) for axis in range(arrays[0].ndim))
    held = np.zeros((len(arrays), *shape), dtype=np.float32)
    for place, array in zip(held, arrays, strict=True):
        place[tuple(slice(size) for size in array.shape)] = array
    return torch.tensor(held, device=device, requires_grad=True)


def _gains(widths: Sequence[int], kernel: str, device: str) -> Tensor:
    import torch

    halves = 2 if kernel == "gaussian" else 1
    # Features in the padding are multiplied by 0: no loss depends on them, and none of their weights move.
    gains = np.zeros((len(widths), halves, max(widths)), dtype=np.float32)
    for gain, width in zip(gains, widths, strict=True):
        gain[:, :width] = np.sqrt(2.0 / (halves * width))
    return torch.tensor(gains.reshape(len(widths), 1, -1), device=device)


def _cut(array: Floats, was: Projection) -> Projection:
    if isinstance(was, HadamardProjection):
        return replace(was, diagonals=array[: len(was.diagonals)].copy())
    return DenseProjection(array[: was.n_inputs, : was.n_directions].copy())
