"""Bases trained side by side in PyTorch: one tensor holds a layer of several bases, padded to the widest.

PyTorch is imported when a function runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tellwhy.bases.feature_map import DEPTHS, FeatureMap
from tellwhy.bases.landmarks import landmark_features, landmarks_at
from tellwhy.bases.projections import DenseProjection, HadamardProjection, LandmarkProjection, Projection
from tellwhy.bases.torch_features import Tensor, structured_projections, structured_waves, wave_features
from tellwhy.core.score_function import Floats


@dataclass
class BasisStack:
    """E bases of one kernel, layer by layer.

    `layers[l]` has shape (E, inputs, directions), or (E, copies, k, p) for structured projections, or
    (E, points, inputs) for landmarks. `gains[l]`, shape (E, 1, features), is √(2/D) where a basis has a
    feature and 0 in its padding; of landmarks it is 1 and 0. `biases[l]` and `amplitudes`, shape
    (E, 1, directions), are there where the bases have them. Rows come in divided by the bandwidth, which
    stays a fixed factor. Landmarks are held in `units`, their own root mean square: a step of training then
    means the same for them, whatever the data, as for directions, whose entries are near 1.
    """

    maps: Sequence[FeatureMap]
    layers: list[Tensor]
    gains: list[Tensor]
    biases: list[Tensor] = field(default_factory=list)
    amplitudes: Tensor = None
    units: Sequence[float] = ()

    @classmethod
    def of(cls, maps: Sequence[FeatureMap], device: str) -> BasisStack:
        """Stack bases that differ in their draws and numbers of features only."""
        depth = len(maps[0].layers)
        units = [_unit(m.layers[0]) for m in maps]
        layers = [
            _stacked([_numbers_of(m.layers[i]) / u for m, u in zip(maps, units, strict=True)], device)
            for i in range(depth)
        ]
        gains = [_gains([m.layers[i].n_directions for m in maps], maps[0], device) for i in range(depth)]
        biases = [_stacked([m.biases[i][None] for m in maps], device) for i in range(len(maps[0].biases))]
        stack = cls(maps, layers, gains, biases, units=units)
        own = [m.amplitudes[None] for m in maps if m.amplitudes is not None]
        if own:
            stack.amplitudes = _stacked(own, device)
        return stack

    @property
    def trained(self) -> list[Tensor]:
        """What training changes."""
        return [*self.layers, *self.biases, *([] if self.amplitudes is None else [self.amplitudes])]

    def __len__(self) -> int:
        return len(self.maps)

    def features(self, Z: Tensor) -> Tensor:
        """φ of rows (b, d), shape (E, b, features)."""
        x = Z.expand(len(self), *Z.shape)
        first = self.maps[0]
        if first.has_landmarks:
            points = self.layers[0] * self.layers[0].new_tensor(self.units)[:, None, None]
            return landmark_features(x, points, self.gains[0], first.kernel, DEPTHS[first.kernel])
        apply = self._waves if first.kernel == "gaussian" else self._rectified
        for index, gain in enumerate(self.gains):
            x = apply(x, index, gain)
        return x

    def _waves(self, x: Tensor, index: int, gain: Tensor) -> Tensor:
        layer, first = self.layers[index], self.maps[0].layers[index]
        if isinstance(first, HadamardProjection):
            waves = structured_waves(x, layer, first.factor, gain)
        else:
            waves = wave_features(x.bmm(layer), gain)
        # Sine and cosine of a direction share its amplitude.
        return waves if self.amplitudes is None else waves * self.amplitudes.repeat(1, 1, 2)

    def _rectified(self, x: Tensor, index: int, gain: Tensor) -> Tensor:
        layer, first = self.layers[index], self.maps[0].layers[index]
        if isinstance(first, HadamardProjection):
            z = structured_projections(x, layer, first.factor).flatten(2)[..., : gain.shape[-1]]
        else:
            z = x.bmm(layer)
        return (z + self.biases[index] if self.biases else z).relu() * gain

    def member(self, index: int) -> FeatureMap:
        """Return one basis as a feature map."""
        old = self.maps[index]
        unit = self.units[index]
        new = [_cut(unit * _array(layer[index]), was, old.kernel) for layer, was in self._pairs(index)]
        lengths = [layer.n_directions for layer in old.layers]
        biases = [_array(b[index, 0])[:n].copy() for b, n in zip(self.biases, lengths, strict=False)]
        amplitudes = old.amplitudes
        if self.amplitudes is not None:
            amplitudes = _array(self.amplitudes[index, 0])[: lengths[-1]].copy()
        return replace(old, layers=tuple(new), biases=tuple(biases), amplitudes=amplitudes)

    def _pairs(self, index: int) -> list[tuple[Tensor, Projection]]:
        return list(zip(self.layers, self.maps[index].layers, strict=True))


def _array(tensor: Tensor) -> Floats:
    found: Floats = tensor.detach().cpu().double().numpy()
    return found


def _unit(projection: Projection) -> float:
    """What the numbers of a projection are divided by while it is trained."""
    if not isinstance(projection, LandmarkProjection):
        return 1.0
    return float(np.sqrt((projection.points**2).mean())) or 1.0


def _numbers_of(projection: Projection) -> Floats:
    """Return what training changes of a projection."""
    if isinstance(projection, LandmarkProjection):
        return projection.points
    return projection.matrix if isinstance(projection, DenseProjection) else projection.diagonals


def _stacked(arrays: Sequence[Floats], device: str) -> Tensor:
    import torch

    shape = tuple(max(a.shape[axis] for a in arrays) for axis in range(arrays[0].ndim))
    held = np.zeros((len(arrays), *shape), dtype=np.float32)
    for place, array in zip(held, arrays, strict=True):
        place[tuple(slice(size) for size in array.shape)] = array
    return torch.tensor(held, device=device, requires_grad=True)


def _gains(widths: Sequence[int], one: FeatureMap, device: str) -> Tensor:
    import torch

    halves = 2 if one.has_waves else 1
    # Features in the padding are multiplied by 0: no loss depends on them, and none of their weights move.
    gains = np.zeros((len(widths), halves, max(widths)), dtype=np.float32)
    for gain, width in zip(gains, widths, strict=True):
        gain[:, :width] = 1.0 if one.has_landmarks else np.sqrt(2.0 / (halves * width))
    return torch.tensor(gains.reshape(len(widths), 1, -1), device=device)


def _cut(array: Floats, was: Projection, kernel: str) -> Projection:
    if isinstance(was, HadamardProjection):
        return replace(was, diagonals=array[: len(was.diagonals)].copy())
    if isinstance(was, LandmarkProjection):
        return landmarks_at(array[: was.n_directions].copy(), kernel, DEPTHS[kernel])
    return DenseProjection(array[: was.n_inputs, : was.n_directions].copy())
