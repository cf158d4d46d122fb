"""From the variables of plain steps to those of another method: when to try, and whether they are better."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tellwhy.classifiers.svm.large_c.interior_point import interior_point, is_small

LEAP_AFTER = 20  # epochs: then Lee–Lin–Wahba, whose plain steps creep, tries another method
SLOW_AFTER = 100  # epochs, and twice, four times … as many: the others do where those left will not suffice


@dataclass(frozen=True)
class Point:
    """Dual variables, and the relative duality gap that they have."""

    duals: Any
    gap: float


def leap(engine: Any, tol: float, *, below: float, slack: float) -> Point | None:
    """Take the variables of another method, where there is one and their gap is `below` this.

    Otherwise the engine is left as it was, with lists made anew for this `slack`, and None is returned.
    """
    found = _by_another_method(engine, tol)
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


def _by_another_method(engine: Any, tol: float) -> Any:
    """Dual variables by the engine's own other method, else by an interior-point method, or None."""
    if hasattr(engine, "leap"):
        return engine.leap(tol)
    comm = getattr(engine, "comm", None)
    is_whole = comm is None or comm.size == 1  # one of several ranks has its own features only
    return interior_point(engine.problem, tol) if is_whole and is_small(engine.problem) else None


def is_slow(loss: str, history: list[dict[str, Any]], *, tol: float, max_epochs: int) -> bool:
    """Whether the latest certificate is the first after so many epochs that steps seem to lead nowhere.

    Lee–Lin–Wahba is asked once; the others whenever the epochs have doubled, by the speed of the gap. Only
    the history decides, so that a training that is resumed leaps where it would have.
    """
    now = int(history[-1]["epoch"])
    before = int(history[-2]["epoch"]) if len(history) > 1 else 0
    if loss == "llw":
        return before < LEAP_AFTER <= now
    doublings = [(epochs // SLOW_AFTER).bit_length() for epochs in (before, now)]
    if doublings[0] == doublings[1]:
        return False
    # The speed since half of the epochs: from one certificate to the next the gap goes up and down.
    half = next(line for line in history if line["epoch"] >= now // 2)
    return epochs_to_tol(half, history[-1], tol) > max_epochs - now


def epochs_to_tol(before: dict[str, Any], now: dict[str, Any], tol: float) -> float:
    """Epochs until a gap of `tol`, if it goes on to fall by the same factor each epoch."""
    if not 0 < now["gap"] < before["gap"]:
        return math.inf
    speed = math.log(before["gap"] / now["gap"]) / max(now["epoch"] - before["epoch"], 1)
    return math.log(now["gap"] / tol) / speed
