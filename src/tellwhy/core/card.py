"""The card of a method, and ways to say what it applies to without loading the method."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Applies = Callable[[Any], bool]


@dataclass(frozen=True)
class Card:
    """What a reader should know of a method before using it."""

    name: str
    role: str  # one of ROLES
    family: str
    needs: str
    cost: str
    exactness: str
    citation: str
    where: type | str = field(repr=False)  # the class, or the module that it is in
    applies: Applies | None = field(default=None, repr=False)
    automatic: int | None = None  # order in which method="auto" considers it; None: never

    @property
    def cls(self) -> Any:
        """The class; its module is loaded when this is first asked for."""
        if isinstance(self.where, str):
            return getattr(importlib.import_module(self.where), self.name)
        return self.where

    @property
    def origin(self) -> str:
        """The module that the class comes from."""
        return self.where if isinstance(self.where, str) else self.where.__module__


def anything(_: Any) -> bool:
    """Say that a method applies to any score."""
    return True


def has(*abilities: str) -> Applies:
    """Say that it applies to scores that have all abilities, named in `core.score` or by their place."""
    return lambda score: all(_can(score, name) for name in abilities)


def has_any(*abilities: str) -> Applies:
    """Say that it applies to scores that have one of some abilities."""
    return lambda score: any(_can(score, name) for name in abilities)


def has_none(*abilities: str) -> Applies:
    """Say that it applies to scores that have none of some abilities."""
    return lambda score: not any(_can(score, name) for name in abilities)


def _can(score: Any, ability: str) -> bool:
    return isinstance(score, _load_applies(ability if ":" in ability else f"tellwhy.core.score:{ability}"))


def _load_applies(place: str) -> Any:
    module, name = place.split(":")
    return getattr(importlib.import_module(module), name)


def is_a(place: str) -> Applies:
    """Say that it applies to scores of a class: nothing is one whose module was not loaded yet."""
    return lambda score: (
        place.split(":", maxsplit=1)[0] in sys.modules and isinstance(score, _load_applies(place))
    )


def asks(place: str) -> Applies:
    """Say that a function tells what it applies to, which is loaded to answer."""
    return lambda score: bool(_load_applies(place)(score))


def has_points(score: Any) -> bool:
    """Say that it applies to scores made of support points or of neighbours."""
    from tellwhy.core.score import support_points

    return support_points(score) is not None
