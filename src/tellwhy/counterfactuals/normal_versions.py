"""The nearest normal version of explained rows, in the user's own columns, found when it is asked for."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.explanation_parts import Deferred
from tellwhy.core.score import Floats, Integers, ScoreFunction
from tellwhy.counterfactuals.choices import Mask
from tellwhy.counterfactuals.coded_rows import CodedRows
from tellwhy.counterfactuals.user_rows import ExplainedRows, NumberRows, TableRows, UserRows
from tellwhy.counterfactuals.written import written
from tellwhy.scoring.function_scores import EncodedScore
from tellwhy.scoring.reference_rows import some_rows

NAME = "nearest_normal"


class Versions(NamedTuple):
    """Normal versions of some rows."""

    table: Any  # an array or a frame; all cells empty where none was found
    changed: Mask  # (rows, columns): cells that differ from the row
    as_shown: Mask  # (rows,): the version scores at most the threshold with the digits that people are shown


class NormalVersions:
    """What some explained rows would look like if they were normal.

    This is the search behind `extras["nearest_normal"]`; runs over tables suggest cells of an ordinary row
    instead (`tellwhy.verdicts.repair`), so that every value they show occurs. A version is looked
    for once for each row and kept, so that whoever asks gets the same answer. Every version was scored
    after its numbers were written with few digits and put into the row.
    """

    def __init__(self, explained: ExplainedRows):
        self.explained = explained
        self._is_known = np.zeros(len(explained.values), dtype=bool)
        self._as_shown = np.zeros(len(explained.values), dtype=bool)

    def __call__(self, rows: Integers) -> Any:
        """Return the nearest normal version of each of these rows; all NaN where none was found."""
        return self.of(rows).table

    def entry(self) -> dict[str, Deferred]:
        """Return the entry of the extras of an explanation, to be computed when it is asked for."""
        return {NAME: Deferred(self, np.arange(len(self._is_known)))}

    def of(self, rows: Integers) -> Versions:
        """Return the versions of these rows, with what differs from the row."""
        self._find(np.unique(rows[~self._is_known[rows]]))
        Y = self._points[rows]
        changed = (self._rows.X[rows] != Y) & ~np.isnan(Y)
        return Versions(self._rows.table(Y, rows), changed, self._as_shown[rows])

    @cached_property
    def _rows(self) -> UserRows:
        score = self.explained.score
        if not isinstance(score, EncodedScore):
            return NumberRows(self.explained)
        can_be_undone = score.decodes_any and score.owner is not None
        return CodedRows(self.explained) if can_be_undone else TableRows(self.explained)

    @cached_property
    def _points(self) -> Floats:
        """The version of each row that is known, as numbers."""
        return np.full(self._rows.X.shape, np.nan)

    def _find(self, rows: Integers) -> None:
        """Look for the versions of rows that nobody has asked for yet."""
        if not len(rows):
            return
        X = self._rows.X[rows]
        Y = self._rows.nearest(rows)
        found = np.asarray(~np.isnan(Y).any(axis=1))
        moved = np.flatnonzero(found & (X != Y).any(axis=1))
        as_shown = found.copy()  # a row that is normal already is shown as it is
        if len(moved):
            told = written(
                X[moved], Y[moved], self._rows.limits, lambda Z, at: self._rows.is_normal(Z, rows[moved[at]])
            )
            Y[moved] = told.points
            as_shown[moved] = told.as_shown
        self._points[rows] = Y
        self._as_shown[rows] = as_shown
        self._is_known[rows] = True


def attach_nearest_normal(
    explanation: Explanation, score: ScoreFunction, background: Any, *, threshold: float | None = None
) -> Explanation:
    """Return the explanation with the nearest normal rows in `extras["nearest_normal"]`.

    Explainers do this themselves where the model tells its threshold and keeps rows that it learned from.

    Parameters
    ----------
    explanation
        Of rows of a table.
    score
        The score that was explained.
    background
        Ordinary rows, in the same columns: they give ranges, and values to change to.
    threshold
        Score that counts as normal, at most: the score's own threshold by default, or else what 95 % of the
        background rows stay below.

    Examples
    --------
    >>> from tellwhy.scoring import FunctionScore
    >>> bowl = FunctionScore(lambda X: (X**2).sum(axis=1), threshold=4.0)
    >>> x = np.array([[0.0, 9.0]])
    >>> explanation = Explanation(values=x**2, scores=bowl.value(x), data=x, method="Example")
    >>> ordinary = np.random.default_rng(0).normal(size=(100, 2))
    >>> attach_nearest_normal(explanation, bowl, ordinary).extras["nearest_normal"].round(3)
    array([[0., 2.]])
    """
    if np.shape(background)[1:] != np.shape(explanation.data)[1:]:
        raise InvalidInput(
            f"background has shape {np.shape(background)}; expected rows like the explained ones, "
            f"whose shape is {np.shape(explanation.data)}."
        )
    level = score.threshold if threshold is None else threshold
    if level is None:
        level = float(np.quantile(score.value(some_rows(background)), 0.95))
    left_out = explanation.extras.get("left_out")
    explained = ExplainedRows(score, explanation.data, explanation.values, background, float(level), left_out)
    versions = NormalVersions(explained)(np.arange(len(explanation)))
    return replace(explanation, extras=explanation.extras | {NAME: versions})
