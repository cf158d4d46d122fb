"""Rows to explain in the columns that a score sees, and what a method finds for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tellwhy.core.capabilities import IsPrediction, KeepsOutput
from tellwhy.core.results.one_class import complement_of
from tellwhy.core.score_function import Floats, Integers
from tellwhy.scoring.scores.prediction_score import plain
from tellwhy.scoring.training_rows import recorded_rows

_TRIED = 20  # rows whose outputs tell whether those of two classes add up to a constant


@dataclass(frozen=True)
class Rows:
    """Rows to explain, in the columns the score sees.

    Attributes
    ----------
    score
        The score in these columns: a `ScoreFunction` with whatever it can do besides (`core.capabilities`).
    X
        The rows as numbers.
    owner
        The user's column that each score column was made from; 0, 1, 2, … without an encoding.
    n_owners
        Number of the user's columns.
    shape
        What one row had as its shape, where rows are images or other arrays; they are laid flat in X.
    left_out
        The support point that each row does without, −1 for none: a row that the model was trained on is its
        own support point, which hides how odd it is. None where nothing is left out: the score has no such
        points, or the method does not leave rows out.
    output
        The output that each row has, of a model of several: it stays the same when the row is changed. None
        where there is one output, or the rows are not those that are explained.
    """

    score: Any
    X: Floats
    owner: Integers
    n_owners: int
    shape: tuple[int, ...] | None = None
    left_out: Integers | None = None
    output: Integers | None = None

    @property
    def own(self) -> Integers | None:
        """What belongs to each row when the row is changed: what it leaves out, or the output it has."""
        return self.output if self.left_out is None else self.left_out

    @property
    def without(self) -> tuple[Integers, ...]:
        """What to pass to the score's `value` and `gradient` besides X: what is each row's own."""
        return () if self.own is None else (self.own,)

    @property
    def skipped(self) -> Integers:
        """`left_out` as numbers in any case: −1 for every row where nothing is left out."""
        return np.full(len(self.X), -1, dtype=np.int64) if self.left_out is None else self.left_out

    def scores(self) -> Floats:
        """Score of each row, without what it leaves out."""
        return np.asarray(self.score.value(self.X, *self.without))

    def recorded(self) -> Integers | None:
        """Return the training row that each row leaves out, as an explanation records it; None: none does."""
        return None if self.left_out is None else recorded_rows(self.left_out, self.score.remembered)

    def by_owner(self, values: Floats) -> Floats:
        """Sum values per score column over the user's columns."""
        # without an encoding, and for wide rows, nothing is copied
        if values.shape[1] == self.n_owners and np.array_equal(self.owner, np.arange(self.n_owners)):
            return values
        summed = np.zeros((len(values), self.n_owners))
        # column by column: summed[:, owner] += values would add only one of those with the same owner
        for column, owner in enumerate(self.owner):
            summed[:, owner] += values[:, column]
        return summed

    def shaped(self, values: Floats) -> Floats:
        """Give values per flat column the shape that the rows came in."""
        return values if self.shape is None else values.reshape(len(values), *self.shape)


@dataclass(frozen=True)
class Attribution:
    """What a method found.

    Attributes
    ----------
    values
        One number per row and score column; where `per_owner`, per column of the user's.
    scores
        What was explained.
    base_values
        The part of each score that belongs to no column.
    stderr
        Standard error of the values, in the user's columns.
    extras, params
        Further results, and settings as they were used.
    kind
        Where it depends on the score; None: the explainer's own.
    """

    values: Floats
    scores: Floats
    base_values: Floats | float = 0.0
    stderr: Floats | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    per_owner: bool = False
    kind: str | None = None


def with_outputs(rows: Rows) -> Rows:
    """Rows that know which output of the model they have, where it has several."""
    kept = rows.score.fixed(rows.X) if isinstance(rows.score, KeepsOutput) else ()
    return replace(rows, output=kept[0]) if kept else rows


def mean_of_rows(rows: Rows, background: Floats, weights: Floats | None = None) -> Floats | float:
    """Return the mean score of background rows: one number, or one per row where outputs differ."""
    if rows.output is None:
        return float(np.average(rows.score.value(background), weights=weights))
    means = {
        int(output): np.average(
            rows.score.value(background, np.full(len(background), output, dtype=np.int64)), weights=weights
        )
        for output in np.unique(rows.output)
    }
    return np.array([means[int(output)] for output in rows.output])


def named_outputs(rows: Rows) -> dict[str, Any]:
    """The output of each row by its number, and by its name where outputs have names, as extras hold them."""
    if rows.output is None:
        return {}
    names = rows.score.output_names(rows.output) if isinstance(rows.score, IsPrediction) else None
    return {"output": rows.output} if names is None else {"output": rows.output, "explained": names}


def two_classes(rows: Rows) -> dict[str, Any]:
    """The classes of a classifier of two, and what their outputs add up to, as parameters tell them."""
    score: Any = rows.score
    names = getattr(score, "names", None)
    if not isinstance(score, IsPrediction) or names is None or len(names) != 2:
        return {}
    sums = complement_of(score.outputs(rows.X[:_TRIED])) if hasattr(score, "outputs") else None
    return {"classes": [plain(name) for name in names], "classes_sum": sums}
