"""Steps of what is more than one operation: attention in one call, written-out functions, layer and bias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from tellwhy.explainers.propagation.engine.derivative_steps import DerivativeStep, times
from tellwhy.explainers.propagation.engine.steps import Cotangents, LayerStep, carry_out
from tellwhy.explainers.propagation.engine.taps import portion
from tellwhy.explainers.propagation.operations.calls import Call
from tellwhy.explainers.propagation.operations.operation import Operation
from tellwhy.explainers.propagation.rules import Handover, quotient
from tellwhy.explainers.propagation.spellings.attention import ARGUMENTS, DETACHED, FACTORS, portions

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.engine.capture import Capture
    from tellwhy.explainers.propagation.engine.origins import Origin


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
    return carry_out(step, call.run, *inputs)


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
    fixed = {k: call.constant(v) if isinstance(v, Tensor) else v for k, v in given.items() if k not in names}
    # Watched one by one: queries, keys and values may be the same tensor.
    inputs = [capture.watch(operation, [given[name]])[0] for name in names]

    def run(tensors: list[Tensor]) -> Any:
        return call.function(**fixed, **dict(zip(names, tensors, strict=True)))

    listed = [shares[name] for name in names]
    if not capture.follows_rules and capture.histories is None:
        return run(inputs)
    if not capture.carries_relevance and capture.histories is None:
        return run([portion(t, share, capture.current) for t, share in zip(inputs, listed, strict=True)])
    step = AttentionStep(operation, capture.current, shares=listed)
    return carry_out(step, run, *inputs)


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
    operation.layer = replace(layer, bias=call.constant(bias).reshape(-1))
    return BiasStep(operation, capture.current, operation.layer, capture.needs_layer_inputs)


def _added(call: Call) -> Tensor | None:
    """The constant of an addition, where it is one tensor."""
    given = [*call.args, *call.kwargs.values()]
    others = [value for value in given if value is not call.activations[0]]
    return others[0] if len(others) == 1 and isinstance(others[0], Tensor) else None
