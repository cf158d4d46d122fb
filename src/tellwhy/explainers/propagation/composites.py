"""Composites: which rule each layer gets.

A composite is an ordered list of (predicate, rule). A layer gets the rule of the first predicate that holds.
Lapuschkin et al., ICCV Workshops (2017) for the presets; Montavon et al., Springer LNCS 11700 (2019) for
epsilon_plus.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tellwhy.core.errors import InvalidParameter, UnsupportedModel
from tellwhy.explainers.propagation import rules
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

    @property
    def needs_input(self) -> bool:
        """Whether some rule looks at the values of a layer's input."""
        return any(rule.needs_input for _, rule in self.entries)

    @property
    def ignores_idle(self) -> bool:
        """Whether no rule looks at outputs to which nothing comes down."""
        return all(rule.ignores_idle for _, rule in self.entries)

    def __str__(self) -> str:
        listed = [f"{getattr(predicate, '__name__', 'chosen')}: {rule}" for predicate, rule in self.entries]
        return "; ".join(listed)

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


def _epsilon_plus(*before: tuple[Predicate, Rule], **settings: float) -> Composite:
    return _by_type(epsilon(**settings), z_plus(), *before)


def _preset_a(*before: tuple[Predicate, Rule], epsilon: float = 0.1) -> Composite:
    return _by_type(rules.epsilon(epsilon), alpha_beta(1, 0), *before)


def _preset_b(*before: tuple[Predicate, Rule], epsilon: float = 0.1, conserve: bool = False) -> Composite:
    return _by_type(rules.epsilon(epsilon), alpha_beta(2, 1, conserve=conserve), *before)


def _with_flat(make: Callable[..., Composite]) -> Callable[..., Composite]:
    """The same composite with the flat rule for the first layer."""
    return lambda **settings: make((first, flat()), **settings)


# Made anew at each use: nothing that somebody does to one of them reaches the next. Each takes the settings
# of its rules, as LRP's `rule_params`.
COMPOSITES: Mapping[str, Callable[..., Composite]] = MappingProxyType(
    {
        "epsilon_plus": _epsilon_plus,
        "epsilon_plus_flat": _with_flat(_epsilon_plus),
        "preset_a": _preset_a,
        "preset_b": _preset_b,
        "preset_a_flat": _with_flat(_preset_a),
        "preset_b_flat": _with_flat(_preset_b),
    }
)


def composite_named(name: str, settings: Mapping[str, Any]) -> Composite:
    """Make the composite of a name in `COMPOSITES` with these settings."""
    try:
        return COMPOSITES[name](**settings)
    except TypeError as error:
        raise InvalidParameter(
            f"rule_params do not fit the composite {name!r}: {error}. It takes 'epsilon'"
            + (", 'conserve'." if name.startswith("preset_b") else ".")
        ) from error
