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
from tellwhy.scoring.encoded import EncodedScore
from tellwhy.scoring.nearest_normal import nearest_normal
from tellwhy.scoring.observed import Observed, observed_by, some_rows
from tellwhy.scoring.row_space import RowSpace
from tellwhy.scoring.training_rows import points_of

NAME = "nearest_normal"


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
    ordinary
        What the model saw: `Observed` for rows of numbers; rows like `data` where the score encodes them.
    threshold
        Score that counts as normal, at most.
    left_out
        Training row that each row was scored without, or −1, as `extras["left_out"]` records it; None: its own.
    """

    score: Any
    data: Any
    values: Floats
    ordinary: Any
    threshold: float
    left_out: Integers | None = None

    def __call__(self, rows: Integers) -> Any:
        """Return the nearest normal version of each of these rows; NaN in all columns where none was found."""
        data = take_rows(self.data, rows)
        if isinstance(self.score, EncodedScore):
            return self._encoded(data, rows)
        found = nearest_normal(
            self.score,
            as_floats(data),
            prototypes=self.ordinary.rows,
            threshold=self.threshold,
            low=self.ordinary.low,
            high=self.ordinary.high,
            integers=self.ordinary.whole,
            ranking=self.values[rows],
            left_out=self._points(rows, self.score),
        )
        return found.points

    def _encoded(self, data: Any, rows: Integers) -> Any:
        """Search in the user's columns, rows with missing numbers left aside."""
        space = RowSpace.of([self.ordinary, data])
        X, prototypes = space.numbers(data), space.numbers(self.ordinary)
        known, usable = ~np.isnan(X).any(axis=1), ~np.isnan(prototypes).any(axis=1)
        points = np.full(X.shape, np.nan)
        left_out = self._points(rows, self.score.inner)
        if known.any() and usable.any():
            points[known] = nearest_normal(
                _SpaceScore(self.score, space),
                X[known],
                prototypes=prototypes[usable],
                threshold=self.threshold,
                owner=space.owner,
                ranking=self.values[rows][known],
                left_out=None if left_out is None else left_out[known],
            ).points
        return points if space.is_numeric else _table(space, points)

    def _points(self, rows: Integers, score: Any) -> Integers | None:
        if self.left_out is None:
            return None
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


def _table(space: RowSpace, points: Floats) -> Any:
    """Return rows with text as a frame, empty where nothing was found."""
    import pandas as pd

    found = np.asarray(np.isfinite(points).all(axis=1))
    frame = pd.DataFrame(space.rows(np.where(found[:, None], points, 0.0)))
    frame.columns = pd.Index(space.names)
    return frame.where(pd.Series(found), np.nan) if not found.all() else frame


def normal_versions(
    score: Any, data: Any, values: Floats, *, background: Any = None, left_out: Integers | None = None
) -> dict[str, Deferred]:
    """Return the entry "nearest_normal" of the extras of an explanation, to be computed when it is asked for.

    Nothing, where the score has no threshold, or neither its model nor `background` tells what rows were observed.

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
    if threshold is None or values.ndim != 2 or np.ndim(data) != 2:
        return {}
    ordinary = _ordinary(score, background)
    if ordinary is None:
        return {}
    versions = NormalVersions(score, data, values, ordinary, float(threshold), left_out)
    return {NAME: Deferred(versions, np.arange(len(values)))}


def _ordinary(score: Any, background: Any) -> Any:
    if not isinstance(score, EncodedScore):
        observed = observed_by(score)
        return Observed.of(as_floats(background)) if observed is None and background is not None else observed
    if background is not None:
        return background
    observed = observed_by(score.inner)
    return None if observed is None or score.decode is None else score.decode(observed.rows)


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
        Score that counts as normal, at most: the score's own threshold by default, or else what 95 % of the background
        rows stay below.

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
    ordinary = background if isinstance(score, EncodedScore) else Observed.of(as_floats(background))
    left_out = explanation.extras.get("left_out")
    versions = NormalVersions(score, explanation.data, explanation.values, ordinary, float(level), left_out)
    return replace(explanation, extras=explanation.extras | {NAME: versions(np.arange(len(explanation)))})
