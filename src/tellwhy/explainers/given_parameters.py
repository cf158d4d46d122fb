"""Parameters that explainers are made with: unknown ones are answered with what to type instead."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import nearest


def refuse_unknown(cls: type, given: Iterable[str]) -> None:
    """Raise for the name of a parameter that the constructor of an explainer does not take.

    Examples
    --------
    >>> from tellwhy.explainers import Occlusion
    >>> Occlusion(len, n_backgrounds=5)
    Traceback (most recent call last):
    tellwhy.core.errors.InvalidParameter: Occlusion has no parameter 'n_backgrounds'; did you mean ...
    >>> Occlusion(len, background=[[1.0]])
    Traceback (most recent call last):
    tellwhy.core.errors.InvalidParameter: Occlusion takes ordinary rows by fit: ..., background=rows).
    """
    parameters = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    taken = list(parameters)[2:]  # after the explainer and the model
    for name in given:
        if name not in parameters:
            raise InvalidParameter(_answer(cls, name, taken))


def _answer(cls: type, name: str, taken: list[str]) -> str:
    owner = cls.__name__
    if name == "background" and hasattr(cls, "fit"):
        return (
            f"{owner} takes ordinary rows by fit: {owner}(model).fit(rows), or "
            f"tellwhy.explain(model, X, {owner!r}, background=rows)."
        )
    if name == "background":
        return f"{owner} compares with no other rows, so that a background would be ignored. Leave it out."
    if name == "progress":
        return f"{owner} shows how far it is while it explains: {owner}(model).explain(X, progress=True)."
    listed = ", ".join(taken) if taken else "none but the model"
    return f"{owner} has no parameter {name!r}{nearest(name, taken)} It takes: {listed}."
