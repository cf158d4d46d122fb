"""The catalogue of detectors and explainers: what each one needs, costs and cites.

The methods of tellwhy stand in the table of `core.catalogue`, or enter by the decorator `register` in a file
of their own; those of others enter by the same decorator. `tellwhy.methods()` prints the catalogue, the
contract suites run over it. Files with a decorator, and installed packages with an entry point for methods,
are loaded when the whole catalogue is first read, those of the table when they are used. Rules of networks,
kinds of data, forms of output and checks have groups too (`GROUPS`); they are loaded when first looked up.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TypeVar

from tellwhy.core.card import Applies, Card
from tellwhy.core.catalogue import METHODS
from tellwhy.core.errors import InvalidParameter, TellwhyWarning

C = TypeVar("C", bound=type)

EXPLAINER_ROLES = {
    "explainer": "scores of rows",
    "network explainer": "outputs of a PyTorch network",
    "graph explainer": "nodes of a graph",
    "classifier explainer": "labels that a classifier gives",
    "patch explainer": "images and sequences, through a model of their patches",
    "ensemble": "what several explainers, given in the place of a model, say together",
}
"""The kinds of explainers, and what each explains."""

ROLES = ("detector", *EXPLAINER_ROLES)
# group of entry points → the folder of ours, and the decorator by which a file of it enters what it holds
GROUPS = {
    "tellwhy.detectors": ("detectors", "register("),
    "tellwhy.explainers": ("explainers", "register("),
    "tellwhy.rules": None,
    "tellwhy.kinds": ("kinds", "kind("),
    "tellwhy.forms": ("views", "form("),
    "tellwhy.checks": ("checks", "add_check("),
}
PACKAGE = Path(__file__).parents[1]

_cards: dict[tuple[str, str], Card] = {(card.role, card.name): card for card in METHODS}
_read_groups: set[str] = set()  # groups of entry points that were loaded


def register(
    role: str,
    *,
    needs: str,
    cost: str,
    exactness: str,
    citation: str,
    family: str = "detectors",
    applies: Applies | None = None,
    automatic: int | None = None,
) -> Callable[[C], C]:
    """Enter a class into the catalogue.

    Parameters
    ----------
    role
        What it is: 'detector', or one of `EXPLAINER_ROLES`, which says what each of them explains.
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
        _enter(Card(name, role, family, needs, cost, exactness, citation, cls, applies, automatic))
        return cls

    return enter


def _enter(card: Card) -> None:
    """Keep a card, unless another class has its name.

    The same class may be entered again: a notebook's cell is run twice. Explainers are looked up by name
    whatever their role, so no two of them may share one.
    """
    from tellwhy.core.params import simplify_name  # loads numpy, which help does without

    is_detector = card.role == "detector"
    for key, held in list(_cards.items()):
        if (held.role == "detector") != is_detector or simplify_name(held.name) != simplify_name(card.name):
            continue
        if held.origin != card.origin:
            raise InvalidParameter(
                f"The name {card.name!r} is taken: {held.origin} has a {held.role} called {held.name!r}, and "
                f"{card.origin} registers another {card.role}. Rename the new one."
            )
        del _cards[key]
    _cards[card.role, card.name] = card


def forget(cls: type) -> None:
    """Take a class out of the catalogue again."""
    for key in [key for key, entered in _cards.items() if entered.where is cls]:
        del _cards[key]


def card_of(cls: type) -> Card | None:
    """The card of a class that is loaded; nothing is loaded for it."""
    same = (held for held in _cards.values() if held.name == cls.__name__ and held.origin == cls.__module__)
    return next((held for held in same if held.cls is cls), None)


def cards(role: str) -> list[Card]:
    """All cards of a role, by name."""
    _check_role(role)
    load_entry_points(_group_of(role))
    return list_entered(role)


def list_entered(role: str) -> list[Card]:
    """The cards of a role that were entered so far, by name: nothing is loaded."""
    return sorted((c for c in _cards.values() if c.role == role), key=lambda c: c.name)


def card(role: str, name: str) -> Card:
    """Return the card of that name, whatever its letter case and underscores; or list the names there are."""
    _check_role(role)
    return _find_card(name, list_entered(role)) or _find_or_refuse(name, cards(role), role)


def list_explainers() -> list[Card]:
    """All cards of explainers, those of rows first."""
    return [card for role in EXPLAINER_ROLES for card in cards(role)]


def find_explainer(name: str) -> Card:
    """Return the card of the explainer of that name, whatever it explains; or list the names there are."""
    known = [card for role in EXPLAINER_ROLES for card in list_entered(role)]
    return _find_card(name, known) or _find_or_refuse(name, list_explainers(), "explainer")


def _find_card(name: str, among: list[Card]) -> Card | None:
    from tellwhy.core.params import simplify_name

    return next((card for card in among if simplify_name(card.name) == simplify_name(name)), None)


def _find_or_refuse(name: str, among: list[Card], what: str) -> Card:
    from tellwhy.core.params import nearest

    candidate = _find_card(name, among)
    if candidate is not None:
        return candidate
    names = [c.name for c in among]
    where = "tellwhy.methods() lists them." if what == "explainer" else f"There are: {', '.join(names)}."
    raise InvalidParameter(f"There is no {what} named {name!r}{nearest(name, names)} {where}")


def _check_role(role: str) -> None:
    if role not in ROLES:
        raise InvalidParameter(f"There is no role {role!r}. There are: {', '.join(ROLES)}.")


def _group_of(role: str) -> str:
    return "tellwhy.detectors" if role == "detector" else "tellwhy.explainers"


def load_entry_points(group: str, known: Collection[str] = ()) -> None:
    """Import what enters itself in a group of `GROUPS`, the first time it is asked for.

    That is files of ours with the group's decorator, but for those that are `known` to hold nothing new, and
    what other packages declare.
    """
    if group in _read_groups:  # what is installed does not change while Python runs
        return
    _read_groups.add(group)
    own = GROUPS[group]
    for name in [] if own is None else list_decorated(*own):
        if name not in known:
            import_module(name)
    for point in entry_points(group=group):
        _load_entry_point(point)


def list_decorated(folder: str, decorator: str) -> list[str]:
    """Names of our modules in which a decorator stands at the beginning of a line; none is loaded."""
    sign = f"\n@{decorator}".encode()
    files = sorted(PACKAGE.joinpath(folder).rglob("*.py"))
    found = [path.relative_to(PACKAGE.parent).with_suffix("") for path in files if sign in path.read_bytes()]
    return [".".join(path.parts) for path in found]


def _load_entry_point(point: EntryPoint) -> None:
    """Import what another package registers; a broken one is reported and does not stop anybody."""
    # however the other package fails, the methods of all others must stay usable
    try:
        point.load()
    except Exception as problem:
        warnings.warn(
            f"The entry point {point.name!r} of the group {point.group!r} ({point.value}) could not be "
            f"loaded: {type(problem).__name__}: {problem}. Its methods are missing; update or uninstall the "
            "package that declares it.",
            TellwhyWarning,
            stacklevel=2,
        )
