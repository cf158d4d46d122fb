"""What every explainer shares: reading the model, the columns and the rows, and assembling the result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, ClassVar, Self

import numpy as np

from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.explanation import Explanation
from tellwhy.core.extras import Extras
from tellwhy.core.params import Rules, validate_parameters
from tellwhy.core.score_function import Floats, Integers, ScoreFunction
from tellwhy.core.tables import as_floats, column_names
from tellwhy.counterfactuals.normal_versions import normal_versions
from tellwhy.scoring import EncodedScore, as_score
from tellwhy.scoring.model_rows import check_columns
from tellwhy.scoring.observed import some_rows
from tellwhy.scoring.scores.flat_score import FlatScore, array_rows, takes_arrays
from tellwhy.scoring.training_rows import recorded_rows


@dataclass(frozen=True)
class Rows:
    """Rows to explain, in the columns the score sees.

    `owner[t]` is the user's column that score column t was made from; it is 0, 1, 2, … without an encoding.
    Images and other arrays are laid flat: `shape` is what one of them had.
    """

    score: Any  # a ScoreFunction, with whatever optional members it has
    X: Floats
    owner: Integers
    n_owners: int
    shape: tuple[int, ...] | None = None

    def by_owner(self, values: Floats) -> Floats:
        """Sum values per score column over the user's columns."""
        if values.shape[1] == self.n_owners and np.array_equal(self.owner, np.arange(self.n_owners)):
            return values
        summed = np.zeros((len(values), self.n_owners))
        for column, owner in enumerate(self.owner):
            summed[:, owner] += values[:, column]
        return summed

    def shaped(self, values: Floats) -> Floats:
        """Give values per flat column the shape that the rows came in."""
        return values if self.shape is None else values.reshape(len(values), *self.shape)


@dataclass(frozen=True)
class Attribution:
    """What a method found: values per score column (or, where `per_owner`, per user column), scores and evidence."""

    values: Floats
    scores: Floats
    base_values: Floats | float = 0.0
    stderr: Floats | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    per_owner: bool = False
    kind: str | None = None  # where it depends on the score; else the explainer's own


class Explainer(ABC):
    """Base of the explainers: `explain(X)` gives an `Explanation` of the model's score of each row."""

    kind: ClassVar[str] = "attribution"
    reads_rows: ClassVar[bool] = True  # False for a baseline whose numbers do not depend on the rows
    _parameters: ClassVar[dict[str, Rules]] = {}

    def __init__(self, model: Any):
        self.model = model

    def __init_subclass__(cls, **settings: Any) -> None:
        """Let `fit`, where a method has one, keep some of its background rows: normal versions stay within them."""
        super().__init_subclass__(**settings)
        if "fit" in vars(cls):
            cls.fit = _keeping_rows(vars(cls)["fit"])  # type: ignore[attr-defined]

    @cached_property
    def score(self) -> ScoreFunction:
        """The score function that is explained."""
        return as_score(self.model)

    def remember(self, X: Any) -> Self:
        """Keep some ordinary rows: `extras["nearest_normal"]` stays within them where the model keeps none itself.

        Methods that take background rows by `fit` do this there.
        """
        self.ordinary_rows_ = some_rows(X)
        return self

    def explain(self, X: Any) -> Explanation:
        """Explain the score of each row of X, in the columns of X."""
        validate_parameters(self)
        rows = self.rows(X)
        found = self._attribute(rows)
        per_owner = found.per_owner or found.values.shape[1] != len(rows.owner)
        values = rows.shaped(found.values if per_owner else rows.by_owner(found.values))
        settings = {name: getattr(self, name) for name in self._parameters}
        kind = found.kind or self.kind
        return Explanation(
            values=values,
            scores=found.scores,
            base_values=np.broadcast_to(found.base_values, found.scores.shape),
            stderr=None if found.stderr is None else rows.shaped(found.stderr),
            data=X,
            feature_names=self.score.feature_names or column_names(X),
            method=type(self).__name__,
            params={"explains": self.score.describes, **settings, **found.params},
            kind=kind,
            extras=Extras(found.extras)
            | (self._normal_versions(X, values, found) if kind == "attribution" else {}),
        )

    def _normal_versions(self, X: Any, values: Floats, found: Attribution) -> Mapping[str, Any]:
        """Return the entry "nearest_normal" of the extras; nothing where the score does not tell what is normal."""
        left_out, background = found.extras.get("left_out"), getattr(self, "ordinary_rows_", None)
        return normal_versions(self.score, X, values, background=background, left_out=left_out)

    def rows(self, X: Any) -> Rows:
        """Bring rows into the columns that the score sees."""
        score = self.score
        if isinstance(score, EncodedScore) and score.owner is not None:
            return Rows(score.inner, score.encode(X), score.owner, score.n_columns)
        if takes_arrays(score):
            return _flat_rows(score, X)
        check_columns(X, score.feature_names)
        shape = score.feature_shape
        array = as_floats(X, n_columns=shape[0] if shape else None)
        return Rows(score, array, np.arange(array.shape[1]), array.shape[1])

    @abstractmethod
    def _attribute(self, rows: Rows) -> Attribution:
        """Attribute the score of each row to the columns that the score sees."""


def _flat_rows(score: Any, X: Any) -> Rows:
    """Rows that are images or other arrays, laid flat."""
    array = array_rows(X, score.feature_shape)
    n_cells = array[0].size
    flat = array.reshape(len(array), n_cells)
    return Rows(FlatScore(score, array.shape[1:]), flat, np.arange(n_cells), n_cells, array.shape[1:])


def _keeping_rows(fit: Any) -> Any:
    @wraps(fit)
    def fit_and_keep(self: Any, X: Any, **settings: Any) -> Any:
        fitted = fit(self, X, **settings)
        self.remember(X)
        return fitted

    return fit_and_keep


def left_out_argument(rows: Rows) -> tuple[Integers, ...]:
    """The support point that each row is, for scores that can leave it out; nothing for others."""
    return (rows.score.match(rows.X),) if hasattr(rows.score, "match") else ()


def left_out_extra(rows: Rows, *left_out: Integers) -> dict[str, Integers]:
    """The training rows that were left out, as an explanation records them."""
    return {"left_out": recorded_rows(left_out[0], rows.score.expansion)} if left_out else {}


def needs_member(score: Any, member: str, explainer: str, advice: str) -> Any:
    """Return an optional member of a score, or say which method does without it."""
    found = getattr(score, member, None)
    if found is None:
        raise UnsupportedModel(f"{explainer} needs a score with {advice}; {score.describes} has none.")
    return found
