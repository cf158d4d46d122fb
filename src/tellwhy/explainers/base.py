"""What explainers of scores share: reading the model, the columns and the rows, and assembling the result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.capabilities import IsPrediction, LeavesRowsOut
from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.explanation import Explanation
from tellwhy.core.extras import Extras
from tellwhy.core.old_names import TakesOldNames
from tellwhy.core.params import Rules, validate_parameters
from tellwhy.core.progress import shown
from tellwhy.core.score_function import Floats, Integers, ScoreFunction
from tellwhy.core.tables import as_floats, column_names, refuse_sparse
from tellwhy.counterfactuals.normal_versions import normal_versions
from tellwhy.explainers.finite_values import check_finite
from tellwhy.explainers.given_parameters import refuse_unknown
from tellwhy.explainers.in_batches import in_batches
from tellwhy.explainers.model_state import notice_fit
from tellwhy.explainers.score_rows import (
    Attribution,
    Rows,
    mean_of_rows,
    named_outputs,
    two_classes,
    with_outputs,
)
from tellwhy.scoring import EncodedScore, as_score
from tellwhy.scoring.model_rows import check_columns
from tellwhy.scoring.observed import some_rows
from tellwhy.scoring.scores.flat_score import FlatScore, array_rows, takes_arrays

__all__ = ["Attribution", "BackgroundExplainer", "Rows", "ScoreExplainer", "lacks", "mean_of_rows"]


class ScoreExplainer(TakesOldNames, ABC):
    """Base of the explainers of scores: `explain(X)` gives an `Explanation` of the model's score of each row.

    A subclass implements `_attribute(rows)`. One that learns from ordinary rows first is a
    `BackgroundExplainer`.
    """

    kind: ClassVar[str] = "attribution"
    reads_rows: ClassVar[bool] = True  # False for a baseline whose numbers do not depend on the rows
    calls_in_batches: ClassVar[bool] = False  # True: `batch_size` and `n_jobs` say how the score is called
    only_anomalies: ClassVar[bool] = (
        False  # True: it looks for lower scores, which a prediction has no use for
    )
    leaves_rows_out: ClassVar[bool] = (
        False  # True: a row that the model was trained on is judged without itself
    )
    _parameters: ClassVar[dict[str, Rules]] = {}

    def __init__(self, model: object):
        self.model = model

    @classmethod
    def _check_given(cls, given: Mapping[str, Any]) -> None:
        """Answer a slip in the name of a parameter with the nearest one."""
        refuse_unknown(cls, given)

    @cached_property
    def score(self) -> ScoreFunction:
        """The score function that is explained."""
        return as_score(self.model)

    def remember(self, X: ArrayLike) -> Self:
        """Keep some ordinary rows, for models that keep none themselves.

        `extras["nearest_normal"]` then stays within them. `fit` of a `BackgroundExplainer` does this too.
        """
        self.ordinary_rows_ = some_rows(X)
        return self

    def explain(self, X: ArrayLike, *, progress: bool | None = None) -> Explanation:
        """Explain the score of each row of X, in the columns of X.

        `progress` shows how far it is, or does not; None: on a terminal and in notebooks, after two seconds.
        """
        with shown(progress):
            return self._explained(X)

    def _explained(self, X: ArrayLike) -> Explanation:
        validate_parameters(self)
        notice_fit(self)
        refuse_sparse(X)
        rows = with_outputs(self.rows(X))
        if self.only_anomalies and isinstance(rows.score, IsPrediction):
            raise UnsupportedModel(
                f"{type(self).__name__} asks what would make a row less anomalous, and "
                f"{self.score.describes} is a prediction: use method='KernelShap', or leave the method out."
            )
        found = self._attribute(rows)
        # Columns that were made from one of the user's columns are added up, unless the method did so itself.
        per_owner = found.per_owner or found.values.shape[1] != len(rows.owner)
        values = rows.shaped(found.values if per_owner else rows.by_owner(found.values))
        names = self.score.feature_names or column_names(X)
        check_finite(type(self).__name__, names, **_numbers(found, values))
        kind = found.kind or self.kind
        return Explanation(
            values=values,
            scores=found.scores,
            base_values=np.broadcast_to(found.base_values, found.scores.shape),
            stderr=None if found.stderr is None else rows.shaped(found.stderr),
            data=X,  # as the user gave them: a reference, in the user's columns
            feature_names=names,
            method=type(self).__name__,
            params={
                "explains": self.score.describes,
                **self._settings(),
                **two_classes(rows),
                **found.params,
            },
            kind=kind,
            extras=self._extras(X, rows, found, values if kind in ("attribution", "relative") else None),
        )

    def _settings(self) -> dict[str, Any]:
        """Parameters and their values."""
        return {name: getattr(self, name) for name in self._parameters}

    def _extras(self, X: ArrayLike, rows: Rows, found: Attribution, shares: Floats | None) -> Extras:
        """What the method found, the rows that were left out, and normal versions where values are shares."""
        recorded = rows.recorded()
        extras = Extras(named_outputs(rows) | dict(found.extras))
        if recorded is not None:
            extras |= {"left_out": recorded}
        if shares is None:
            return extras
        ordinary = self._ordinary_rows()
        return extras | normal_versions(self.score, X, shares, background=ordinary, left_out=recorded)

    def _ordinary_rows(self) -> Any:
        """Rows that `remember` or `fit` kept; None where they were not called."""
        return vars(self).get("ordinary_rows_")

    def rows(self, X: ArrayLike) -> Rows:
        """Bring rows into the columns that the score sees, and find those that the model was trained on."""
        rows = self._read(X)
        if self.calls_in_batches:
            rows = replace(rows, score=self._batched(rows.score))
        if not self.leaves_rows_out or not isinstance(rows.score, LeavesRowsOut):
            return rows
        return replace(rows, left_out=self._left_out(rows.score, rows.X))

    def _batched(self, score: Any) -> Any:
        """Return a score that is called as `batch_size` and `n_jobs` say."""
        settings: Any = self
        return in_batches(score, settings.batch_size, settings.n_jobs)

    def _read(self, X: ArrayLike) -> Rows:
        score = self.score
        # where an encoding mixes columns (PCA), adding up does not undo it: then the score is one of raw rows
        if isinstance(score, EncodedScore) and score.owner is not None:
            return Rows(score.inner, score.encode(X), score.owner, score.n_columns)
        if takes_arrays(score):
            return _flat_rows(score, X)
        check_columns(X, score.feature_names)
        shape = score.feature_shape
        array = as_floats(X, n_columns=shape[0] if shape else None)
        return Rows(score, array, np.arange(array.shape[1]), array.shape[1])

    def _left_out(self, score: LeavesRowsOut, X: Floats) -> Integers:
        """Support point that each row does without, or −1: its own, where the model was trained on it."""
        return score.match(X)

    @abstractmethod
    def _attribute(self, rows: Rows) -> Attribution:
        """Attribute the score of each row to the columns that the score sees."""


class BackgroundExplainer(ScoreExplainer):
    """Base of the explainers that learn from ordinary rows: `fit(X)` first, then `explain(X)`.

    A subclass implements `_fit(X)`, which gets the rows as they were given and sets attributes that end in
    `_`, and calls `_check_fitted` before it uses them.
    """

    least_rows: ClassVar[int] = 1  # 2 where spreads of columns are learned, which one row does not have
    needs_rows: ClassVar[bool] = True  # False: it explains without them too, and something else with them

    def fit(self, X: ArrayLike) -> Self:
        """Learn from ordinary rows."""
        validate_parameters(self)
        notice_fit(self, learns=True)
        refuse_sparse(X, "the background")
        n_rows = np.shape(X)[0] if np.ndim(X) else 0
        if 0 < n_rows < self.least_rows:  # none at all is told with the shape, where rows are read
            raise InvalidInput(
                f"{type(self).__name__} learns from ordinary rows what is usual in each column, and was "
                f"given {n_rows}. Pass at least {self.least_rows}, better 100 or more."
            )
        self._fit(X)
        return self.remember(X)

    @abstractmethod
    def _fit(self, X: ArrayLike) -> None:
        """Learn what the method needs; parameters have been checked."""

    def _check_fitted(self, learned: str) -> None:
        """Raise unless `fit` has set the attribute of that name."""
        if learned not in vars(self):
            raise InvalidInput(
                f"{type(self).__name__} is not fitted: call fit(X) with ordinary rows before explain(X)."
            )


def _numbers(found: Attribution, values: Floats) -> dict[str, Floats | float | None]:
    """What a method found, with the words that errors call it by."""
    told = {"scores": found.scores, "values": values, "base values": found.base_values}
    return {**told, "standard errors": found.stderr}


def _flat_rows(score: ScoreFunction, X: ArrayLike) -> Rows:
    """Rows that are images or other arrays, laid flat."""
    array = array_rows(X, score.feature_shape)
    n_cells = array[0].size
    flat = array.reshape(len(array), n_cells)
    return Rows(FlatScore(score, array.shape[1:]), flat, np.arange(n_cells), n_cells, array.shape[1:])


def lacks(score: ScoreFunction, explainer: str, what: str) -> UnsupportedModel:
    """Return the error for a score that cannot do what a method needs."""
    return UnsupportedModel(f"{explainer} needs a score with {what}; {score.describes} has none.")
