"""Composites: which rule each layer gets; and adding to the rules and kinds of operations that are known.

A composite is an ordered list of (predicate, rule). A layer gets the rule of the first predicate that holds.
Lapuschkin et al., ICCV Workshops (2017) for the presets; Montavon et al., Springer LNCS 11700 (2019) for
epsilon_plus.

A package that wants its rules found by everybody declares the module that registers them as an entry point
in the group `tellwhy.rules`; it is imported when a rule or an operation is first looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar, overload

from torch import Tensor

from tellwhy.core.errors import InvalidParameter, UnsupportedModel
from tellwhy.explainers.propagation import rules
from tellwhy.explainers.propagation.engine.calls import SAME, Operation, operation_name
from tellwhy.explainers.propagation.engine.kinds import KINDS, check_kind
from tellwhy.explainers.propagation.engine.layers import LinearMap
from tellwhy.explainers.propagation.rules import RULES, Rule, alpha_beta, epsilon, flat, quotient, z_plus

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


def without_biases(composite: Composite) -> Composite:
    """The same rules for layers as if they had no biases: what an output got from its bias, inputs get."""
    return Composite([(predicate, _without_bias(rule)) for predicate, rule in composite.entries])


def _without_bias(rule: Rule) -> Rule:
    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        if layer.bias is None:
            return rule.function(layer, x, z, c)
        # Not z - b, which would lose digits where the bias is by far larger.
        own = layer.forward(x, layer.weight)
        handed = c if rule.maps_relevance else quotient(c * z, own)
        return rule.function(replace(layer, bias=None, owns_cotangent=False), x, own, handed)

    conserves = "always" if rule.conserves == "without bias" else rule.conserves
    return replace(rule, function=function, needs_input=True, conserves=conserves)


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


Factory = TypeVar("Factory", bound=Callable[..., Rule])


@overload
def register_rule(
    name: str, factory: None = None, *, replace: bool = ...
) -> Callable[[Factory], Factory]: ...
@overload
def register_rule(name: str, factory: Factory, *, replace: bool = ...) -> Factory: ...
def register_rule(name: str, factory: Any = None, *, replace: bool = False) -> Any:
    """Make a rule known by a name: `LRP(model, rule=name)` then takes it.

    A rule can also be used without a name, by `LRP(model, rule=<Rule>)` or in a `Composite`.

    Parameters
    ----------
    name
        The name; names of built-in rules are taken.
    factory
        A function that makes the rule. It takes the rule's settings by name, as `rule_params` gives them, and
        each of them has a default. Without it this is a decorator of that function.
    replace
        Whether it may take the place of a rule that was registered before.

    Examples
    --------
    >>> from tellwhy.explainers.propagation import RULES, Rule, temporary_registrations
    >>> with temporary_registrations():
    ...     @register_rule("halves")
    ...     def halves(share=0.5):
    ...         return Rule("halves", lambda layer, x, z, c: share * layer.backward(x, layer.weight, c))
    ...     print(RULES["halves"](share=0.25))
    halves
    """
    if factory is None:
        return lambda made: register_rule(name, made, replace=replace)
    # Checked before anything is stored: what was refused leaves no trace.
    _check_name("a rule", name)
    _check_factory(name, factory)
    RULES.add(name, factory, replace=replace)
    return factory


def register_operation(name: str | Callable[..., Any], kind: str, *, replace: bool = False) -> None:
    """Tell which kind an operation is that explaining stops at because it has no rule.

    `LRP(model, operations={name: kind})` does the same for one explainer.

    Parameters
    ----------
    name
        PyTorch's name of the function, as the error and `coverage(model, x)` give it; or the function.
    kind
        "elementwise": a function of single elements, which pass their relevance on; "rectifier": one with
        f(s·z) = s·f(z) for s > 0; "copying": each output is one of the inputs or a constant; "mixing": linear
        in its activations.
    replace
        Whether it may take the place of a kind that was registered before.

    Examples
    --------
    >>> import torch
    >>> from tellwhy.explainers.propagation import KINDS, temporary_registrations
    >>> with temporary_registrations():
    ...     register_operation(torch.sinc, "elementwise")
    ...     print(KINDS["sinc"])
    elementwise
    """
    plain = operation_name(name)[0] if callable(name) else name
    _check_name("an operation", plain)
    plain = SAME.get(plain, plain)  # operations are recorded by this name: another would never be found
    check_kind(plain, kind)
    KINDS.add(plain, kind, replace=replace)


@contextmanager
def temporary_registrations() -> Iterator[None]:
    """Forget, at the end of a `with` block, the rules and operations that were registered inside it."""
    with ExitStack() as undo:
        for table in (RULES, KINDS):
            undo.enter_context(table.temporary())
        yield


def check_operations(operations: Mapping[str, str]) -> None:
    """Refuse kinds of operations that `register_operation` would refuse."""
    for name, kind in operations.items():
        _check_name("an operation", name)
        check_kind(name, kind)
        if KINDS.get(name, kind) != kind:
            raise InvalidParameter(f"Operation {name!r} is known already: its kind is {KINDS[name]!r}.")


def _check_name(what: str, name: Any) -> None:
    # PyTorch's names are recorded without the underscores around them: `add` for `add_` and `__add__`.
    if not isinstance(name, str) or not name or name != name.strip("_ "):
        raise InvalidParameter(
            f"The name of {what} must be a string that neither starts nor ends with a blank or an "
            f"underscore. Got {name!r} instead."
        )


def _check_factory(name: str, factory: Any) -> None:
    """Make the rule once: a mistake is found where it was made, not when somebody uses the rule."""
    if isinstance(factory, Rule):
        raise InvalidParameter(
            f"register_rule({name!r}, …) takes a function that makes the rule. Got a Rule: use it as "
            "LRP(model, rule=…), or give a function that returns it."
        )
    advice = "A rule's own function (layer, x, z, c) goes into Rule(name, function)."
    try:
        made = factory()
    except TypeError as error:
        raise InvalidParameter(
            f"register_rule({name!r}, …) takes a function that makes the rule, with a default for each of "
            f"its settings. Calling it without settings failed: {error}. {advice}"
        ) from error
    if not isinstance(made, Rule):
        raise InvalidParameter(f"The function of rule {name!r} must return a Rule. Got {made!r}. {advice}")
