"""Small functions of autograd: taps of what comes down, portions of it, a ReLU without memory of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tellwhy.explainers.propagation.engine.methods import Current
from tellwhy.explainers.propagation.operations.operation import Operation


class Tap(torch.autograd.Function):
    """The identity, with a look at what comes down: calls `note(c, x)` with it and with the activation."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, note: Callable[[Tensor, Tensor], None]) -> Tensor:
        """Return the same tensor."""
        ctx.save_for_backward(x)
        ctx.note = note
        return x.view_as(x)  # autograd wants another tensor than the input, which costs no memory here

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Any, ...]:
        """Note what comes down, and hand it on."""
        ctx.note(cotangent, *ctx.saved_tensors)
        return cotangent, None


def collected(x: Tensor, place: list[Tensor], current: Current) -> Tensor:
    """The same activation; the relevance that comes down to it is put into a list."""

    def note(cotangent: Tensor, x: Tensor) -> None:
        travels = current.method.carries == "relevance"
        place.append(cotangent if travels else _relevance(cotangent, x))

    return Tap.apply(x, note)


def tapped(x: Tensor, operation: Operation, column: str, current: Current) -> Tensor:
    """The same activation; the relevance that comes down to it is added to a column of the operation."""

    def note(cotangent: Tensor, x: Tensor) -> None:
        relevance = cotangent if current.method.carries == "relevance" else _relevance(cotangent, x)
        # Many small numbers of both signs: in the model's own precision their sum would be off.
        amount = float(relevance.sum(dtype=torch.float64))
        setattr(operation, column, getattr(operation, column) + amount)

    return Tap.apply(x, note)


def _relevance(cotangent: Tensor, x: Tensor) -> Tensor:
    """Relevance of an activation, from what comes down to it: what a mask made −∞ has none."""
    if x.is_complex():  # the sum over its two parts
        return (cotangent.conj() * x).real
    return (cotangent * x).masked_fill_(cotangent == 0, 0)


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
    """ReLU of a layer's output, which keeps its input: the layer keeps the same tensor anyway.

    Where it `overwrites`, the layer's output is changed in place, and is all that is kept: nothing comes down
    to what was cut off, so that its value is not needed.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, overwrites: bool) -> Tensor:
        """Cut off what is below zero."""
        if overwrites:
            out = z.data.relu_()  # not z.detach(): the layer, which kept z, is to accept the change
            ctx.save_for_backward(out)
            return out
        # Not z itself: autograd would keep that object alive, and with it all that is known of it.
        ctx.save_for_backward(z.detach())
        return z.relu()

    @staticmethod
    def backward(ctx: Any, c: Tensor) -> tuple[Tensor, None]:
        """Hand down to active units."""
        return torch.ops.aten.threshold_backward(c, ctx.saved_tensors[0], 0), None
