"""Replacements of single operations: the forward pass is the operation's own, the backward pass is a rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tellwhy.explainers.propagation.layers import LinearMap
from tellwhy.explainers.propagation.operations import Operation
from tellwhy.explainers.propagation.rules import quotient


@dataclass(frozen=True)
class LayerStep:
    """A layer at work: how its output is computed, its linear map, its record (with the rule, once it is chosen)."""

    compute: Callable[[Tensor], Tensor]
    layer: LinearMap
    operation: Operation
    carries_relevance: bool


class LayerPass(torch.autograd.Function):
    """A layer whose backward pass is the rule that the composite chose."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, step: LayerStep) -> Tensor:
        """Compute the layer's output."""
        z = step.compute(x)
        ctx.save_for_backward(x, z)
        ctx.step = step
        return z

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Any, ...]:
        """Apply the rule, in contributions or in relevance."""
        x, z = ctx.saved_tensors
        rule, layer = ctx.step.operation.rule, ctx.step.layer
        if ctx.step.carries_relevance and not rule.maps_relevance:
            return x * rule.function(layer, x, z, quotient(cotangent, z)), None
        return rule.function(layer, x, z, cotangent), None


class ElementPass(torch.autograd.Function):
    """An elementwise function a = f(z) whose backward pass is `hand_down(c, z, a)`."""

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, compute: Callable[[Tensor], Tensor], hand_down: Callable[[Tensor, Tensor, Tensor], Tensor]
    ) -> Tensor:
        """Compute f(z)."""
        a = compute(z)
        ctx.save_for_backward(z, a)
        ctx.hand_down = hand_down
        return a

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Any, ...]:
        """Hand the cotangent down."""
        return ctx.hand_down(cotangent, *ctx.saved_tensors), None, None


class Tap(torch.autograd.Function):
    """The identity, with a backward pass `change(c, x)`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, change: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Return the same tensor."""
        ctx.save_for_backward(x)
        ctx.change = change
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Any, ...]:
        """Change the cotangent."""
        return ctx.change(cotangent, *ctx.saved_tensors), None


def to_relevance(c: Tensor, x: Tensor) -> Tensor:
    """R = c x."""
    return c * x


def to_contribution(relevance: Tensor, x: Tensor) -> Tensor:
    """c = R / x."""
    return quotient(relevance, x)


def half(c: Tensor, x: Tensor) -> Tensor:  # noqa: ARG001
    """One half for each of two factors."""
    return c / 2


def ratio(c: Tensor, z: Tensor, a: Tensor) -> Tensor:
    """c f(z) / z."""
    return c * quotient(a, z)


def unchanged(relevance: Tensor, z: Tensor, a: Tensor) -> Tensor:  # noqa: ARG001
    """All relevance of the output belongs to the one input."""
    return relevance


def deconvolution(c: Tensor, z: Tensor, a: Tensor) -> Tensor:  # noqa: ARG001
    """Rectify what comes down, whether the unit was active or not."""
    return c.clamp(min=0)


def guided(c: Tensor, z: Tensor, a: Tensor) -> Tensor:  # noqa: ARG001
    """Rectify what comes down, through active units only."""
    return c.clamp(min=0) * (z > 0)
