"""The catalogue of detectors and explainers: what each one needs, costs and cites.

A class enters by the decorator `register`; `tellwhy.methods()` prints the catalogue, the contract suites run
over it. The folders that hold such classes, and installed packages with an entry point in a group of
`GROUPS`, are loaded when the catalogue is first read.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from tellwhy.core.errors import InvalidParameter, TellwhyWarning

C = TypeVar("C", bound=type)

ROLES = (
    "detector",
    "explainer",
    "network explainer",
    "graph explainer",
    "classifier explainer",
    "patch explainer",
)
GROUPS = ("tellwhy.detectors", "tellwhy.explainers", "tellwhy.rules")


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
    where: type | str = field(repr=False)  # the class, or the module to load it from
    applies: Callable[[Any], bool] | None = field(default=None, repr=False)
    automatic: int | None = None  # order in which method="auto" considers it; None: never

    @property
    def cls(self) -> Any:
        """The class; its module is loaded when this is first asked for."""
        return (
            getattr(importlib.import_module(self.where), self.name)
            if isinstance(self.where, str)
            else self.where
        )


_cards: dict[tuple[str, str], Card] = {}
# Modules that enter cards when imported. A folder's own `__init__` may announce more of them.
_announced = ["tellwhy.detectors", "tellwhy.explainers"]
_read_entry_points = False


def register(
    role: str,
    *,
    needs: str,
    cost: str,
    exactness: str,
    citation: str,
    family: str = "detectors",
    applies: Callable[[Any], bool] | None = None,
    automatic: int | None = None,
) -> Callable[[C], C]:
    """Enter a class into the catalogue.

    Parameters
    ----------
    role
        What it is: one of `ROLES`. An 'explainer' explains scores of rows; the others say what they explain
        instead.
    needs, cost, exactness, citation
        One phrase each, for the reader of `tellwhy.methods()`.
    family
        The folder it lives in.
    applies
        Of an explainer: whether it can explain a score function (of a classifier explainer: a fitted model).
    automatic
        Place in the order in which `method="auto"` considers it; None: never.

    Examples
    --------
    >>> @register("detector", needs="rows", cost="none", exactness="exact", citation="none")
    ... class Lazy: ...
    >>> card("detector", "lazy").cls is Lazy
    True
    >>> forget(Lazy)
    """
    _check_role(role)

    def enter(cls: C) -> C:
        name = cls.__name__
        _cards[role, name] = Card(
            name, role, family, needs, cost, exactness, citation, cls, applies, automatic
        )
        return cls

    return enter


def register_later(card: Card) -> None:
    """Enter a class whose module is loaded when it is first used: it may need an extra that is not installed."""
    _check_role(card.role)
    _cards[card.role, card.name] = card


def forget(cls: type) -> None:
    """Take a class out of the catalogue again."""
    for key in [key for key, entered in _cards.items() if entered.where is cls]:
        del _cards[key]


def announce(package: str, modules: Iterable[str]) -> None:
    """Say which modules below a package enter cards; they are imported when the catalogue is first read."""
    _announced.extend(dict.fromkeys(f"{package}.{module}" for module in modules))


def cards(role: str) -> list[Card]:
    """All cards of a role, by name."""
    _check_role(role)
    _load_announced()
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


def _check_role(role: str) -> None:
    if role not in ROLES:
        raise InvalidParameter(f"There is no role {role!r}. There are: {', '.join(ROLES)}.")


def _load_announced() -> None:
    global _read_entry_points  # noqa: PLW0603  (what is installed does not change while Python runs)
    while _announced:  # a package that is imported may announce modules of its own
        importlib.import_module(_announced.pop(0))
    if not _read_entry_points:
        _read_entry_points = True
        for group in GROUPS:
            for point in entry_points(group=group):
                _load_entry_point(point)


def _load_entry_point(point: EntryPoint) -> None:
    """Import what another package registers; a broken one is reported and does not stop anybody."""
    try:
        point.load()
    except Exception as problem:
        warnings.warn(
            f"The entry point {point.name!r} of the group {point.group!r} ({point.value}) could not be loaded: "
            f"{problem}. Its methods are missing; update or uninstall the package that declares it.",
            TellwhyWarning,
            stacklevel=2,
        )
