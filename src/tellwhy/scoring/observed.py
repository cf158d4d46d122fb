"""Rows that a model learned from: what is ordinary, and how far each column was seen to reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.capabilities import HasObserved, support_points
from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import evenly_spread, take_rows

Mask = NDArray[np.bool_]

MOST_ROWS = 1_000
MOST_CELLS = 1_000_000


@dataclass(frozen=True)
class Observed:
    """Some of the rows that a model learned from, and what is known of each column over all of them.

    `low` and `high` are the smallest and the largest number of each column; `whole` tells which columns hold
    whole numbers only.
    """

    rows: Floats
    low: Floats
    high: Floats
    whole: Mask

    @classmethod
    def of(cls, X: Floats) -> Observed:
        """Keep up to 1,000 rows of X.

        Examples
        --------
        >>> observed = Observed.of(np.arange(6000.0).reshape(3000, 2))
        >>> observed.rows.shape, observed.low, observed.high
        ((1000, 2), array([0., 1.]), array([5998., 5999.]))
        """
        return cls(some_rows(X), X.min(axis=0), X.max(axis=0), whole_columns(X))


def whole_columns(X: Floats) -> Mask:
    """Tell which columns hold nothing but whole numbers."""
    return np.asarray((np.round(X) == X).all(axis=0))


def some_rows(X: Any) -> Any:
    """Return a copy of up to 1,000 rows of an array or a frame (fewer of very wide ones), evenly spread."""
    return take_rows(X, kept_rows(np.shape(X)))


def kept_rows(shape: tuple[int, ...]) -> Integers:
    """Positions of the rows that `some_rows` takes of an array or frame of a shape."""
    n_cells = int(np.prod(shape[1:]))
    most = max(2, min(MOST_ROWS, MOST_CELLS // max(n_cells, 1)))
    return evenly_spread(shape[0], most)


def observed_by(score: object) -> Observed | None:
    """Return rows that the model behind a score learned from, where it keeps any; None where it does not.

    A kernel model or one of neighbours keeps its support points.

    Examples
    --------
    >>> from tellwhy.detectors import GaussianMixture
    >>> from tellwhy.scoring import FunctionScore, as_score
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> observed_by(as_score(GaussianMixture().fit(X))).rows.shape
    (50, 2)
    >>> observed_by(FunctionScore(lambda X: X.sum(axis=1))) is None
    True
    """
    if isinstance(score, HasObserved):
        kept: Any = score.observed
        return kept
    points = support_points(score)
    return None if points is None else Observed.of(points)
