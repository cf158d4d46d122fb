"""From the variables of plain steps to those of another method, where it has better ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Point:
    """Dual variables, and the relative duality gap that they have."""

    duals: Any
    gap: float


def leap(engine: Any, tol: float, *, below: float, slack: float) -> Point | None:
    """Take the variables of an engine's other method, where it has one and their gap is `below` this.

    Otherwise the engine is left as it was, with lists made anew for this `slack`, and None is returned.
    """
    found = getattr(engine, "leap", lambda _: None)(tol)
    if found is None:
        return None
    before = engine.duals()
    engine.set_duals(found)
    gap = float(engine.certify(0.0).gap)
    if gap < below:
        return Point(found, gap)
    engine.set_duals(before)
    engine.certify(slack)
    return None
