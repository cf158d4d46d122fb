"""First-order Taylor decomposition at a point on the way to the nearest support point."""

from __future__ import annotations

import numpy as np

from tellwhy.core.registry import register
from tellwhy.core.score_function import CentreDistance, Floats, Integers
from tellwhy.explainers.base import (
    Attribution,
    Explainer,
    Rows,
    left_out_argument,
    left_out_extra,
    needs_member,
)
from tellwhy.scoring.scores.distance_score import nearest_points

_BISECTIONS = 40


@register(
    "explainer",
    family="gradients",
    needs="a model made of distances to support points, neighbours or centres",
    cost="about 40 scores and one gradient",
    exactness="first order; what higher orders hold is stated as residual",
    citation="Bach, Binder, Montavon, Klauschen, Müller, Samek, PLOS ONE 10 (2015); Kauffmann et al. (2020), section 4",
    applies=lambda score: (
        getattr(score, "expansion", None) is not None and getattr(score, "gradient", None) is not None
    ),
)
class SimpleTaylor(Explainer):
    """R_i = ∂o/∂x_i(x̃) · (x_i − x̃_i), with x̃ on the segment from x to its nearest support point.

    x̃ is where the score falls to the model's threshold (or, for a model without one, half-way down to its
    value at the support point); its score is the base value. Rows that are below that level already are their
    own reference: their values are 0. The reference jumps as the nearest support point changes, which is this
    baseline's weakness.

    Examples
    --------
    >>> from tellwhy.detectors import OneClassSVM
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> explanation = SimpleTaylor(OneClassSVM().fit(X)).explain([[0.0, 5.0]])
    >>> int(explanation.values.argmax())
    1
    """

    kind = "attribution"

    def _attribute(self, rows: Rows) -> Attribution:
        needs_member(rows.score, "expansion", "SimpleTaylor", "support points")
        needs_member(rows.score, "gradient", "SimpleTaylor", "a gradient")
        others = left_out_argument(rows)
        scores = rows.score.value(rows.X, *others)
        goal = _nearest(rows, *others)
        level = _level(rows, scores, rows.score.value(goal, *others))
        reference = _bisect(rows, goal, level, others)
        slope = rows.score.gradient(reference, *others)
        base = rows.score.value(reference, *others)
        return Attribution(slope * (rows.X - reference), scores, base, extras=left_out_extra(rows, *others))


def _nearest(rows: Rows, left_out: Integers | None = None) -> Floats:
    """Return the support point (or centre) nearest to each row, other than itself."""
    expansion = rows.score.expansion
    if isinstance(expansion, CentreDistance):
        return np.asarray(rows.score.nearest(rows.X))
    return np.asarray(expansion.points[nearest_points(expansion.points, rows.X, np.asarray(left_out))])


def _level(rows: Rows, scores: Floats, at_goal: Floats) -> Floats:
    """Score that the reference point is to have: the threshold, or half-way down."""
    if rows.score.threshold is None:
        return np.asarray((scores + at_goal) / 2)
    return np.full(len(scores), rows.score.threshold)


def _bisect(rows: Rows, goal: Floats, level: Floats, others: tuple[Integers, ...]) -> Floats:
    """Last point on the way from x (share 0) to the goal (share 1) whose score is above the level, all rows at once.

    A row whose score is at most the level stays where it is; one that never falls to it ends at the goal.
    """
    low, high = np.zeros(len(level)), np.ones(len(level))
    high[rows.score.value(rows.X, *others) <= level] = 0.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        above = rows.score.value(rows.X + middle[:, None] * (goal - rows.X), *others) > level
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.asarray(rows.X + high[:, None] * (goal - rows.X))
