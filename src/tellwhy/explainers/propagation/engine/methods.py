"""Methods: what travels backwards through the recorded operations, and how each operation treats it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import Tensor

from tellwhy.explainers.propagation.engine.calls import Operation
from tellwhy.explainers.propagation.rules import Handover, Rule

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.composites import Composite

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
        divided by the activation) or "relevance" (R itself, where some rule gives relevance to zeros).
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

    @property
    def constant_roles(self) -> frozenset[str]:
        """Roles of activations that get no relevance in a product: see `operations.roles`."""
        if self.carries == "gradient":
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
        if self.carries == "gradient":
            return False
        return self.carries == "relevance" or self.composite is None or self.composite.needs_input

    @property
    def ignores_idle(self) -> bool:
        """Whether outputs of layers are not looked at where nothing comes down to them."""
        if self.carries == "gradient":
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
        if self.carries == "gradient":
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
