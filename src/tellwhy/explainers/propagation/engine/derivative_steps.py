"""Steps by derivative, attention, own functions.

Steps of operations whose own derivative serves some method: it is taken by autograd inside the step.

Steps of what is more than one operation: attention in one call, written-out functions, layer and bias.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from tellwhy.explainers.propagation.engine.calls import Call, Operation, is_traced
from tellwhy.explainers.propagation.engine.decompositions import ARGUMENTS, DETACHED, FACTORS, portions
from tellwhy.explainers.propagation.engine.layers import Normalisation
from tellwhy.explainers.propagation.engine.steps import (
    Compute,
    Cotangents,
    Followed,
    LayerStep,
    Step,
    portion,
)
from tellwhy.explainers.propagation.rules import Handover, quotient

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.engine.capture import Capture
    from tellwhy.explainers.propagation.engine.origins import Origin


Ratio = Callable[[Tensor], Tensor]


def ratio_of(call: Call) -> Ratio | None:
    """f(z)/z where it has a form of its own: then f(z) need not be kept, and no zeros are minded."""
    if call.name == "silu":
        return torch.sigmoid
    # Operator by operator the quotient takes fewer passes over the memory; in a program it is one pass.
    if call.name != "gelu" or not is_traced.get():
        return None
    return _steep if call.kwargs.get("approximate", "none") == "tanh" else _normal


def _normal(z: Tensor) -> Tensor:
    """Φ(z), the distribution function of a normal number."""
    return 0.5 * (1 + torch.erf(z * math.sqrt(0.5)))


def _steep(z: Tensor) -> Tensor:
    """The approximation of Φ(z) that some networks have."""
    return 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z * z * z)))


def times(x: Tensor, c: Tensor) -> Tensor:
    """x · c, and 0 where c is 0: an activation that a mask made −∞ has no relevance."""
    return (x * c).masked_fill_(c == 0, 0)


class _Local(NamedTuple):
    """The graph of one operation: copies of its inputs that gradients can be asked of, and its output."""

    leaves: list[Tensor]
    out: Tensor


@dataclass
class DerivativeStep(Step):
    """An operation that hands down by its derivative, or in proportion to its inputs.

    The graph of the operation is kept from the way up until the last method has gone through it.
    `differentiates` is false where no method of this run asks for the derivative: then there is no graph.
    `n_factors` is how many activations a product is of.
    """

    local: _Local | None = None
    differentiates: bool = True
    n_factors: int = 1

    def compute(self, compute: Compute, inputs: tuple[Tensor, ...]) -> Tensor:
        """Run the operation, where need be on copies that gradients can be asked of."""
        if not self.differentiates:
            return compute(list(inputs))
        with torch.enable_grad():  # autograd switches gradients off inside its functions
            leaves = [t.detach().requires_grad_() for t in inputs]
            out = compute(leaves)
        self.local = _Local(leaves, out)
        return out.detach()

    def derivative(self, c: Tensor) -> list[Tensor]:
        """Transposed derivative applied to c."""
        assert self.local is not None
        is_last = self.current.is_last
        leaves, out = self.local
        found = torch.autograd.grad(out, leaves, c, retain_graph=not is_last, materialize_grads=True)
        if is_last:  # memory is given back on the way down, not at its end
            self.local = None
        return list(found)

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """The derivative; in proportion where relevance travels; even shares to the factors of a product."""
        if self.carries == "gradient":
            return self.derivative(c)
        constants = self.operation.constants or (False,) * len(inputs)
        if self.operation.kind == "product":  # the derivative gives the whole to each factor
            c = c / (self.n_factors - sum(constants))
        shares = self.derivative(c if self.carries == "contribution" else quotient(c, out))
        if self.carries == "relevance":
            shares = [times(x, share) for x, share in zip(inputs, shares, strict=True)]
        return [None if held else share for share, held in zip(shares, constants, strict=True)]


@dataclass
class PoolingStep(DerivativeStep):
    """An average pool; `ones` is the pool of ones, which is less than one where it counts padding."""

    ones: Tensor | None = None

    def compute(self, compute: Compute, inputs: tuple[Tensor, ...]) -> Tensor:
        """Run the pool, and on ones."""
        self.ones = compute([torch.ones_like(inputs[0][:1])])
        return super().compute(compute, inputs)

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """In proportion, or evenly."""
        if self.carries == "relevance" and self.operation.rule is not None and self.ones is not None:
            # What padding would get is shared among the inputs: nothing is lost at the edges.
            return self.derivative(quotient(c, self.ones.expand_as(c)))
        return super().hand_down(c, inputs, out)


@dataclass
class NormalisationStep(DerivativeStep):
    """Layer, group, instance or root-mean-square norm, with its standard deviation as a constant."""

    normalisation: Normalisation | None = None
    bias: Tensor | None = None
    inverse: Tensor | None = None  # 1/s of each row, where the way up has told it
    is_short: bool = False  # whether the input need not be kept

    def compute(self, compute: Compute, inputs: tuple[Tensor, ...]) -> Tensor:
        """Run the norm; a layer norm by PyTorch's kernel, which also tells 1/s."""
        if not self.is_short or self.normalisation is None:
            return super().compute(compute, inputs)
        out, self.inverse = self.normalisation.forward_layer_norm(inputs[0], self.bias)
        return out

    def kept(self, inputs: tuple[Tensor, ...]) -> Sequence[Tensor]:
        """Return the input, unless 1/s tells enough."""
        return () if self.is_short else inputs

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """Through the centring and the factors, not through the standard deviation."""
        if self.carries == "gradient" or self.normalisation is None:
            return self.derivative(c)
        if self.inverse is not None:
            return [self.normalisation.backward_layer_norm(c, self.inverse)]
        x = inputs[0]
        if self.carries == "relevance":
            return [x * self.normalisation.backward(x, quotient(c, out))]
        return [self.normalisation.backward(x, c)]


@dataclass
class ElementStep(DerivativeStep):
    """A function a = f(z) of single elements; `ratio` is f(z)/z, where it has a form of its own."""

    ratio: Ratio | None = None

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """Relevance stays with its element: R is the same before and after, and c becomes c·f(z)/z.

        Gradients go through ReLU by the method's rectifier, if it has one.
        """
        rectifier = self.current.method.rectifier
        z = inputs[0]
        if self.carries == "relevance":
            return [c]
        if self.carries == "gradient" and rectifier is not None and self.operation.rectifies:
            return [rectifier(c, z, out)]
        if self.differentiates and self._derivative_serves:
            return self.derivative(c)
        return [c * (quotient(out, z) if self.ratio is None else self.ratio(z))]

    @property
    def _derivative_serves(self) -> bool:
        """Whether the current method needs the derivative: for a gradient, or since it equals f(z)/z."""
        return self.carries == "gradient" or self.operation.kind == "rectifier"


@dataclass
class WrittenStep(DerivativeStep):
    """The last operation of a function of z that the model writes out; over an axis it is a softmax.

    The first input is z, which relevance goes to. The others are there for gradients only.
    """

    axis: int | None = None

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """Relevance to z, gradients to the operation's own inputs."""
        if self.carries == "gradient":
            return self.derivative(c)
        others = [None] * (len(inputs) - 1)
        z = inputs[0]
        travels = self.carries == "relevance"
        if self.axis is None:  # the element keeps its relevance
            return [c if travels else c * quotient(out, z), *others]
        share = quotient(c, out) if travels else c
        share = out * (share - (out * share).sum(self.axis, keepdim=True))
        return [times(z, share) if travels else share, *others]


@dataclass
class HandoverStep(DerivativeStep):
    """An operation, or a whole module, that hands relevance on by a function of the user's.

    Of a module, the last input is its output as its own operations made it, where gradients travel too: they
    go through those operations.
    """

    handover: Handover | None = None
    n_inputs: int = 1

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """Relevance by the function; a gradient by the derivative, or through the module."""
        through = len(inputs) - self.n_inputs
        if self.carries == "gradient":
            return [*[None] * self.n_inputs, c] if through else self.derivative(c)
        travels = self.carries == "relevance"
        assert self.handover is not None
        given = inputs[: self.n_inputs]
        found = self.handover.hand_on(given, out, c if travels else times(out, c))
        if not travels:
            found = [quotient(R, x) for R, x in zip(found, given, strict=True)]
        return [*found, *[None] * through]


def by_own_function(capture: Capture, call: Call, operation: Operation, handover: Handover) -> Tensor:
    """Run an operation that the user has a function for."""
    operation.kind = "own"
    inputs = capture.watch(operation, call.activations)
    step = HandoverStep(
        operation,
        capture.current,
        differentiates=capture.has_gradients,
        handover=handover,
        n_inputs=len(inputs),
    )
    return Followed.apply(step, call.run, *inputs)


@dataclass
class AttentionStep(DerivativeStep):
    """Attention in one call, where relevance itself travels."""

    shares: list[float] = field(default_factory=list)

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """To each input its portion of what the derivative gives."""
        if self.carries == "gradient":
            return self.derivative(c)
        if self.carries == "contribution":
            found = self.derivative(c)
        else:
            found = [times(x, d) for x, d in zip(inputs, self.derivative(quotient(c, out)), strict=True)]
        return [share * d for share, d in zip(self.shares, found, strict=True)]


def attention(capture: Capture, call: Call, operation: Operation) -> Tensor:
    """Run `scaled_dot_product_attention`: the derivative of its own fast kernel, in portions, is its rule."""
    given = call.arguments(ARGUMENTS)
    names = [name for name in FACTORS if isinstance(given.get(name), Tensor)]
    names = [name for name in names if not capture.is_constant(given[name])]
    # Constant values leave no factor but the attention weights, which then get all of the relevance.
    detaches = "value" in names and any(method.attention == "detached" for method in capture.methods)
    shares: Mapping[str, float] = DETACHED if detaches else portions(names)
    if detaches and not capture.has_gradients:
        names = ["value"]
    fixed = {k: v.detach() if isinstance(v, Tensor) else v for k, v in given.items() if k not in names}
    # Watched one by one: queries, keys and values may be the same tensor.
    inputs = [capture.watch(operation, [given[name]])[0] for name in names]

    def run(tensors: list[Tensor]) -> Any:
        return call.function(**fixed, **dict(zip(names, tensors, strict=True)))

    listed = [shares[name] for name in names]
    if not capture.follows_rules:
        return run(inputs)
    if not capture.carries_relevance:
        return run([portion(t, share, capture.current) for t, share in zip(inputs, listed, strict=True)])
    step = AttentionStep(operation, capture.current, shares=listed)
    return Followed.apply(step, run, *inputs)


@dataclass
class BiasStep(LayerStep):
    """A bias added to the output of a layer: both are one layer. Its inputs are those of `MergedStep`."""

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """By the rule of the layer with its bias; a gradient goes through the addition."""
        inputs = inputs or self.rooms(c)
        rule = self.operation.rule
        if self.carries == "gradient" or rule is None:
            return [None, c]
        handed = self.by_rule(rule, self.layer, inputs[0], out, c)
        return [handed, None][: len(inputs)]


def biased(capture: Capture, call: Call, operation: Operation, origin: Origin | None) -> BiasStep | None:
    """The step of a bias that is added to a fully connected layer: both are one; None for other additions."""
    layer = None if origin is None else origin.operation.layer
    if origin is None or layer is None or len(call.activations) != 1 or "alpha" in call.kwargs:
        return None
    bias = _added(call)
    if layer.name != "linear" or layer.bias is not None or bias is None:
        return None
    if bias.numel() != len(layer.weight) or bias.shape[-1] != len(layer.weight):
        return None
    before = origin.operation
    before.merged = True
    operation.name = before.name
    operation.kind = "layer"
    operation.first = before.first
    operation.layer = replace(layer, bias=bias.detach().reshape(-1))
    return BiasStep(operation, capture.current, operation.layer, capture.needs_layer_inputs)


def _added(call: Call) -> Tensor | None:
    """The constant of an addition, where it is one tensor."""
    given = [*call.args, *call.kwargs.values()]
    others = [value for value in given if value is not call.activations[0]]
    return others[0] if len(others) == 1 and isinstance(others[0], Tensor) else None
