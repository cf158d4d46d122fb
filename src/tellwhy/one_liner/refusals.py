"""Arguments of `tellwhy.explain` that would change nothing are refused, with what to do instead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tellwhy.core.errors import InvalidParameter

if TYPE_CHECKING:
    from tellwhy.one_liner.question import Asked

_USUAL = {"task": "auto", "target": None, "output": "auto"}


def refuse_asked(asked: Asked, names: Iterable[str], why: str) -> None:
    """Raise for the first of some arguments that was given: `why` says why it would change nothing."""
    for name in names:
        given: Any = getattr(asked, name)
        if given is not _USUAL[name] and not (isinstance(given, str) and given == _USUAL[name]):
            raise InvalidParameter(f"{name}={given!r} would change nothing: {why} Leave it out.")


def refuse_background(method: str) -> None:
    """Raise for a background given to a method that compares with nothing."""
    raise InvalidParameter(
        f"{method} compares with no other rows, so that a background would be ignored. Leave it out, or "
        "use a method that has one, such as IntegratedGradients, Occlusion or KernelShap."
    )
