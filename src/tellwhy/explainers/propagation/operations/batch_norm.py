"""Batch norm in evaluation mode: a factor and a shift per channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tellwhy.explainers.propagation.operations.calls import Call, batch_norm_arguments


class Line(NamedTuple):
    """z = factor · x + shift, with one of each per channel."""

    factor: Tensor
    shift: Tensor


@dataclass(frozen=True)
class BatchNorm:
    """z = γ (x − μ)/s + β with s² = σ² + ε; the running statistics μ and σ² are constants."""

    mean: Tensor
    variance: Tensor
    eps: float
    weight: Tensor | None
    bias: Tensor | None

    def normalising_line(self) -> Line:
        """The first half, (x − μ)/s."""
        inverse = (self.variance + self.eps).rsqrt()
        return Line(inverse, -self.mean * inverse)

    def scaling_line(self) -> Line:
        """The second half, with factors γ and shifts β."""
        factor = torch.ones_like(self.variance) if self.weight is None else self.weight
        shift = torch.zeros_like(self.variance) if self.bias is None else self.bias
        return Line(factor, shift)

    def factor(self) -> Tensor:
        """The factor of both halves."""
        factor = (self.variance + self.eps).rsqrt()
        return factor if self.weight is None else factor * self.weight

    def line(self) -> Line:
        """Both halves in one."""
        # Not put together from the two halves: the shifts would be rounded twice.
        factor = self.factor()
        shift = -self.mean * factor
        return Line(factor, shift if self.bias is None else shift + self.bias)


def read_batch_norm(call: Call) -> BatchNorm:
    """Parameters of a call of `batch_norm`."""
    given = batch_norm_arguments(call)
    weight = given.get("weight")
    bias = given.get("bias")
    return BatchNorm(
        mean=given["running_mean"].detach(),
        variance=given["running_var"].detach(),
        eps=given.get("eps", 1e-5),
        weight=None if weight is None else call.constant(weight),
        bias=None if bias is None else call.constant(bias),
    )
