"""What is left of a classifier's decision when only the best-ranked parts of an input are kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import Seed, generator, integer, one_of, validate_value
from tellwhy.core.score_function import Floats, Integers
from tellwhy.scoring.class_scores import as_class_scores, with_known_outputs
from tellwhy.scoring.scores.log_odds import ClassScores

LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class KeepTop:
    """What is left of a decision when only the top segments (or features) of each input are kept.

    Attributes
    ----------
    probability
        Probability of the explained class, one per row.
    accuracy
        Whether the model still decides for the explained class, one per row.
    """

    method: str
    k: int
    probability: Floats
    accuracy: Floats

    def interval(
        self, of: str = "probability", *, n_bootstraps: int = 1000, random_state: Seed = 0
    ) -> tuple[float, float]:
        """95 % limits of the mean of "probability" or "accuracy", by bootstrap over the rows."""
        validate_value("KeepTop.interval", "of", of, one_of("probability", "accuracy"))
        rows = self.probability if of == "probability" else self.accuracy
        drawn = generator(random_state).integers(len(rows), size=(n_bootstraps, len(rows)))
        low, high = np.quantile(rows[drawn].mean(axis=1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return float(low), float(high)


def keep_top(
    explanation: Explanation,
    model: object,
    *,
    k: int = 20,
    background: ArrayLike = 0.0,
    segments: ArrayLike | None = None,
) -> KeepTop:
    """Keep the k segments (or features) of each row with the highest values, replace the rest, ask the model.

    Parameters
    ----------
    explanation
        Of a classifier's decisions, by any method.
    model
        The classifier.
    k
        How many segments to keep.
    background
        A number or an input that replaces the rest.
    segments
        Segment of each cell, shaped like the rows; by default `extras["segments"]`, else every cell is its
        own.

    Examples
    --------
    >>> X = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> def model(X):
    ...     p = 1 / (1 + np.exp(-X[:, 0]))
    ...     return np.column_stack([1 - p, p])
    >>> e = Explanation(values=X * [1, 0], scores=X[:, 0], method="Example", data=X)
    >>> keep_top(e, model, k=1).accuracy
    array([1., 1.])
    """
    validate_value("keep_top", "k", k, integer(1))
    X = np.asarray(explanation.data, dtype=np.float64)
    score = with_known_outputs(as_class_scores(model), X)
    if not isinstance(score, ClassScores):
        raise InvalidInput("keep_top measures decisions of a classifier; this model gives one score.")
    label = _segments(X, explanation.extras.get("segments") if segments is None else segments)
    kept = np.empty_like(X)
    for i, x in enumerate(X):
        kept[i] = _keep(x, explanation.values[i], label[i], k=k, background=background)
    recorded = explanation.extras.get("target")  # the explained class need not be the preferred one
    chosen = score.outputs(X).argmax(axis=1) if recorded is None else np.asarray(recorded, dtype=np.int64)
    odds = score.outputs(kept)
    probability = 1.0 / (1.0 + np.exp(-odds[np.arange(len(X)), chosen]))
    return KeepTop(explanation.method, k, probability, (odds.argmax(axis=1) == chosen).astype(np.float64))


def _segments(X: Floats, given: ArrayLike | None) -> Integers:
    """Segment of each cell; where none are given, every cell of an input is its own."""
    if given is not None:
        return np.asarray(given)
    return np.broadcast_to(np.arange(X[0].size).reshape(X.shape[1:]), X.shape)


def _keep(x: Floats, values: Floats, label: Integers, *, k: int, background: ArrayLike) -> Floats:
    """Return one input with its k best segments; a segment is worth the sum of the values of its cells."""
    worth = np.bincount(label.ravel(), values.ravel())
    best = np.argsort(-worth, kind="stable")[:k]
    return np.where(np.isin(label, best), x, background)
