"""Features of several bases at once in PyTorch, which is imported when a function runs.

One tensor holds a layer of several bases, padded to the widest. Walsh–Hadamard projections are products with
small matrices; sines and cosines are taken in one pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tellwhy.bases.projections import (
    DEPTHS,
    DenseProjection,
    FeatureMap,
    HadamardProjection,
    LandmarkProjection,
    Projection,
    compute_landmark_features,
    place_landmarks,
)
from tellwhy.core.score import Floats

Tensor = Any
_WHOLE = 128  # up to this size, H_p is one matrix; beyond, the Kronecker product of two
_FUSED = range(256, 8193)  # sizes whose factors suit tensor cores and whose rows fit into registers
_HELD = 4096  # numbers that a program of the fused kernel holds, if rows are shorter than that
_PROGRAMS = 65_535  # that CUDA starts side by side along the rows


class _Shape(NamedTuple):
    """Axes of the diagonals of several bases."""

    bases: int
    copies: int
    blocks: int
    size: int  # p, the padded number of columns


def project_structured(x: Tensor, diagonals: Tensor, factor: float) -> Tensor:
    """H D_1 … H D_k x, times a factor, of rows x in every copy, with H unnormalised.

    Row by row, H_p v = H_a V H_b for v written as a matrix V of a·b = p entries. With the axes in the order
    (copies, a, rows, b) each side is one batched product, and D enters the right one: (V ∘ D) H_b multiplies
    line i of V by diag(D_i) H_b. So the rows are read and written twice for each block, and never transposed.

    Parameters
    ----------
    x
        Rows of E bases, shape (E, n, d).
    diagonals
        Shape (E, copies, k, p), with d ≤ p = 2^m.
    factor
        What the rows are multiplied by.

    Returns
    -------
    Shape (E, n, copies · a, b): a view whose last two axes, flattened, are the copies · p projections.
    """
    from torch.nn.functional import pad

    shape = _Shape(*diagonals.shape)
    n, d = x.shape[1:]
    a, b = _find_factors(shape.size)
    left, right = _make_hadamard_factors(x, a, b)
    rows = pad(x, (0, shape.size - d)) if d < shape.size else x
    v = rows.reshape(shape.bases, 1, n, a, b).transpose(2, 3).expand(shape.bases, shape.copies, a, n, b)
    for block in range(shape.blocks - 1, -1, -1):
        # The factor enters once, and into the smallest of all tensors.
        scaled = factor * right if block == shape.blocks - 1 else right
        lines = diagonals[:, :, block].reshape(-1, b, 1) * scaled  # diag(D_i) H_b, (E · copies · a, b, b)
        v = v.reshape(-1, n, b).bmm(lines)
        if a > 1:
            v = left.expand(shape.bases * shape.copies, a, a).bmm(v.reshape(-1, a, n * b))
    return v.reshape(shape.bases, shape.copies * a, n, b).transpose(1, 2)


def structured_waves(x: Tensor, diagonals: Tensor, factor: float, gain: Tensor) -> Tensor:
    """Wave features of the first projections of `project_structured`, as many as half of `gain` is wide.

    On a graphics card, and where no gradient is wanted, one kernel does it all if Triton is there (PyTorch
    for CUDA brings it).
    """
    width = gain.shape[-1] // 2
    if _can_fuse(x, diagonals):
        return _compute_fused_waves(x, diagonals, factor, gain)
    z = project_structured(x, diagonals, factor)
    # Flattening a view copies it; without directions to leave out, the waves take the view as it is.
    return make_wave_features(z if z.shape[2:].numel() == width else z.flatten(2)[..., :width], gain)


def _can_fuse(x: Tensor, diagonals: Tensor) -> bool:
    import torch

    wants_gradient = torch.is_grad_enabled() and (x.requires_grad or diagonals.requires_grad)
    p = diagonals.shape[-1]
    fits = x.is_cuda and x.dtype == torch.float32 and p in _FUSED and x.shape[1] <= _PROGRAMS * _rows_held(p)
    return bool(fits and not wants_gradient and _works(str(x.device)))


@cache
def _works(device: str) -> bool:
    """Whether Triton, a compiler for what it makes, and a card that it knows are there: tried out once."""
    import torch

    try:
        rows = torch.ones((1, 1, 256), device=device)
        diagonals = torch.ones((1, 1, 1, 256), device=device)
        found = _compute_fused_waves(rows, diagonals, 0.5 / 256, torch.ones((1, 1, 512), device=device))
        return bool(found[0, 0, 0] > 0)
    except Exception:  # whatever is missing, the products give the same features
        return False


def _compute_fused_waves(x: Tensor, diagonals: Tensor, factor: float, gain: Tensor) -> Tensor:
    import torch

    from tellwhy.bases._triton import structured_waves as kernel

    shape = _Shape(*diagonals.shape)
    n, d = x.shape[1:]
    width = gain.shape[-1] // 2
    a, b = _find_factors(shape.size)
    left, right = _make_hadamard_factors(x, a, b)
    held = _rows_held(shape.size)
    out = torch.empty((shape.bases, n, 2 * width), dtype=x.dtype, device=x.device)
    rows = x if x.stride(-1) == 1 else x.contiguous()
    for e in range(shape.bases):
        kernel[shape.copies, -(-n // held)](
            rows[e], rows.stride(1), diagonals[e].contiguous(), left, right, gain[e],
            out[e], n, d, width, factor,
            K=shape.blocks, A=a, B=b, R=held, num_warps=max(_HELD, shape.size) // 1024,
        )  # fmt: skip
    return out


def _rows_held(p: int) -> int:
    """Rows that a program of the fused kernel holds."""
    return max(1, _HELD // p)


def _find_factors(p: int) -> tuple[int, int]:
    """Return a and b with a · b = p: powers of two as equal as they can be, or 1 and p where p is small.

    H_p is the Kronecker product of H_a and H_b. Products with both take p (a + b) steps a row instead of p².
    """
    if p <= _WHOLE:
        return 1, p
    b = 1 << ((p.bit_length() - 1) // 2)
    return p // b, b


def _make_hadamard_factors(x: Tensor, a: int, b: int) -> tuple[Tensor, Tensor]:
    """Return H_a and H_b, placed like x."""
    device = str(x.device)
    return _make_hadamard_matrix(a, device, x.dtype), _make_hadamard_matrix(b, device, x.dtype)


@cache
def _make_hadamard_matrix(size: int, device: str, dtype: Any) -> Tensor:
    import torch

    H = torch.ones((1, 1), device=device, dtype=dtype)
    while len(H) < size:
        H = torch.cat([torch.cat([H, H], 1), torch.cat([H, -H], 1)])
    return H


def make_wave_features(z: Tensor, gain: Tensor) -> Tensor:
    """[sin z, cos z] · gain of projections z, shape (E, n, ...), as features of shape (E, n, 2m).

    `gain` has shape (E, 1, 2m), equal halves. For the gradient, the features themselves are all that is kept:
    ∂/∂z (g sin z) = g cos z and ∂/∂z (g cos z) = −g sin z.
    """
    return _waves().apply(z, gain)


@cache
def _waves() -> Any:
    import torch

    class Waves(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, z: Tensor, gain: Tensor) -> Tensor:
            # Both halves are written where they belong: joining them would read and write all once more.
            out = torch.empty((*z.shape[:2], 2, *z.shape[2:]), dtype=z.dtype, device=z.device)
            torch.sin(z, out=out[:, :, 0])
            torch.cos(z, out=out[:, :, 1])
            features = out.reshape(*z.shape[:2], -1)
            features.mul_(gain)
            ctx.save_for_backward(features)
            ctx.shape = out.shape
            return features

        @staticmethod
        def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
            (features,) = ctx.saved_tensors
            f, u = features.reshape(ctx.shape), upstream.reshape(ctx.shape)
            return torch.addcmul(u[:, :, 0] * f[:, :, 1], u[:, :, 1], f[:, :, 0], value=-1), None

    return Waves


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
            _stacked([_collect_numbers_of(m.layers[i]) / u for m, u in zip(maps, units, strict=True)], device)
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
            return compute_landmark_features(x, points, self.gains[0], first.kernel, DEPTHS[first.kernel])
        apply = self._waves if first.kernel == "gaussian" else self._rectified
        for index, gain in enumerate(self.gains):
            x = apply(x, index, gain)
        return x

    def _waves(self, x: Tensor, index: int, gain: Tensor) -> Tensor:
        layer, first = self.layers[index], self.maps[0].layers[index]
        if isinstance(first, HadamardProjection):
            waves = structured_waves(x, layer, first.factor, gain)
        else:
            waves = make_wave_features(x.bmm(layer), gain)
        # Sine and cosine of a direction share its amplitude.
        return waves if self.amplitudes is None else waves * self.amplitudes.repeat(1, 1, 2)

    def _rectified(self, x: Tensor, index: int, gain: Tensor) -> Tensor:
        layer, first = self.layers[index], self.maps[0].layers[index]
        if isinstance(first, HadamardProjection):
            z = project_structured(x, layer, first.factor).flatten(2)[..., : gain.shape[-1]]
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


def _collect_numbers_of(projection: Projection) -> Floats:
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
        return place_landmarks(array[: was.n_directions].copy(), kernel, DEPTHS[kernel])
    return DenseProjection(array[: was.n_inputs, : was.n_directions].copy())
