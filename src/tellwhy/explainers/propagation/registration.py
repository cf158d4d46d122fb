"""Adding to what is known: rules by name, and kinds of operations.

A package that wants its rules found by everybody declares the module that registers them as an entry point
in the group `tellwhy.rules`; it is imported when a rule or an operation is first looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar, overload

from tellwhy.core.errors import InvalidParameter
from tellwhy.explainers.propagation.operations.kinds import KINDS, check_kind
from tellwhy.explainers.propagation.operations.operation import SAME, operation_name
from tellwhy.explainers.propagation.rules import RULES, Rule

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
