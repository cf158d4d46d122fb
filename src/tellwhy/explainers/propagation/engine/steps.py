"""Methods, and how operations hand down what travels by them.

Steps: operations whose way up is their own, and whose way down is what the current method says.

PyTorch's autograd walks back through the recorded operations. A step takes the place of one operation in that
walk: autograd gives it what travels at the output (a gradient, contributions or relevance: "c" below), and it
returns what travels at each of the inputs. `derivative_steps` has the steps that need the derivative of their
operation.

Small functions of autograd: taps of what comes down, portions of it, a ReLU without memory of its own.

Methods: what travels backwards through the recorded operations, and how each operation treats it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tellwhy.explainers.propagation.engine.calls import Operation
from tellwhy.explainers.propagation.engine.layers import Addition, BatchNorm, ChannelScale, LinearMap
from tellwhy.explainers.propagation.rules import Handover, Rule, quotient, z
from tellwhy.scoring.network_inputs import Inputs

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.composites import Composite


Cotangents = Sequence[Tensor | None]  # what travels at each input; None where nothing does
Compute = Callable[[list[Tensor]], Tensor]  # the operation as a function of its activations
_PROPORTION = z()


class Followed(torch.autograd.Function):
    """One operation as autograd sees it: `step.compute` on the way up, `step.hand_down` on the way down."""

    @staticmethod
    def forward(ctx: Any, step: Step, compute: Compute, *inputs: Tensor) -> Tensor:
        """Compute the operation's output."""
        out = step.compute(compute, inputs)
        # An output that nothing comes down to stays None, and costs nothing, instead of a tensor of zeros.
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*step.kept(inputs), out)
        ctx.step = step
        return out

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor | None) -> tuple[Any, ...]:
        """Hand down what came; nothing comes where the method took another way to the inputs."""
        # `step` and `compute` were the first two arguments: they have no gradient.
        if cotangent is None:
            return None, None, *[None] * (len(ctx.needs_input_grad) - 2)
        *inputs, out = ctx.saved_tensors
        return None, None, *ctx.step.hand_down(cotangent, inputs, out)


@dataclass
class Step(ABC):
    """One operation, and what it has to know for the way down."""

    operation: Operation
    current: Current

    def compute(self, compute: Compute, inputs: tuple[Tensor, ...]) -> Tensor:
        """Run the operation."""
        return compute(list(inputs))

    def kept(self, inputs: tuple[Tensor, ...]) -> Sequence[Tensor]:
        """Return what is kept of the inputs for the way down."""
        return inputs

    @abstractmethod
    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """Return what travels at the inputs, from what travels at the output."""

    @property
    def carries(self) -> str:
        """What travels, by the current method."""
        return self.current.method.carries

    def by_rule(self, rule: Rule, layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        """Apply the rule of a linear map to contributions or to relevance, whichever travels."""
        if self.operation.owns_cotangent:
            layer = replace(layer, owns_cotangent=True)
        if self.carries == "relevance" and not rule.maps_relevance:  # R -> c = R/z -> rule -> R = c·x
            return x * rule.function(layer, x, z, quotient(c, z))
        return rule.function(layer, x, z, c)


@dataclass
class LayerStep(Step):
    """A layer with weights.

    Where no method `needs_inputs`, only the shapes of the inputs are kept.
    """

    layer: LinearMap
    needs_inputs: bool = True
    shapes: Sequence[torch.Size] = ()

    def kept(self, inputs: tuple[Tensor, ...]) -> Sequence[Tensor]:
        """Return the inputs, or none of them: their shapes are enough."""
        if self.needs_inputs:
            return inputs
        self.shapes = [t.shape for t in inputs]
        return ()

    def rooms(self, c: Tensor) -> list[Tensor]:
        """Tensors of the inputs' shapes, in the order of c in memory, which nobody reads."""
        images = c.ndim == 4 and not c.is_contiguous() and c.is_contiguous(memory_format=torch.channels_last)
        order = torch.channels_last if images else torch.contiguous_format
        return [
            c  # serves as well as any other, and costs nothing
            if c.shape == shape
            else torch.empty(
                shape, dtype=c.dtype, device=c.device, memory_format=order if len(shape) == 4 else None
            )
            for shape in self.shapes
        ]

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """By the rule, or by the transposed weights for a gradient."""
        x = (inputs or self.rooms(c))[0]
        rule = self.operation.rule
        if self.carries == "gradient" or rule is None:
            return [self.layer.backward(x, self.layer.weight, c)]
        return [self.by_rule(rule, self.layer, x, out, c)]


@dataclass
class MergedStep(LayerStep):
    """Batch norm and the layer before it as one layer.

    Its inputs are the layer's input and, where gradients travel in the same run, the layer's output.
    Relevance takes the first way, past the layer. Gradients take the second, through the batch norm only: the
    layer before it has a step of its own.
    """

    norm: BatchNorm | None = None

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """By the rule of the merged layer."""
        inputs = inputs or self.rooms(c)
        x = inputs[0]
        rule = self.operation.rule
        assert self.norm is not None
        if self.carries == "gradient" or rule is None:
            scale = ChannelScale("batch_norm", *self.norm.line(), {})
            return [None, scale.backward(inputs[1], scale.weight, c)]
        if rule.needs_input or self.carries == "relevance":
            layer = self.layer.scaled(*self.norm.line())
        else:  # such a rule looks at no bias: its sum is in `out`
            layer = self.layer.scaled(self.norm.factor(), None)
        return [self.by_rule(rule, layer, x, out, c), None][: len(inputs)]


@dataclass
class AdditionStep(Step):
    """A sum of several activations."""

    layer: Addition

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """By the rule; in proportion where there is none."""
        rule = self.operation.rule
        if self.carries == "gradient" or (rule is None and self.carries == "contribution"):
            handed = [c * weight for weight in self.layer.weight]
        else:
            x = torch.stack([t.expand_as(out) for t in inputs])
            # What a mask made −∞ has no relevance: 0 · ∞ is 0 here.
            found = self.by_rule(rule or _PROPORTION, self.layer, x, out, c)
            handed = list(found.masked_fill(c == 0, 0))
        # A summand that was broadcast gets the sum over its copies.
        return [part.sum_to_size(t.shape) for part, t in zip(handed, inputs, strict=True)]


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


BATCH_NORM = ("merged", "one_linear", "two_linear", "four_coefficients")
ATTENTION = ("attnlrp", "detached")
GATES = ("signal", "half")
Rectifier = Callable[[Tensor, Tensor, Tensor], Tensor]  # (what comes down, z, ReLU of z) -> what goes on


@dataclass(frozen=True)
class Method:
    """What travels backwards, and how.

    Attributes
    ----------
    carries
        What travels: "gradient" (plain derivatives), "contribution" (c = R/a, the relevance of an activation
        divided by the activation), "relevance" (R itself, where some rule gives relevance to zeros) or
        "difference" (multipliers of the difference to a reference, see `differences`).
    composite
        Which rule each layer gets; None for gradients.
    rectifier
        Replaces the backward pass of ReLU where gradients travel.
    batch_norm
        Treatment of batch norm: one of `BATCH_NORM`.
    residual
        Rule of additions of two activations; None: in proportion, which is their derivative.
    pooling
        Rule of average pools; None: in proportion, which is their derivative.
    multiply
        Whether what reaches the input is multiplied by the input.
    operations
        Kinds of operations, by name, that only this method knows.
    attention
        "attnlrp": softmax hands down by its derivative; "detached": attention weights are constants.
    gates
        Product of a gate and a signal: "signal" takes all, or one "half" each.
    own
        Operations and modules that hand relevance on by functions of the user's.
    references
        What rows are compared with, from the rows: of each input one reference for all rows, or one per row.
    """

    carries: str
    composite: Composite | None = None
    rectifier: Rectifier | None = None
    batch_norm: str = "merged"
    residual: Rule | None = None
    pooling: Rule | None = None
    multiply: bool = False
    operations: Mapping[str, str] = field(default_factory=dict)
    attention: str = "attnlrp"
    gates: str = "signal"
    own: tuple[Handover, ...] = ()
    references: Callable[[Inputs], tuple[Tensor, ...]] | None = None

    @property
    def follows_rules(self) -> bool:
        """Whether operations have rules; derivatives and differences know every operation."""
        return self.carries in ("contribution", "relevance")

    @property
    def constant_roles(self) -> frozenset[str]:
        """Roles of activations that get no relevance in a product: see `operations.roles`."""
        if not self.follows_rules:
            return frozenset()
        gates = {"gate"} if self.gates == "signal" else set()
        weights = {"weights"} if self.attention == "detached" else set()
        return frozenset({"scale"} | gates | weights)

    @property
    def forward_choices(self) -> frozenset[object]:
        """What the forward pass has to know: methods with the same choices share one; gradients fit any."""
        if self.carries == "gradient":
            return frozenset()
        named = tuple(sorted(self.operations.items()))
        return frozenset([(self.batch_norm, named, self.attention, self.gates, self.own)])

    @property
    def needs_layer_inputs(self) -> bool:
        """Whether some rule looks at the values that went into a layer, and not at their shape only."""
        if not self.follows_rules:
            return False
        return self.carries == "relevance" or self.composite is None or self.composite.needs_input

    @property
    def ignores_idle(self) -> bool:
        """Whether outputs of layers are not looked at where nothing comes down to them."""
        if not self.follows_rules:
            return True
        return self.composite is not None and self.composite.ignores_idle

    @property
    def is_gradient(self) -> bool:
        """Whether this is PyTorch's own gradient, without a change on the way."""
        return self.carries == "gradient" and self.rectifier is None

    def is_plain(self, operation: Operation) -> bool:
        """Whether the operation's own derivative is what this method needs: then autograd does it alone."""
        kind = operation.kind
        if kind == "copying":
            return True
        if not self.follows_rules:
            return self.rectifier is None or not operation.rectifies
        if self.carries == "relevance":  # shared in proportion to values, which a derivative does not know
            return False
        if kind == "addition":
            return self.residual is None
        return kind in ("mixing", "rectifier") or (kind == "pooling" and self.pooling is None)

    def differentiates(self, operation: Operation) -> bool:
        """Whether this method asks for the derivative of an operation that is not plain.

        Where no method does, the step need not keep the graph of the operation.
        """
        if operation.kind not in ("elementwise", "normalisation", "rectifier"):
            return True
        if self.carries == "gradient":
            return self.rectifier is None or not operation.rectifies
        return operation.kind == "rectifier" and self.carries == "contribution"

    def rule_of(self, operation: Operation) -> Rule | None:
        """Rule of a layer or of another linear operation; None where there is no choice."""
        if operation.own_rule is not None:
            return operation.own_rule
        kind = operation.kind
        if kind == "layer" and self.composite is not None:
            return self.composite.choose(operation)
        if kind == "addition":
            return self.residual
        return self.pooling if kind == "pooling" else None


def relevance_method(
    composite: Composite,
    *,
    batch_norm: str = "merged",
    residual: Rule | None = None,
    pooling: Rule | None = None,
    operations: Mapping[str, str] | None = None,
    attention: str = "attnlrp",
    gates: str = "signal",
    own: Sequence[Handover] = (),
) -> Method:
    """Method of a composite: contributions travel, or relevance if some rule gives it to zeros."""
    others = [rule for rule in (residual, pooling) if rule is not None]
    to_zeros = composite.maps_relevance or any(rule.maps_relevance for rule in others)
    return Method(
        "relevance" if to_zeros else "contribution",
        composite,
        batch_norm=batch_norm,
        residual=residual,
        pooling=pooling,
        multiply=not to_zeros,
        operations=operations or {},
        attention=attention,
        gates=gates,
        own=tuple(own),
    )


@dataclass
class Current:
    """The method whose backward pass is running, and whether it is the last one through these operations.

    Steps are made once, in the forward pass, and gone through by one method after the other: all of them look
    here to see which one it is. `histories` are there where the explanation is to be differentiated.
    """

    method: Method
    is_last: bool = True
