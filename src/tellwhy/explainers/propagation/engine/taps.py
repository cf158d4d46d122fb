"""Taps: how much relevance passes between two operations on the way down, for the ledger and for readers."""

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
        place.append(cotangent if travels else (cotangent * x).masked_fill_(cotangent == 0, 0))

    return Tap.apply(x, note)


def tapped(x: Tensor, operation: Operation, column: str, current: Current) -> Tensor:
    """The same activation; the relevance that comes down to it is added to a column of the operation."""

    def note(cotangent: Tensor, x: Tensor) -> None:
        relevance = cotangent
        if current.method.carries != "relevance":  # what a mask made −∞ has none
            relevance = (cotangent * x).masked_fill_(cotangent == 0, 0)
        # Many small numbers of both signs: in the model's own precision their sum would be off.
        amount = float(relevance.sum(dtype=torch.float64))
        setattr(operation, column, getattr(operation, column) + amount)

    return Tap.apply(x, note)
