"""The catalogue of detectors and explainers: what each one needs, costs and cites.

A class enters by its decorator; `tellwhy.methods()` prints the catalogue and the contract suites run over it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tellwhy.core.errors import InvalidParameter

C = TypeVar("C", bound=type)


@dataclass(frozen=True)
class Card:
    """What a reader should know of a method before using it."""

    name: str
    role: str  # "detector" | "explainer" | "network explainer" | "graph explainer" | "classifier explainer"
    family: str
    needs: str
    cost: str
    exactness: str
    citation: str
    where: type | str = field(repr=False)  # the class, or the module to load it from
    applies: Callable[[Any], bool] | None = field(default=None, repr=False)
    automatic: int | None = None  # order in which method="auto" considers it; None: never

    @property
    def cls(self) -> Any:
        """The class; its module is loaded when this is first asked for."""
        return getattr(importlib.import_module(self.where), self.name) if isinstance(self.where, str) else self.where


_cards: dict[tuple[str, str], Card] = {}


def register_explainer(
    *,
    family: str,
    needs: str,
    cost: str,
    exactness: str,
    citation: str,
    applies: Callable[[Any], bool],
    automatic: int | None = None,
) -> Callable[[C], C]:
    """Enter an explainer; `applies(score)` tells whether it can explain a score function."""

    def enter(cls: C) -> C:
        name = cls.__name__
        _cards["explainer", name] = Card(
            name, "explainer", family, needs, cost, exactness, citation, cls, applies, automatic
        )
        return cls

    return enter


def register_detector(*, needs: str, cost: str, exactness: str, citation: str) -> Callable[[C], C]:
    """Enter a detector."""

    def enter(cls: C) -> C:
        name = cls.__name__
        _cards["detector", name] = Card(name, "detector", "detectors", needs, cost, exactness, citation, cls)
        return cls

    return enter


def register_network_explainer(
    name: str, *, module: str, family: str, needs: str, cost: str, exactness: str, citation: str
) -> None:
    """Enter an explainer of networks, whose module is loaded when it is first used."""
    role = "network explainer"
    _cards[role, name] = Card(name, role, family, needs, cost, exactness, citation, module)


def register_graph_explainer(*, family: str, needs: str, cost: str, exactness: str, citation: str) -> Callable[[C], C]:
    """Enter an explainer of nodes, which reads a graph beside the rows."""

    def enter(cls: C) -> C:
        role, name = "graph explainer", cls.__name__
        _cards[role, name] = Card(name, role, family, needs, cost, exactness, citation, cls)
        return cls

    return enter


def register_classifier_explainer(
    *, family: str, needs: str, cost: str, exactness: str, citation: str, applies: Callable[[Any], bool]
) -> Callable[[C], C]:
    """Enter an explainer of labels; `applies(model)` tells whether it can explain a fitted classifier."""

    def enter(cls: C) -> C:
        role, name = "classifier explainer", cls.__name__
        _cards[role, name] = Card(name, role, family, needs, cost, exactness, citation, cls, applies)
        return cls

    return enter


def cards(role: str) -> list[Card]:
    """All cards of a role ('detector', 'explainer', or 'network', 'graph' or 'classifier explainer'), by name."""
    return sorted((c for c in _cards.values() if c.role == role), key=lambda c: c.name)


def card(role: str, name: str) -> Card:
    """Return the card of that name, whatever its letter case and underscores; or list the names there are."""

    def plain(text: str) -> str:
        return text.replace("_", "").replace("-", "").lower()

    for candidate in cards(role):
        if plain(candidate.name) == plain(name):
            return candidate
    names = ", ".join(c.name for c in cards(role))
    raise InvalidParameter(f"There is no {role} named {name!r}. There are: {names}.")
