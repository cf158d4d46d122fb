"""A bandwidth chosen so that explanations name the right column: on rows held out, with one column moved.

With many columns, a kernel as wide as the rows are apart sees all of them at nearly equal distances, and the
relevance of a moved column drowns in what the others always have. How narrow is best depends on the data: so
it is tried, on training rows only.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from tellwhy.core.errors import NotConverged
from tellwhy.core.score_function import Floats
from tellwhy.kernels.bandwidth import WIDTHS, median_distance
from tellwhy.scoring.moved_columns import LEAST_MOVED, MovedColumns, Naming
from tellwhy.scoring.relevance import relevance, usual_relevance

LEARNED_ROWS = 1_000  # that each candidate is fitted on: the cost of a fit grows with their square
HELD_OUT_ROWS = 200
MOVED_ROWS = 500
USUAL_ROWS = 300
LEAST_ROWS = 20  # fewer training rows decide nothing


class Trials(NamedTuple):
    """Bandwidths that were tried, and how well each named the moved columns.

    `named` has one line per bandwidth: mean reciprocal rank of plain and of relative relevance.
    """

    bandwidths: Floats
    named: Floats

    @property
    def best(self) -> float:
        """The bandwidth with the highest mean reciprocal rank, of either form."""
        return float(self.bandwidths[self.named.max(axis=1).argmax()])


def tried_bandwidths(detector: Any, X: Floats) -> Trials | None:
    """Try bandwidths for a detector on its training rows; None where there are too few to hold some out.

    A fifth of the rows, at most 200, is held out. 500 rows are made from them by moving one column each, by
    one to two standard deviations. The detector learns at most 1,000 of the other rows, with each of six
    bandwidths between a sixteenth of and twice the median distance, and explains the moved rows. The rows are
    the same in every fit, and the order of the columns does not matter.
    """
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    n_held = min(HELD_OUT_ROWS, len(X) // 5)
    learned = X[order[n_held : n_held + LEARNED_ROWS]]
    if len(X) < LEAST_ROWS:
        return None
    owner = np.arange(X.shape[1])
    moved = MovedColumns.drawn(X[order[:n_held]], owner, MOVED_ROWS, rng, known=X)
    if len(moved.X) < LEAST_MOVED:
        return None
    widths = np.array(WIDTHS) * median_distance(X)
    named = [_named(clone(detector).set_params(bandwidth=w), learned, moved) for w in widths.tolist()]
    return Trials(widths, np.array(named))


def _named(detector: Any, learned: Floats, moved: MovedColumns) -> tuple[float, float]:
    """How well a detector names the moved columns, in plain and in relative form."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # the detector itself will say so, once
        score = detector.set_params(**_exact(detector)).fit(learned).to_score()
    some = learned[:USUAL_ROWS]  # in random order
    usual = usual_relevance(*relevance(score, some, score.match(some)))
    values, _ = relevance(score, moved.X, np.full(len(moved.X), -1, dtype=np.int64))
    found = Naming.of(moved, values, usual)
    return found.plain, found.relative


def _exact(detector: Any) -> dict[str, Any]:
    """Without kernel features: few rows need none."""
    return {"features": None} if "features" in detector.get_params(deep=False) else {}
