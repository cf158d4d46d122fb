"""Small functions of autograd: portions of what comes down, and a ReLU that keeps no memory of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tellwhy.explainers.propagation.engine.methods import Current


class Portion(torch.autograd.Function):
    """The identity, which hands down `share` times what comes; a gradient goes down whole."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, share: float, current: Current) -> Tensor:
        """Return the same tensor."""
        ctx.share = share
        ctx.current = current
        return x.view_as(x)  # autograd wants another tensor than the input, which costs no memory here

    @staticmethod
    def backward(ctx: Any, c: Tensor) -> tuple[Any, ...]:
        """Hand down the share."""
        return (c if ctx.current.method.carries == "gradient" else c * ctx.share), None, None


def portion(x: Tensor, share: float, current: Current) -> Tensor:
    """The same activation, to which only a share of the relevance comes down."""
    return x if share == 1 else Portion.apply(x, share, current)


class Relu(torch.autograd.Function):
    """ReLU of a layer's output, which keeps its input: the layer keeps the same tensor anyway."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        """Cut off what is below zero."""
        # Not z itself: autograd would keep that object alive, and with it all that is known of it.
        ctx.save_for_backward(z.detach())
        return z.relu()

    @staticmethod
    def backward(ctx: Any, c: Tensor) -> Tensor:
        """Hand down to active units."""
        return torch.ops.aten.threshold_backward(c, ctx.saved_tensors[0], 0)
