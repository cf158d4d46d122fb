"""Scores of points that are made from given rows."""

from __future__ import annotations

from copy import copy
from typing import Any, cast

import numpy as np

from tellwhy.core.capabilities import HasGradient, HasValueAndGradient, LeavesRowsOut, OnDevice
from tellwhy.core.score_function import Floats, Integers
from tellwhy.counterfactuals.quadratics import Evaluated, quadratics_of
from tellwhy.optimise.arrays import HOST, Array, Space, filled
from tellwhy.scoring.training_rows import recorded_rows


class RowScores:
    """The score of points made from the rows of X.

    A row that the model was trained on is left out of the score of its own points: it would find them all
    familiar.

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
        if left_out is None and isinstance(score, LeavesRowsOut):
            left_out = score.match(X)
        self.left_out = left_out
        self.quadratics = None if self.left_out is not None else quadratics_of(score)

    @property
    def has_gradient(self) -> bool:
        """Whether `evaluate` can be called."""
        return self.quadratics is not None or isinstance(self.score, HasGradient)

    @property
    def space(self) -> Space:
        """Where points are best made: the device of a network, or this machine's memory.

        `value` and `evaluate` take points from there too.
        """
        return cast(Space, self.score.space) if isinstance(self.score, OnDevice) else HOST

    def of_rows(self, rows: slice | Array) -> RowScores:
        """Return the scores of points made from some of the rows, counted from the first of them."""
        part = copy(self)
        part.left_out = None if self.left_out is None else self.left_out[rows]
        return part

    def value(self, Y: Array, rows: Array) -> Array:
        """Score of each point; `rows[i]` is the row that point i was made from."""
        if not isinstance(Y, np.ndarray):
            return self.score.evaluate_arrays(Y, with_gradient=False)[0]
        return np.asarray(self.score.value(Y, *self._without(rows)))

    def evaluate(self, Y: Array, rows: Array) -> Evaluated:
        """Value and gradient of each point, and the quadratic form that is lowest there."""
        if not isinstance(Y, np.ndarray):
            values, slopes = self.score.evaluate_arrays(Y, with_gradient=True)
            return Evaluated(values, slopes, filled(Y, (len(Y),), 0))
        if self.quadratics is not None:
            return self.quadratics.evaluate(Y)
        value, slope = self._value_and_gradient(Y, self._without(rows))
        return Evaluated(np.asarray(value), np.asarray(slope), np.zeros(len(Y), dtype=np.int64))

    def _value_and_gradient(self, Y: Floats, others: tuple[Integers, ...]) -> tuple[Floats, Floats]:
        """Ask for both at once where the score can do that for less."""
        if isinstance(self.score, HasValueAndGradient) and not others:
            return self.score.value_and_gradient(Y)
        return self.score.value(Y, *others), self.score.gradient(Y, *others)

    def recorded(self) -> dict[str, Integers]:
        """The training rows that were left out, as an explanation records them."""
        if self.left_out is None:
            return {}
        return {"left_out": recorded_rows(self.left_out, self.score.remembered)}

    def _without(self, rows: Integers) -> tuple[Integers, ...]:
        """Further argument of the score: the support point that each point's row leaves out."""
        return () if self.left_out is None else (self.left_out[rows],)
