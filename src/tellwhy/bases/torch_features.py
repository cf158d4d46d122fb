"""Fast features in PyTorch: Walsh–Hadamard projections by small matrices, sines and cosines in one pass.

PyTorch is imported when a function runs.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

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


def structured_projections(x: Tensor, diagonals: Tensor, factor: float) -> Tensor:
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
    a, b = _factors(shape.size)
    left, right = _hadamard_factors(x, a, b)
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
    """Wave features of the first projections of `structured_projections`, as many as half of `gain` is wide.

    On a graphics card, and where no gradient is wanted, one kernel does it all if Triton is there (PyTorch
    for CUDA brings it).
    """
    width = gain.shape[-1] // 2
    if _can_fuse(x, diagonals):
        return _fused_waves(x, diagonals, factor, gain)
    z = structured_projections(x, diagonals, factor)
    # Flattening a view copies it; without directions to leave out, the waves take the view as it is.
    return wave_features(z if z.shape[2:].numel() == width else z.flatten(2)[..., :width], gain)


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
        found = _fused_waves(rows, diagonals, 0.5 / 256, torch.ones((1, 1, 512), device=device))
        return bool(found[0, 0, 0] > 0)
    except Exception:  # whatever is missing, the products give the same features
        return False


def _fused_waves(x: Tensor, diagonals: Tensor, factor: float, gain: Tensor) -> Tensor:
    import torch

    from tellwhy.bases._triton import structured_waves as kernel

    shape = _Shape(*diagonals.shape)
    n, d = x.shape[1:]
    width = gain.shape[-1] // 2
    a, b = _factors(shape.size)
    left, right = _hadamard_factors(x, a, b)
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


def _factors(p: int) -> tuple[int, int]:
    """Return a and b with a · b = p: powers of two as equal as they can be, or 1 and p where p is small.

    H_p is the Kronecker product of H_a and H_b. Products with both take p (a + b) steps a row instead of p².
    """
    if p <= _WHOLE:
        return 1, p
    b = 1 << ((p.bit_length() - 1) // 2)
    return p // b, b


def _hadamard_factors(x: Tensor, a: int, b: int) -> tuple[Tensor, Tensor]:
    """Return H_a and H_b, placed like x."""
    device = str(x.device)
    return _hadamard_matrix(a, device, x.dtype), _hadamard_matrix(b, device, x.dtype)


@cache
def _hadamard_matrix(size: int, device: str, dtype: Any) -> Tensor:
    import torch

    H = torch.ones((1, 1), device=device, dtype=dtype)
    while len(H) < size:
        H = torch.cat([torch.cat([H, H], 1), torch.cat([H, -H], 1)])
    return H


def wave_features(z: Tensor, gain: Tensor) -> Tensor:
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
