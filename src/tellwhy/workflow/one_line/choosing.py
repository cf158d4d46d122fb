"""The method: by its name, by its class, as an explainer that is already made, or chosen automatically."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from tellwhy.core.errors import InvalidParameter, UnsupportedModel
from tellwhy.core.explainer import Explains
from tellwhy.core.params import nearest
from tellwhy.core.registry import Card, card, cards, explainer_card, explainer_cards
from tellwhy.core.score_function import ScoreFunction
from tellwhy.scoring import EncodedScore, NetworkOutput

OWN = ("background", "method", "output", "progress", "target", "task")  # what `explain` takes itself


def named_card(method: object) -> Card | None:
    """Return the card of a method given by name or class; None for 'auto' and for an explainer itself."""
    if isinstance(method, str):
        return None if method.lower() == "auto" else explainer_card(method)
    if isinstance(method, type):
        return _card_of_class(method)
    if isinstance(method, Explains):
        return None
    raise InvalidParameter(
        "method must be the name of an explainer (tellwhy.methods() lists them), its class, or one that is "
        f"already made. Got {method!r} instead."
    )


def _card_of_class(cls: type) -> Card:
    """Return the card of a class; one that was never registered gets a card of its own."""
    for known in explainer_cards():
        if known.name == cls.__name__ and known.cls is cls:
            return known
    if not callable(getattr(cls, "explain", None)):
        raise InvalidParameter(
            f"method={cls.__name__} is not an explainer: it has no explain(X). tellwhy.methods() lists them."
        )
    return Card(cls.__name__, "explainer", "", "", "", "", "", cls)


def chosen_card(score: ScoreFunction, method: str) -> Card:
    """Return the explainer of that name; for 'auto' the first that applies, the cheapest first."""
    if method != "auto":
        return card("explainer", method)
    if isinstance(score, NetworkOutput):  # explained from zero; what is missing is stated
        return card("explainer", "IntegratedGradients")
    seen = score.inner if isinstance(score, EncodedScore) and score.owner is not None else score
    considered = sorted(
        (c for c in cards("explainer") if c.automatic is not None), key=lambda c: c.automatic or 0
    )
    for candidate in considered:
        if candidate.applies is not None and candidate.applies(seen):
            return candidate
    raise UnsupportedModel(f"No explainer applies to {score.describes}.")


def made(chosen: Card, model: object, params: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return an explainer of a model, and those of the parameters that its `explain` takes."""
    taken = list(inspect.signature(chosen.cls.__init__).parameters)[2:]  # after the explainer and the model
    at_explain = list(inspect.signature(chosen.cls.explain).parameters)[2:]
    for name in params:
        if name not in taken and name not in at_explain:
            _refuse_parameter(chosen.name, name, [*taken, *at_explain])
    _check_required(chosen, params)
    explainer = chosen.cls(model, **{name: params[name] for name in params if name in taken})
    return explainer, {name: params[name] for name in params if name not in taken}


def _check_required(chosen: Card, params: Mapping[str, Any]) -> None:
    """Raise where a method has a parameter without a default that was not given."""
    signature = list(inspect.signature(chosen.cls.__init__).parameters.values())[2:]
    for parameter in signature:
        is_plain = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if is_plain and parameter.default is parameter.empty and parameter.name not in params:
            raise InvalidParameter(
                f"{chosen.name} needs the parameter {parameter.name!r}: "
                f"tellwhy.explain(model, X, {chosen.name!r}, {parameter.name}=…)."
            )


def with_background(chosen: Card, params: Mapping[str, Any], background: Any) -> dict[str, Any]:
    """Return the parameters with the background, for a method that takes it when it is made."""
    takes = "background" in inspect.signature(chosen.cls.__init__).parameters
    is_learned = isinstance(chosen.cls, type) and hasattr(chosen.cls, "fit")
    return {**params, "background": background} if takes and not is_learned else dict(params)


def _refuse_parameter(method: str, name: str, taken: list[str]) -> None:
    known = [*taken, *OWN]
    own = [parameter for parameter in taken if parameter not in OWN]
    listed = ", ".join(own) if own else "none of its own"
    raise InvalidParameter(
        f"{method} has no parameter {name!r}{nearest(name, known)} It takes: {listed}; and explain itself "
        f"takes {', '.join(OWN)}."
    )


def check_instance(method: Any, model: object, params: Mapping[str, Any]) -> None:
    """Raise for an explainer of another model, or parameters that come too late for it."""
    own = getattr(method, "model", model)
    if own is not model:
        raise InvalidParameter(
            f"method is a {type(method).__name__} of another model ({type(own).__name__}). Make it of the "
            f"model that is explained, or pass its class: method={type(method).__name__}."
        )
    if params:
        raise InvalidParameter(
            f"method is a {type(method).__name__} that is already made, so that {', '.join(params)} cannot "
            f"be set any more. Pass its class instead: method={type(method).__name__}, "
            f"{next(iter(params))}=…."
        )
