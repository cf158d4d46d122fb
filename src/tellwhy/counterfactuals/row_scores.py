"""Scores of points that are made from given rows."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from tellwhy.core.score_function import Floats, Integers
from tellwhy.counterfactuals.quadratics import quadratics_of
from tellwhy.optimise.arrays import HOST, Array, Space, filled
from tellwhy.scoring.training_rows import recorded_rows


class RowScores:
    """The score of points made from the rows of X; a row that the model was trained on is left out of its own points.

    Parameters
    ----------
    score
        The score function.
    X
        Rows in the score's own columns.
    left_out
        Support point that each row leaves out, −1 for none; by default its own, where the model was trained
        on it.

    Examples
    --------
    >>> from tellwhy.scoring import FunctionScore
    >>> scores = RowScores(FunctionScore(lambda X: X.sum(axis=1)), np.zeros((2, 3)))
    >>> scores.value(np.ones((4, 3)), np.array([0, 0, 1, 1]))
    array([3., 3., 3., 3.])
    """

    def __init__(self, score: Any, X: Floats, left_out: Integers | None = None):
        self.score = score
        if left_out is None and hasattr(score, "match"):
            left_out = score.match(X)
        self.left_out = left_out
        self.quadratics = None if self.left_out is not None else quadratics_of(score)

    @property
    def has_gradient(self) -> bool:
        """Whether `evaluate` can be called."""
        return self.quadratics is not None or getattr(self.score, "gradient", None) is not None

    @property
    def space(self) -> Space:
        """Where points are best made: a network's own device; `value` and `evaluate` take them from there too."""
        return getattr(self.score, "space", HOST)

    def of_rows(self, rows: slice) -> RowScores:
        """Return the scores of points made from some of the rows, counted from the first of them."""
        part = copy(self)
        part.left_out = None if self.left_out is None else self.left_out[rows]
        return part

    def value(self, Y: Array, rows: Array) -> Array:
        """Score of each point; `rows[i]` is the row that point i was made from."""
        if not isinstance(Y, np.ndarray):
            return self.score.evaluate_arrays(Y, with_gradient=False)[0]
        return np.asarray(self.score.value(Y, *self._without(rows)))

    def evaluate(self, Y: Array, rows: Array) -> tuple[Array, Array, Array]:
        """Value and gradient of each point, and the quadratic form that is lowest there (0 without such forms)."""
        if not isinstance(Y, np.ndarray):
            return *self.score.evaluate_arrays(Y, with_gradient=True), filled(Y, (len(Y),), 0)
        if self.quadratics is not None:
            return self.quadratics.evaluate(Y)
        others = self._without(rows)
        both = getattr(self.score, "value_and_gradient", None)
        if both is not None and not others:
            value, slope = both(Y)
        else:
            value, slope = self.score.value(Y, *others), self.score.gradient(Y, *others)
        return np.asarray(value), np.asarray(slope), np.zeros(len(Y), dtype=np.int64)

    def recorded(self) -> dict[str, Integers]:
        """The training rows that were left out, as an explanation records them."""
        return (
            {} if self.left_out is None else {"left_out": recorded_rows(self.left_out, self.score.expansion)}
        )

    def _without(self, rows: Integers) -> tuple[Integers, ...]:
        return () if self.left_out is None else (self.left_out[rows],)
