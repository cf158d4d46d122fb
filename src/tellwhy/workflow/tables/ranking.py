"""Which rows count as anomalous, and which are explained."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tellwhy.core.score_function import Floats, Integers
from tellwhy.workflow.tables.fitted import FittedTable
from tellwhy.workflow.tables.request import Request

EXPLAINED_ROWS = 200


@dataclass(frozen=True)
class Ranking:
    """Scores of all selected rows, the threshold, and the rows to explain, most anomalous first."""

    scores: Floats
    threshold: float
    rule: str  # how the threshold was drawn, in words
    positions: Integers
    percentiles: Floats  # of those rows, among the reference rows

    @property
    def n_above(self) -> int:
        """How many rows are above the threshold."""
        return int((self.scores > self.threshold).sum())


def rank(fitted: FittedTable, request: Request) -> Ranking:
    """Score every row, draw the threshold, and pick what to explain: all rows above it, up to 200, or the top k."""
    scores = fitted.scores()
    reference = fitted.reference_scores(scores)
    threshold, rule = draw_threshold(
        scores, reference, request.contamination, is_clean=fitted.selection.is_clean
    )
    n_explained = max(request.top, min(int((scores > threshold).sum()), EXPLAINED_ROWS))
    positions = np.argsort(-scores, kind="stable")[:n_explained]
    percentiles = 100.0 * np.searchsorted(np.sort(reference), scores[positions], "left") / len(reference)
    return Ranking(scores, threshold, rule, positions, percentiles)


def draw_threshold(
    scores: Floats, reference: Floats, contamination: float | None, *, is_clean: bool
) -> tuple[float, str]:
    """Return the score above which a row is odd, and how it was drawn, in words."""
    if contamination is not None:
        return float(
            np.quantile(scores, 1 - contamination)
        ), f"the highest {100 * contamination:g} % of scores"
    if is_clean:
        return float(np.quantile(reference, 0.99)), "scores that 99 % of the reference rows stay below"
    low, high = np.quantile(scores, [0.25, 0.75])
    return float(
        high + 1.5 * (high - low)
    ), "scores beyond the upper quartile by 1.5 times the quartiles' distance"
