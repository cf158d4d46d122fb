"""Steps: an operation whose forward pass is its own and whose backward pass is what the current method says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tellwhy.explainers.propagation.engine.calls import BatchNorm
from tellwhy.explainers.propagation.engine.layers import Addition, ChannelScale, LinearMap
from tellwhy.explainers.propagation.engine.methods import Current
from tellwhy.explainers.propagation.engine.normalisation import Normalisation
from tellwhy.explainers.propagation.engine.operations import Operation
from tellwhy.explainers.propagation.rules import Rule, quotient, z

Cotangents = Sequence[Tensor | None]
Compute = Callable[[list[Tensor]], Tensor]
_PROPORTION = z()


class Followed(torch.autograd.Function):
    """An operation in one step: `compute` on the way up, `step.hand_down` on the way down."""

    @staticmethod
    def forward(ctx: Any, step: Step, compute: Compute, *inputs: Tensor) -> Tensor:
        """Compute the operation's output."""
        out = step.compute(compute, inputs)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, out)
        ctx.step = step
        return out

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor | None) -> tuple[Any, ...]:
        """Hand the cotangent down; there is none where the method took another way to the inputs."""
        *inputs, out = ctx.saved_tensors
        if cotangent is None:
            return None, None, *[None] * len(inputs)
        return None, None, *ctx.step.hand_down(cotangent, inputs, out)


@dataclass
class Step(ABC):
    """One operation: what it knows of itself for the way down."""

    operation: Operation
    current: Current

    def compute(self, compute: Compute, inputs: tuple[Tensor, ...]) -> Tensor:
        """Run the operation."""
        return compute(list(inputs))

    @abstractmethod
    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """Cotangents of the inputs."""

    @property
    def carries(self) -> str:
        """What the current method carries."""
        return self.current.method.carries

    def by_rule(self, rule: Rule, layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        """Apply the rule of a linear map, in contributions or in relevance."""
        if self.carries == "relevance" and not rule.maps_relevance:
            return x * rule.function(layer, x, z, quotient(c, z))
        return rule.function(layer, x, z, c)


@dataclass
class LayerStep(Step):
    """A layer with weights."""

    layer: LinearMap

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """By the rule, or the transposed weights for a gradient."""
        x, rule = inputs[0], self.operation.rule
        if self.carries == "gradient" or rule is None:
            return [self.layer.backward(x, self.layer.weight, c)]
        return [self.by_rule(rule, self.layer, x, out, c)]


@dataclass
class MergedStep(Step):
    """Batch norm and the layer before it as one layer.

    Its inputs are the layer's input and, where gradients travel too, the layer's output: a gradient takes
    that way.
    """

    layer: LinearMap
    norm: BatchNorm

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """By the rule of the merged layer."""
        x, rule = inputs[0], self.operation.rule
        if self.carries == "gradient" or rule is None:
            scale = ChannelScale("batch_norm", *self.norm.line(), {})
            return [None, scale.backward(inputs[1], scale.weight, c)]
        return [self.by_rule(rule, self.layer.scaled(*self.norm.line()), x, out, c), None][: len(inputs)]


@dataclass
class AdditionStep(Step):
    """A sum of several activations."""

    layer: Addition

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """By the rule; in proportion where there is none."""
        rule, layer = self.operation.rule, self.layer
        if self.carries == "gradient" or (rule is None and self.carries == "contribution"):
            found = [c * weight for weight in layer.weight]
        else:
            x = torch.stack([t.expand_as(out) for t in inputs])
            found = list(self.by_rule(rule or _PROPORTION, layer, x, out, c))
        return [part.sum_to_size(t.shape) for part, t in zip(found, inputs, strict=True)]


@dataclass
class DerivativeStep(Step):
    """An operation whose own derivative serves some method: its small graph is kept until the last pass.

    `differentiates` is false where no method of this run asks for the derivative.
    """

    local: tuple[list[Tensor], Tensor] | None = None
    differentiates: bool = True

    def compute(self, compute: Compute, inputs: tuple[Tensor, ...]) -> Tensor:
        """Run the operation, where need be on copies that gradients can be asked of."""
        if not self.differentiates:
            return compute(list(inputs))
        with torch.enable_grad():
            leaves = [t.detach().requires_grad_() for t in inputs]
            out = compute(leaves)
        self.local = leaves, out
        return out.detach()

    def derivative(self, c: Tensor) -> list[Tensor]:
        """Transposed derivative applied to c."""
        assert self.local is not None
        leaves, out = self.local
        found = torch.autograd.grad(
            out, leaves, c, retain_graph=not self.current.is_last, materialize_grads=True
        )
        if self.current.is_last:
            self.local = None
        return list(found)

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """The derivative; in proportion where relevance travels; one half to each factor of a product."""
        if self.carries == "gradient":
            return self.derivative(c)
        if self.operation.kind == "product":
            c = c / 2
        if self.carries == "contribution":
            return self.derivative(c)
        return [x * part for x, part in zip(inputs, self.derivative(quotient(c, out)), strict=True)]


@dataclass
class PoolingStep(DerivativeStep):
    """An average pool; `ones` is the pool of ones, less than one where it counts padding."""

    ones: Tensor | None = None

    def compute(self, compute: Compute, inputs: tuple[Tensor, ...]) -> Tensor:
        """Run the pool, and on ones."""
        self.ones = compute([torch.ones_like(inputs[0][:1])])
        return super().compute(compute, inputs)

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """In proportion, or evenly."""
        if self.carries == "relevance" and self.operation.rule is not None and self.ones is not None:
            return self.derivative(quotient(c, self.ones.expand_as(c)))
        return super().hand_down(c, inputs, out)


@dataclass
class NormalisationStep(DerivativeStep):
    """Layer, group, instance or root-mean-square normalisation, its standard deviation taken as a constant."""

    normalisation: Normalisation | None = None

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """Through the centring and the factors, not through the standard deviation."""
        if self.carries == "gradient" or self.normalisation is None:
            return self.derivative(c)
        x = inputs[0]
        if self.carries == "relevance":
            return [x * self.normalisation.backward(x, quotient(c, out))]
        return [self.normalisation.backward(x, c)]


@dataclass
class ElementStep(DerivativeStep):
    """A function a = f(z) of single elements."""

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """c f(z)/z; relevance stays with its element; gradients of ReLU by the method's rectifier, if it has one."""
        rectifier, z = self.current.method.rectifier, inputs[0]
        if self.carries == "relevance":
            return [c]
        if self.carries == "gradient" and rectifier is not None and self.operation.name == "relu":
            return [rectifier(c, z, out)]
        return self.derivative(c) if self.differentiates and self.is_homogeneous else [c * quotient(out, z)]

    @property
    def is_homogeneous(self) -> bool:
        """Whether the derivative serves the current method: f(s·z) = s·f(z) for s > 0, or a gradient travels."""
        return self.carries == "gradient" or self.operation.kind == "rectifier"


class Tap(torch.autograd.Function):
    """The identity, with a look at what comes down: `note(c, x)`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, note: Callable[[Tensor, Tensor], None]) -> Tensor:
        """Return the same tensor."""
        ctx.save_for_backward(x)
        ctx.note = note
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Any, ...]:
        """Note the cotangent."""
        ctx.note(cotangent, *ctx.saved_tensors)
        return cotangent, None
