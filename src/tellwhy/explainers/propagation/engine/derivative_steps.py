"""Steps of operations that are no layers: by derivative or element by element, norms, attention, own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from tellwhy.explainers.propagation.engine.calls import Call, Operation, is_traced
from tellwhy.explainers.propagation.engine.decompositions import ARGUMENTS, FACTORS, portions
from tellwhy.explainers.propagation.engine.layers import Normalisation
from tellwhy.explainers.propagation.engine.steps import (
    Compute,
    Cotangents,
    Current,
    Followed,
    LayerStep,
    Step,
    portion,
    times,
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


class _Local(NamedTuple):
    """The graph of one operation: copies of its inputs that gradients can be asked of, and its output."""

    leaves: list[Tensor]
    out: Tensor


@dataclass
class DerivativeStep(Step):
    """An operation that hands down by its derivative; of a product of several activations in even shares.

    The graph of the operation is kept from the way up until the last method has gone through it. `n_factors`
    is how many activations a product is of.
    """

    local: _Local | None = None
    n_factors: int = 1

    def compute(self, compute: Compute, inputs: tuple[Tensor, ...]) -> Tensor:
        """Run the operation, on copies that gradients can be asked of."""
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

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:  # noqa: ARG002
        """The derivative, which gives the whole to each factor of a product."""
        return self.derivative(c / self.n_factors if self.operation.kind == "product" else c)


@dataclass
class PoolingStep(DerivativeStep):
    """An average pool; `ones` is the pool of ones, which is less than one where it counts padding."""

    ones: Tensor | None = None

    def compute(self, compute: Compute, inputs: tuple[Tensor, ...]) -> Tensor:
        """Run the pool, and on ones."""
        self.ones = compute([torch.ones_like(inputs[0][:1])])
        return super().compute(compute, inputs)

    def hand_relevance(self, R: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """In proportion, or evenly."""
        if self.operation.rule is not None and self.ones is not None:
            # What padding would get is shared among the inputs: nothing is lost at the edges.
            return self.derivative(quotient(R, self.ones.expand_as(R)))
        return super().hand_relevance(R, inputs, out)


@dataclass
class NormalisationStep(Step):
    """Layer, group, instance or root-mean-square norm, with its standard deviation as a constant."""

    normalisation: Normalisation
    bias: Tensor | None = None
    inverse: Tensor | None = None  # 1/s of each row, where the way up has told it
    is_short: bool = False  # whether the input need not be kept

    def compute(self, compute: Compute, inputs: tuple[Tensor, ...]) -> Tensor:
        """Run the norm; a layer norm by PyTorch's kernel, which also tells 1/s."""
        if not self.is_short:
            return super().compute(compute, inputs)
        out, self.inverse = self.normalisation.forward_layer_norm(inputs[0], self.bias)
        return out

    def kept(self, inputs: tuple[Tensor, ...]) -> Sequence[Tensor]:
        """Return the input, unless 1/s tells enough."""
        return () if self.is_short else inputs

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:  # noqa: ARG002
        """Through the centring and the factors, not through the standard deviation."""
        if self.inverse is not None:
            return [self.normalisation.backward_layer_norm(c, self.inverse)]
        return [self.normalisation.backward(inputs[0], c)]


@dataclass
class ElementStep(Step):
    """A function a = f(z) of single elements; `ratio` is f(z)/z, where it has a form of its own."""

    ratio: Ratio | None = None

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """c becomes c·f(z)/z; gradients go through ReLU by the method's rectifier."""
        z = inputs[0]
        rectifier = self.current.method.rectifier
        if rectifier is not None:
            return [rectifier(c, z, out)]
        return [c * (quotient(out, z) if self.ratio is None else self.ratio(z))]

    def hand_relevance(self, R: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:  # noqa: ARG002
        """Relevance stays with its element."""
        return [R]


class SoftmaxStep(Step):
    """A softmax that the model writes out: relevance goes to the z that it is of."""

    def __init__(self, operation: Operation, current: Current, axis: int):
        super().__init__(operation, current)
        self.axis = axis

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:  # noqa: ARG002
        """The derivative of softmax."""
        return [out * (c - (out * c).sum(self.axis, keepdim=True))]


@dataclass
class HandoverStep(Step):
    """An operation, or a whole module, that hands relevance on by a function of the user's."""

    handover: Handover

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """By the function, from relevance and back."""
        found = self.handover.hand_on(inputs, out, times(out, c))
        return [quotient(R, x) for R, x in zip(found, inputs, strict=True)]

    def hand_relevance(self, R: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """By the function."""
        return self.handover.hand_on(inputs, out, R)


def by_own_function(capture: Capture, call: Call, operation: Operation, handover: Handover) -> Tensor:
    """Run an operation that the user has a function for."""
    operation.kind = "own"
    step = HandoverStep(operation, capture.current, handover)
    return Followed.apply(step, call.run, *capture.watch(operation, call.activations))


@dataclass
class AttentionStep(DerivativeStep):
    """Attention in one call, where relevance itself travels."""

    shares: list[float] = field(default_factory=list)

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:  # noqa: ARG002
        """To each input its portion of what the derivative gives."""
        return [share * d for share, d in zip(self.shares, self.derivative(c), strict=True)]


def attention(capture: Capture, call: Call, operation: Operation) -> Tensor:
    """Run `scaled_dot_product_attention`: the derivative of its own fast kernel, in portions, is its rule."""
    given = call.arguments(ARGUMENTS)
    names = [name for name in FACTORS if isinstance(given.get(name), Tensor)]
    names = [name for name in names if not capture.is_constant(given[name])]
    # Constant values leave no factor but the attention weights, which then get all of the relevance.
    detaches = "value" in names and any(method.attention == "detached" for method in capture.methods)
    if detaches:
        names = ["value"]
    shares = portions(names)
    fixed = {k: v.detach() if isinstance(v, Tensor) else v for k, v in given.items() if k not in names}
    # Watched one by one: queries, keys and values may be the same tensor.
    inputs = [capture.watch(operation, [given[name]])[0] for name in names]

    def run(tensors: list[Tensor]) -> Any:
        return call.function(**fixed, **dict(zip(names, tensors, strict=True)))

    listed = [shares[name] for name in names]
    if not capture.follows_rules:
        return run(inputs)
    if not capture.carries_relevance:
        return run([portion(t, share) for t, share in zip(inputs, listed, strict=True)])
    step = AttentionStep(operation, capture.current, shares=listed)
    return Followed.apply(step, run, *inputs)


def biased(capture: Capture, call: Call, operation: Operation, origin: Origin | None) -> LayerStep | None:
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
    return LayerStep(operation, capture.current, operation.layer, capture.needs_layer_inputs)


def _added(call: Call) -> Tensor | None:
    """The constant of an addition, where it is one tensor."""
    given = [*call.args, *call.kwargs.values()]
    others = [value for value in given if value is not call.activations[0]]
    return others[0] if len(others) == 1 and isinstance(others[0], Tensor) else None
