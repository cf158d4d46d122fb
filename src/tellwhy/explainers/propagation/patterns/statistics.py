"""Statistics of a layer's inputs and outputs, from which its patterns follow.

A unit computes y = wᵀx (without its bias). Its pattern a is the direction of x that y tells about:
a = cov(x, y) / wᵀcov(x, y), so that wᵀa = 1. For rectified units the moments are those over the rows in which
the unit is active. Kindermans et al., ICLR (2018).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tellwhy.core.errors import UnsupportedModel
from tellwhy.explainers.propagation.operations.layers import LinearMap
from tellwhy.explainers.propagation.rules import quotient

KINDS = ("relu", "relu_centred", "linear")
_ROWS = 2**22  # elements of unfolded pictures at a time


@dataclass
class Moments:
    """Sums over rows, and for pictures over places: of all of them, and of those where a unit is active.

    Attributes
    ----------
    n, n_active
        How many there are; one number, and one per unit.
    x, x_active
        Sums of the inputs: (d,), and (k, d) over the rows where each unit is active.
    y, y_active
        Sums of the outputs (k,).
    xy, xy_active
        Sums of the products (k, d).
    """

    n: float
    n_active: Tensor
    x: Tensor
    x_active: Tensor
    y: Tensor
    y_active: Tensor
    xy: Tensor
    xy_active: Tensor

    def __add__(self, other: Moments) -> Moments:
        return Moments(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    def pattern(self, weight: Tensor, kind: str) -> Tensor:
        """The pattern (k, d) of each unit; zeros where nothing was seen of it."""
        if kind == "linear":
            mean_y = (self.y / self.n)[:, None]
            covariance = self.xy / self.n - self.x / self.n * mean_y
        else:
            n = self.n_active.clamp(min=1)[:, None]
            whole = self.y[:, None] / self.n
            mean_y = self.y_active[:, None] / n if kind == "relu_centred" else whole
            covariance = self.xy_active / n - self.x_active / n * mean_y
        along = (weight * covariance).sum(dim=1, keepdim=True)
        return quotient(covariance, along.expand_as(covariance))


def moments_of(x: Tensor, y: Tensor, active: Tensor) -> Moments:
    """Moments of inputs x (n, d) and outputs y (n, k); `active` tells where units pass their rectifier."""
    x = x.double()
    y = y.double()
    on = active.double()
    return Moments(
        float(len(x)), on.sum(0), x.sum(0), on.T @ x, y.sum(0), (on * y).sum(0), y.T @ x, (on * y).T @ x
    )


def layer_moments(layer: LinearMap, x: Tensor, z: Tensor) -> list[Moments]:
    """Moments of one layer on some rows; one of them for each group of channels."""
    z = z.detach()
    if layer.name == "linear":
        outputs = z if layer.bias is None else z - layer.bias
        return [moments_of(x.flatten(0, -2), outputs.flatten(0, -2), z.flatten(0, -2) > 0)]
    if layer.name != "conv2d" or isinstance(layer.geometry["padding"], str):
        raise UnsupportedModel(f"Patterns of {layer.name!r} layers cannot be estimated.")
    shift = 0 if layer.bias is None else layer.bias[:, None, None]
    size = max(1, _ROWS // (z[0].numel() // len(z[0]) * layer.weight[0].numel()))
    total: list[Moments] = []
    for part in range(0, len(x), size):
        rows = slice(part, part + size)
        found = _convolution(layer, x[rows], (z[rows] - shift), z[rows] > 0)
        total = [a + b for a, b in zip(total, found, strict=True)] if total else found
    return total


def _convolution(layer: LinearMap, x: Tensor, y: Tensor, active: Tensor) -> list[Moments]:
    geometry: Mapping[str, Any] = layer.geometry
    groups = geometry["groups"]
    settings = {name: geometry[name] for name in ("stride", "padding", "dilation")}
    patches = torch.nn.functional.unfold(x, layer.weight.shape[2:], **settings).transpose(1, 2)
    outputs = y.flatten(2).transpose(1, 2)
    on = active.flatten(2).transpose(1, 2)
    parts = [t.flatten(0, 1).chunk(groups, dim=1) for t in (patches, outputs, on)]
    return [moments_of(*group) for group in zip(*parts, strict=True)]


def pattern_of(moments: list[Moments], weight: Tensor, kind: str) -> Tensor:
    """Pattern of a layer, in the shape of its weights."""
    rows = weight.detach().double().flatten(1).chunk(len(moments))
    parts = [found.pattern(own, kind) for found, own in zip(moments, rows, strict=True)]
    return torch.cat(parts).reshape(weight.shape).to(weight)
