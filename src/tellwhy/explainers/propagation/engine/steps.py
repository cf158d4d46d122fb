"""Methods, and steps: operations whose way up is their own, and whose way down is what the method says.

PyTorch's autograd walks back through the recorded operations. A step takes the place of one operation in that
walk: autograd gives it what travels at the output, contributions c or relevance R, and it returns what
travels at each of the inputs. A step says what becomes of contributions; of relevance that follows, R = c·a,
but for the steps that treat it in a way of their own. `derivative_steps` has the steps of operations that are
no layers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tellwhy.explainers.propagation.engine.calls import Operation
from tellwhy.explainers.propagation.engine.layers import BatchNorm, LinearMap
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
        travels = ctx.step.current.method.carries == "relevance"
        hand = ctx.step.hand_relevance if travels else ctx.step.hand_down
        return None, None, *hand(cotangent, inputs, out)


def times(x: Tensor, c: Tensor) -> Tensor:
    """x · c, and 0 where c is 0: an activation that a mask made −∞ has no relevance."""
    return (x * c).masked_fill_(c == 0, 0)


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
        """Return contributions of the inputs, from those of the output."""

    def hand_relevance(self, R: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """Return relevance of the inputs, from that of the output: by way of contributions."""
        found = self.hand_down(quotient(R, out), inputs, out)
        return [None if c is None else times(x, c) for x, c in zip(inputs, found, strict=True)]


@dataclass
class LinearStep(Step):
    """A linear map, by the rule that was chosen for it."""

    layer: LinearMap

    @property
    def rule(self) -> Rule | None:
        """The rule of the current method."""
        return self.operation.rule

    def hand_relevance(self, R: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """By a rule that maps relevance; else by way of contributions."""
        if self.rule is not None and self.rule.maps_relevance:
            return self.hand_down(R, inputs, out)
        return super().hand_relevance(R, inputs, out)


@dataclass
class LayerStep(LinearStep):
    """A layer with weights.

    Where no method `needs_inputs`, only the shapes of the inputs are kept.
    """

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

    def seen_by(self, rule: Rule) -> LinearMap:  # noqa: ARG002
        """Return the layer as a rule sees it."""
        return self.layer

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """By the rule; in proportion where there is none."""
        rule = self.rule or _PROPORTION
        layer = self.seen_by(rule)
        if self.operation.owns_cotangent:
            layer = replace(layer, owns_cotangent=True)
        return [rule.function(layer, (inputs or self.rooms(c))[0], out, c)]


@dataclass
class MergedStep(LayerStep):
    """Batch norm and the layer before it as one layer: relevance goes past the layer, to its input."""

    norm: BatchNorm | None = None

    def seen_by(self, rule: Rule) -> LinearMap:
        """Return the merged layer."""
        assert self.norm is not None
        if rule.needs_input or self.needs_inputs:
            return self.layer.scaled(*self.norm.line())
        return self.layer.scaled(self.norm.factor(), None)  # it looks at no bias: its sum is in the output


class AdditionStep(LinearStep):
    """A sum of several activations."""

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """By the rule; in proportion where there is none."""
        if self.rule is None:
            handed = [c * weight for weight in self.layer.weight]
        else:
            x = torch.stack([t.expand_as(out) for t in inputs])
            # What a mask made −∞ has no relevance: 0 · ∞ is 0 here.
            handed = list(self.rule.function(self.layer, x, out, c).masked_fill(c == 0, 0))
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
    return Tap.apply(x, lambda c, x: place.append(_relevance(c, x, current)))


def tapped(x: Tensor, operation: Operation, column: str, current: Current) -> Tensor:
    """The same activation; the relevance that comes down to it is added to a column of the operation."""

    def note(c: Tensor, x: Tensor) -> None:
        # Many small numbers of both signs: in the model's own precision their sum would be off.
        amount = float(_relevance(c, x, current).sum(dtype=torch.float64))
        setattr(operation, column, getattr(operation, column) + amount)

    return Tap.apply(x, note)


def _relevance(c: Tensor, x: Tensor, current: Current) -> Tensor:
    """Relevance of an activation, from what comes down to it."""
    if current.method.carries == "relevance":
        return c
    # Of complex numbers the sum over both parts.
    return (c.conj() * x).real if x.is_complex() else times(x, c)


class Portion(torch.autograd.Function):
    """The identity, which hands down `share` times what comes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, share: float) -> Tensor:
        """Return the same tensor."""
        ctx.share = share
        return x.view_as(x)  # autograd wants another tensor than the input, which costs no memory here

    @staticmethod
    def backward(ctx: Any, c: Tensor) -> tuple[Any, ...]:
        """Hand down the share."""
        return c * ctx.share, None


def portion(x: Tensor, share: float) -> Tensor:
    """The same activation, to which only a share of the relevance comes down."""
    return x if share == 1 else Portion.apply(x, share)


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
        """Roles of activations that get no relevance in a product: see `origins`."""
        if not self.follows_rules:
            return frozenset()
        gates = {"gate"} if self.gates == "signal" else set()
        weights = {"weights"} if self.attention == "detached" else set()
        return frozenset({"scale"} | gates | weights)

    @property
    def forward_choices(self) -> Hashable:
        """What the forward pass has to know: methods with the same choices share one."""
        if not self.follows_rules:
            return self.carries, self.is_gradient, self.references
        named = tuple(sorted(self.operations.items()))
        return self.batch_norm, named, self.attention, self.gates, self.own

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
    here to see which one it is.
    """

    method: Method
    is_last: bool = True
