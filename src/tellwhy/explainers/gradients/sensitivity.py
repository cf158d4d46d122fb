"""Sensitivity, the squared partial derivatives (∂f/∂x_i)², and simple Taylor, a first-order decomposition.

Simple Taylor is R_i = (x_i − z_i) ∂f/∂x_i (z), at a point z on the way to the nearest support point.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tellwhy.core.params import Rules
from tellwhy.core.score import CentreDistance, Floats, HasExpansion, HasGradient
from tellwhy.explainers.base import ScoreExplainer, lacks
from tellwhy.explainers.rows import BATCH_PARAMETERS, Attribution, Rows
from tellwhy.scoring.distance_scores import find_nearest_points


class Sensitivity(ScoreExplainer):
    """R_i = (∂o/∂x_i)².

    Training rows of a kernel model are left out of it, as in `OneClassDTD`: at its own support point a row's
    gradient vanishes.

    Parameters
    ----------
    model
        A model whose score has a gradient.
    batch_size
        Rows that the model gets per call, at most; None: as many as memory allows.
    n_jobs
        Calls of the model at the same time, in threads; None: one, −1: one per core. Results do not depend
        on it.

    Examples
    --------
    >>> from tellwhy.detectors import SVDD
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> Sensitivity(SVDD(kernel="linear").fit(X)).explain([[0.0, 5.0]]).values.round(-1)
    array([[  0., 100.]])
    """

    kind = "sensitivity"
    leaves_rows_out = True
    calls_in_batches = True
    _parameters: ClassVar[dict[str, Rules]] = {**BATCH_PARAMETERS}

    def __init__(self, model: object, *, batch_size: int | None = None, n_jobs: int | None = None):
        super().__init__(model)
        self.batch_size = batch_size
        self.n_jobs = n_jobs

    def _attribute(self, rows: Rows) -> Attribution:
        if not isinstance(rows.score, HasGradient):
            raise lacks(rows.score, "Sensitivity", "a gradient")
        # squared, so that a feature whose growth lowers the score counts as much as one that raises it
        slope = rows.score.gradient(rows.X, *rows.without)
        return Attribution(np.square(slope), rows.scores())


_BISECTIONS = 40  # a share of the way is then known to 1e-12


class SimpleTaylor(ScoreExplainer):
    """R_i = ∂o/∂x_i(x̃) · (x_i − x̃_i), with x̃ on the segment from x to its nearest support point.

    x̃ is where the score falls to the model's threshold (or, for a model without one, half-way down to its
    value at the support point); its score is the base value. Rows that are below that level already are their
    own reference: their values are 0. The reference jumps as the nearest support point changes, which is this
    baseline's weakness.

    Parameters
    ----------
    model
        A model made of distances, whose score has a gradient.
    batch_size
        Rows that the model gets per call, at most; None: as many as memory allows.
    n_jobs
        Calls of the model at the same time, in threads; None: one, −1: one per core. Results do not depend
        on it.

    Examples
    --------
    >>> from tellwhy.detectors import OneClassSVM
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> explanation = SimpleTaylor(OneClassSVM().fit(X)).explain([[0.0, 5.0]])
    >>> int(explanation.values.argmax())
    1
    """

    leaves_rows_out = True
    calls_in_batches = True
    _parameters: ClassVar[dict[str, Rules]] = {**BATCH_PARAMETERS}

    def __init__(self, model: object, *, batch_size: int | None = None, n_jobs: int | None = None):
        super().__init__(model)
        self.batch_size = batch_size
        self.n_jobs = n_jobs

    def _attribute(self, rows: Rows) -> Attribution:
        if not isinstance(rows.score, HasExpansion):
            raise lacks(rows.score, "SimpleTaylor", "support points")
        if not isinstance(rows.score, HasGradient):
            raise lacks(rows.score, "SimpleTaylor", "a gradient")
        scores = rows.scores()
        goal = _nearest(rows)
        level = _level(rows, scores, _scored(rows, goal))
        reference = _bisect(rows, goal, scores, level)
        slope = rows.score.gradient(reference, *rows.without)
        return Attribution(slope * (rows.X - reference), scores, _scored(rows, reference))


def _scored(rows: Rows, points: Floats) -> Floats:
    """Score of one point made from each row, which leaves out what the row does."""
    return np.asarray(rows.score.value(points, *rows.without))


def _nearest(rows: Rows) -> Floats:
    """Return the support point (or centre) nearest to each row, other than itself."""
    expansion = rows.score.expansion
    if isinstance(expansion, CentreDistance):
        return np.asarray(rows.score.nearest(rows.X))
    return np.asarray(expansion.points[find_nearest_points(expansion.points, rows.X, rows.skipped)])


def _level(rows: Rows, scores: Floats, at_goal: Floats) -> Floats:
    """Score that the reference point is to have: the threshold, or half-way down."""
    if rows.score.threshold is None:
        return np.asarray((scores + at_goal) / 2)
    return np.full(len(scores), rows.score.threshold)


def _bisect(rows: Rows, goal: Floats, scores: Floats, level: Floats) -> Floats:
    """Last point on the way from x (share 0) to the goal (share 1) whose score is above the level.

    A row whose score is at most the level stays where it is; one that never falls to it ends at the goal.
    """
    low = np.zeros(len(level))
    high = np.ones(len(level))
    high[scores <= level] = 0.0
    for _ in range(_BISECTIONS):  # all rows at once: a score of many rows costs far less than many scores
        middle = (low + high) / 2
        above = _scored(rows, rows.X + middle[:, None] * (goal - rows.X)) > level
        low = np.where(above, middle, low)
        high = np.where(above, high, middle)
    return np.asarray(rows.X + high[:, None] * (goal - rows.X))
