"""Methods: what travels backwards through the recorded operations, and how each operation treats it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from tellwhy.explainers.propagation.composites import Composite
from tellwhy.explainers.propagation.engine.operations import Operation
from tellwhy.explainers.propagation.rules import Rule

BATCH_NORM = ("merged", "one_linear", "two_linear", "four_coefficients")


@dataclass(frozen=True)
class Method:
    """What travels backwards, and how.

    `carries` is "gradient" (plain derivatives), "contribution" (c = R/a) or "relevance" (R, where some rule
    gives relevance to zeros). `rectifier` replaces the backward pass of ReLU where gradients travel.
    `batch_norm` is the treatment of batch norm, `residual` the rule of additions of two activations,
    `pooling` that of average pools (None: in proportion, which is their derivative). `multiply` multiplies
    what reaches the input by the input.
    """

    carries: str
    composite: Composite | None = None
    rectifier: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None
    batch_norm: str = "merged"
    residual: Rule | None = None
    pooling: Rule | None = None
    multiply: bool = False

    def is_plain(self, operation: Operation) -> bool:
        """Whether the operation's own derivative is what this method needs."""
        kind = operation.kind
        if kind == "copying":
            return True
        if self.carries != "contribution":
            return self.carries == "gradient" and (self.rectifier is None or operation.name != "relu")
        own = {"addition": self.residual, "pooling": self.pooling}.get(kind)
        return kind in ("mixing", "rectifier", "addition", "pooling") and own is None

    def differentiates(self, operation: Operation) -> bool:
        """Whether this method asks for the operation's derivative where it is not plain."""
        if operation.kind in ("elementwise", "normalisation", "rectifier"):
            rectified = self.rectifier is not None and operation.name == "relu"
            homogeneous = operation.kind == "rectifier" and self.carries == "contribution"
            return homogeneous or (self.carries == "gradient" and not rectified)
        return True

    def rule_of(self, operation: Operation) -> Rule | None:
        """Rule of a layer or of another linear operation; None where there is no choice."""
        if operation.own_rule is not None:
            return operation.own_rule
        if operation.kind == "layer" and self.composite is not None:
            return self.composite.choose(operation)
        return {"addition": self.residual, "pooling": self.pooling}.get(operation.kind)


def relevance_method(
    composite: Composite,
    *,
    batch_norm: str = "merged",
    residual: Rule | None = None,
    pooling: Rule | None = None,
) -> Method:
    """Method of a composite: contributions travel unless some rule gives relevance to inputs that are zero."""
    to_zeros = composite.maps_relevance or any(
        rule is not None and rule.maps_relevance for rule in (residual, pooling)
    )
    return Method(
        "relevance" if to_zeros else "contribution",
        composite,
        batch_norm=batch_norm,
        residual=residual,
        pooling=pooling,
        multiply=not to_zeros,
    )


@dataclass
class Current:
    """The method whose backward pass is running, and whether it is the last one through these operations."""

    method: Method
    is_last: bool = True
