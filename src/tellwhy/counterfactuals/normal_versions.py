"""The nearest normal version of explained rows, in the user's own columns, found when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.extras import Deferred
from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import as_floats, take_rows
from tellwhy.counterfactuals.nearest_normal import nearest_normal
from tellwhy.counterfactuals.row_space import RowSpace, named_columns
from tellwhy.counterfactuals.surroundings import column_scales
from tellwhy.scoring.observed import Observed, observed_by, some_rows
from tellwhy.scoring.scores.encoded import EncodedScore
from tellwhy.scoring.training_rows import points_of

NAME = "nearest_normal"
_ROUNDING = 1e-9


@dataclass(frozen=True)
class NormalVersions:
    """What some explained rows would look like if they were normal.

    Attributes
    ----------
    score
        The score that was explained.
    data
        The explained rows, as they were given.
    values
        Their attributions: where there are many columns, those with the highest values are looked at.
    background
        Ordinary rows like `data`; None: what the model keeps of the rows that it learned from.
    threshold
        Score that counts as normal, at most.
    left_out
        Training row that each row was scored without, or −1, as `extras["left_out"]` records it; None:
        nothing.
    """

    score: Any
    data: Any
    values: Floats
    background: Any
    threshold: float
    left_out: Integers | None = None

    def __call__(self, rows: Integers) -> Any:
        """Return the nearest normal version of each of these rows; NaN in all columns where none was found."""
        data = take_rows(self.data, rows)
        if isinstance(self.score, EncodedScore):
            return self._encoded(data, rows)
        seen: Any = (
            observed_by(self.score) if self.background is None else Observed.of(as_floats(self.background))
        )
        found = nearest_normal(
            self.score,
            as_floats(data),
            prototypes=seen.rows,
            threshold=self.threshold,
            low=seen.low,
            high=seen.high,
            integers=seen.whole,
            ranking=self.values[rows],
            left_out=self._points(rows, self.score),
        )
        return found.points

    def _encoded(self, data: Any, rows: Integers) -> Any:
        """Search in the user's columns, rows with missing numbers left aside."""
        names, ordinary = self.score.feature_names, self.background
        if ordinary is None:
            seen: Any = observed_by(self.score.inner)
            ordinary = self.score.decode(seen.rows)
        data, ordinary = named_columns(data, names), named_columns(ordinary, names)
        space = RowSpace.of([ordinary, data])
        X, prototypes = space.numbers(data), space.numbers(ordinary)
        known, usable = ~np.isnan(X).any(axis=1), ~np.isnan(prototypes).any(axis=1)
        points = np.full(X.shape, np.nan)
        left_out = self._points(rows, self.score.inner)
        if known.any() and usable.any():
            points[known] = nearest_normal(
                _SpaceScore(self.score, space),
                X[known],
                prototypes=_without_noise(prototypes[usable]),
                threshold=self.threshold,
                owner=space.owner,
                ranking=self.values[rows][known],
                left_out=None if left_out is None else left_out[known],
            ).points
        return points if space.is_numeric else _table(space, points, getattr(data, "index", None))

    def _points(self, rows: Integers, score: Any) -> Integers | None:
        """Support point that each row does without, or −1; None for scores that cannot leave one out."""
        if not hasattr(score, "match"):
            return None
        if self.left_out is None:
            return np.full(len(rows), -1, dtype=np.int64)
        return points_of(np.asarray(self.left_out)[rows], score.expansion)


class _SpaceScore:
    """A score of raw rows as one of the numbers that stand for them."""

    def __init__(self, score: EncodedScore, space: RowSpace):
        self._score, self._space = score, space
        self.describes = score.describes

    def value(self, Y: Floats, *left_out: Integers) -> Floats:
        """Score of each row."""
        inner: Any = self._score.inner
        return np.asarray(inner.value(self._score.encode(self._space.rows(Y)), *left_out))


def _without_noise(X: Floats) -> Floats:
    """Return rows with whole numbers where decoding missed them by a rounding error."""
    nearest, (scales, _) = np.round(X), column_scales(X)
    missed = np.abs(X - nearest) > _ROUNDING * scales
    return np.where(missed.any(axis=0), X, nearest)


def _table(space: RowSpace, points: Floats, index: Any) -> Any:
    """Return rows with text as a frame, empty where nothing was found."""
    import pandas as pd

    found = np.asarray(np.isfinite(points).all(axis=1))
    frame = pd.DataFrame(space.rows(np.where(found[:, None], points, 0.0)))
    frame.columns = pd.Index(space.names)
    frame = frame if found.all() else frame.where(pd.Series(found), np.nan)
    return frame if index is None else frame.set_axis(index, axis=0)


def normal_versions(
    score: Any, data: Any, values: Floats, *, background: Any = None, left_out: Integers | None = None
) -> dict[str, Deferred]:
    """Return the entry "nearest_normal" of the extras of an explanation, to be computed when it is asked for.

    Nothing, where the score has no threshold, or neither its model nor `background` tells what rows were
    observed.

    Examples
    --------
    >>> from tellwhy.detectors import GaussianMixture
    >>> from tellwhy.scoring import as_score
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> odd = np.array([[0.0, 9.0]])
    >>> entry = normal_versions(as_score(GaussianMixture().fit(X)), odd, odd)["nearest_normal"]
    >>> changed = entry() != odd
    >>> changed
    array([[False,  True]])
    """
    threshold = getattr(score, "threshold", None)
    if threshold is None or values.ndim != 2 or len(np.shape(data)) != 2:
        return {}
    if _knows_rows(score):
        background = background if isinstance(score, EncodedScore) else None
    elif background is None:
        return {}
    versions = NormalVersions(score, data, values, background, float(threshold), left_out)
    return {NAME: Deferred(versions, np.arange(len(values)))}


def _knows_rows(score: Any) -> bool:
    """Whether the model behind a score keeps rows that it learned from, and they can be told in the user's columns."""
    if isinstance(score, EncodedScore):
        return score.decode is not None and _knows_rows(score.inner)
    return hasattr(score, "observed") or hasattr(getattr(score, "expansion", None), "points")


def attach_nearest_normal(
    explanation: Explanation, score: Any, background: Any, *, threshold: float | None = None
) -> Explanation:
    """Return the explanation with the nearest normal rows in `extras["nearest_normal"]`, in the columns of its data.

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
            f"background has shape {np.shape(background)}; expected rows like the explained ones, whose shape is "
            f"{np.shape(explanation.data)}."
        )
    level = score.threshold if threshold is None else threshold
    if level is None:
        level = float(np.quantile(score.value(some_rows(background)), 0.95))
    left_out = explanation.extras.get("left_out")
    versions = NormalVersions(score, explanation.data, explanation.values, background, float(level), left_out)
    return replace(explanation, extras=explanation.extras | {NAME: versions(np.arange(len(explanation)))})
