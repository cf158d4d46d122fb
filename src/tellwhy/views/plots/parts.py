"""The parts of one row's score: its main features, all others, and what was not attributed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.score_function import Floats
from tellwhy.views.plots.cells import row_labels
from tellwhy.views.plots.colors import NEUTRAL, ODD, USUAL
from tellwhy.views.wording import count

NOT_ATTRIBUTED = "not attributed"
_SMALL = 1e-9  # of the largest part: what rounding leaves is not drawn


@dataclass(frozen=True)
class Part:
    """One bar."""

    name: str
    amount: float
    color: str = NEUTRAL
    above: float = 0.0  # lengths of its whiskers
    below: float = 0.0


def feature_parts(row: Explanation, max_features: int) -> list[Part]:
    """Return the main features of one row, largest first, with their cells."""
    flat = row.values.ravel()
    above, below = _whiskers(row)
    order = np.argsort(-np.abs(flat), kind="stable")[:max_features]
    names = row_labels(row, order) if len(row.feature_shape) == 1 else [row.names()[j] for j in order]
    colors = np.where(flat < 0, USUAL, ODD)
    return [
        Part(name, float(flat[j]), str(colors[j]), float(above[j]), float(below[j]))
        for name, j in zip(names, order, strict=True)
    ]


def rest_parts(row: Explanation, max_features: int) -> list[Part]:
    """Return what belongs to none of the main features: all others, and what was not attributed."""
    if row.residual is None:  # of other kinds, values are no parts of the score: there is no rest
        return []
    flat = row.values.ravel()
    others = np.argsort(-np.abs(flat), kind="stable")[max_features:]
    parts = []
    if len(others):
        parts.append(Part(count(len(others), "other feature"), float(flat[others].sum())))
    rest = float(row.residual[0])
    scale = max(float(np.abs(flat).max(initial=0.0)), abs(float(row.scores[0])))
    return [*parts, Part(NOT_ATTRIBUTED, rest)] if abs(rest) > _SMALL * scale else parts


def in_shares(explanation: Explanation, owner: str) -> Explanation:
    """Return values that are shares of a score, which such a figure adds up; raise where there are none.

    Relevance beside what is usual of each column is put back to the relevance itself.
    """
    if explanation.kind == "relative" and "relevance" in explanation.extras:
        method = f"{explanation.method} (plain relevance)"
        values = np.asarray(explanation.extras["relevance"])
        return replace(explanation, values=values, kind="attribution", method=method)
    if explanation.kind != "attribution":
        raise InvalidInput(
            f"{owner} adds up shares of a score. Values of the kind {explanation.kind!r} are none: draw "
            "them with plot.bar or plot.beeswarm."
        )
    return explanation


def _whiskers(row: Explanation) -> tuple[Floats, Floats]:
    """Lengths above and below each value: its credible interval where known, else its standard error."""
    flat = row.values.ravel()
    if "interval" in row.extras:
        low, high = np.asarray(row.extras["interval"]).reshape(-1, 2).T
        return np.maximum(high - flat, 0.0), np.maximum(flat - low, 0.0)
    errors = np.zeros_like(flat) if row.stderr is None else row.stderr.ravel()
    return errors, errors
