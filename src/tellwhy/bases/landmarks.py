"""Similarities to points, made orthonormal: φ(x) = L⁻¹ k(z, x) with L Lᵀ = k(z, z) (the Nyström method).

φ(x)·φ(x') is the kernel between x and x' after both are projected on the span of the points in the kernel's
own space: the best that combinations of these points can do. Training moves the points.

Williams and Seeger, "Using the Nyström method to speed up kernel machines", Advances in Neural Information
Processing Systems 13 (2001).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tellwhy.bases.projections import LandmarkProjection
from tellwhy.core.score_function import Floats
from tellwhy.kernels import ArcCosine

Tensor = Any
# Points that lie close together make k(z, z) singular. This share of its mean diagonal keeps it invertible.
JITTER = 1e-6
_EDGE = 1e-10  # a cosine stays this far from ±1, where the slope of its angle is infinite
_TINY = 1e-60  # under a root: the norm of a row of zeros has a slope then


def landmarks_at(points: Floats, kernel: str, depth: int) -> LandmarkProjection:
    """Return the projection of given points, which are in the coordinates of rescaled rows."""
    within = kernel_with(points, points, kernel, depth)
    within[np.diag_indices(len(points))] += JITTER * max(float(np.diagonal(within).mean()), _TINY)
    inverse = np.linalg.inv(np.linalg.cholesky(within))
    return LandmarkProjection(points, inverse.T.copy())


def kernel_with(Z: Floats, points: Floats, kernel: str, depth: int) -> Floats:
    """Return k of rescaled rows and points, in double precision."""
    rows = np.asarray(Z, dtype=np.float64)
    products = rows @ points.T
    squares = (rows**2).sum(axis=1)[:, None], (points**2).sum(axis=1)[None, :]
    if kernel == "gaussian":
        # Rows are centred and divided by the bandwidth: distances of interest are not small differences.
        return np.exp(-0.5 * np.maximum(squares[0] + squares[1] - 2 * products, 0.0))
    return ArcCosine(depth).of_products(products, np.sqrt(squares[0]), np.sqrt(squares[1]))


def landmark_features(x: Tensor, points: Tensor, live: Tensor, kernel: str, depth: int) -> Tensor:
    """φ of E bases in PyTorch, with gradients for the points.

    Parameters
    ----------
    x
        Rescaled rows, shape (E, n, d).
    points
        Shape (E, m, d).
    live
        1 for a point, 0 for padding, shape (E, 1, m).
    kernel, depth
        Name of the kernel, and how often it is composed with itself.
    """
    import torch

    # Double precision: the inverse of k(z, z) has large entries, which would blow up rounding errors.
    places = points.double()
    mask = live.double()
    within = _torch_kernel(places, places, kernel, depth) * (mask.mT * mask)
    sizes = within.diagonal(dim1=1, dim2=2).sum(1, keepdim=True) / mask.sum(2)
    within = within + torch.diag_embed(1 - mask[:, 0] + JITTER * sizes.clamp_min(_TINY))
    across = _torch_kernel(x.double(), places, kernel, depth) * mask
    lower = torch.linalg.cholesky_ex(within)[0]  # a failure shows in the loss, without waiting for the device
    return torch.linalg.solve_triangular(lower, across.mT, upper=False).mT.to(x.dtype)


def _torch_kernel(x: Tensor, y: Tensor, kernel: str, depth: int) -> Tensor:
    products = x @ y.mT
    left = x.square().sum(-1)[:, :, None]
    right = y.square().sum(-1)[:, None, :]
    if kernel == "gaussian":
        return (-0.5 * (left + right - 2 * products).clamp_min(0.0)).exp()
    scale = (left + _TINY).sqrt() * (right + _TINY).sqrt()
    cosine = products / scale
    for _ in range(depth):
        cosine = cosine.clamp(-1 + _EDGE, 1 - _EDGE)
        angle = cosine.acos()
        cosine = (angle.sin() + (math.pi - angle) * cosine) / math.pi
    return scale * cosine
