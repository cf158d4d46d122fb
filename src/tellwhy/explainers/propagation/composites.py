"""Composites: which rule each layer gets.

A composite is an ordered list of (predicate, rule). A layer gets the rule of the first predicate that holds.
Lapuschkin et al., ICCV Workshops (2017) for the presets; Montavon et al., Springer LNCS 11700 (2019) for
epsilon_plus.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tellwhy.core.errors import UnsupportedModel
from tellwhy.explainers.propagation.operations.operation import Operation
from tellwhy.explainers.propagation.rules import Rule, alpha_beta, epsilon, flat, z_plus

Predicate = Callable[[Operation], bool]


def every(operation: Operation) -> bool:  # noqa: ARG001
    """Hold for every layer."""
    return True


def first(operation: Operation) -> bool:
    """Hold for layers that see the input before any other layer."""
    return operation.first


def last(operation: Operation) -> bool:
    """Hold for the layer that is executed last."""
    return operation.last


def dense(operation: Operation) -> bool:
    """Hold for fully connected layers."""
    return operation.name.startswith("linear")


def convolution(operation: Operation) -> bool:
    """Hold for convolutions, transposed ones among them."""
    return operation.name.startswith("conv")


def batch_norm(operation: Operation) -> bool:
    """Hold for batch norm as a layer of its own."""
    return operation.name == "batch_norm"


@dataclass(frozen=True)
class Composite:
    """An ordered list of (predicate, rule) for layers.

    Examples
    --------
    >>> from tellwhy.explainers.propagation.rules import epsilon, z_plus
    >>> plus = Composite([(lambda op: op.path.startswith("features"), z_plus()), (every, epsilon(0.1))])
    >>> print(plus.choose(Operation(0, "linear", "layer", "head")))
    epsilon(epsilon=0.1)
    """

    entries: Sequence[tuple[Predicate, Rule]]

    @property
    def maps_relevance(self) -> bool:
        """Whether some rule gives relevance to inputs that are zero."""
        return any(rule.maps_relevance for _, rule in self.entries)

    def choose(self, operation: Operation) -> Rule:
        """Return the rule of a layer."""
        for predicate, rule in self.entries:
            if predicate(operation):
                return rule
        raise UnsupportedModel(
            f"The composite has no rule for {operation.where} (operation {operation.index}). "
            "End its list with (every, <rule>)."
        )


def _by_type(dense_rule: Rule, convolution_rule: Rule, *before: tuple[Predicate, Rule]) -> Composite:
    """One rule for dense layers and batch norm of its own, another for convolutions; `before` goes first."""
    return Composite(
        [*before, (convolution, convolution_rule), (dense, dense_rule), (batch_norm, dense_rule)]
    )


# Made anew at each use: nothing that somebody does to one of them reaches the next.
COMPOSITES: Mapping[str, Callable[[], Composite]] = MappingProxyType(
    {
        "epsilon_plus": lambda: _by_type(epsilon(), z_plus()),
        "epsilon_plus_flat": lambda: _by_type(epsilon(), z_plus(), (first, flat())),
        "preset_a": lambda: _by_type(epsilon(0.1), alpha_beta(1, 0)),
        "preset_b": lambda: _by_type(epsilon(0.1), alpha_beta(2, 1)),
        "preset_a_flat": lambda: _by_type(epsilon(0.1), alpha_beta(1, 0), (first, flat())),
        "preset_b_flat": lambda: _by_type(epsilon(0.1), alpha_beta(2, 1), (first, flat())),
    }
)
