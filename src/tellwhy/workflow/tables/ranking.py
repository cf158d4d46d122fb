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
    """Score every row of a table, and rank the rows."""
    scores = fitted.scores()
    return ranking_of(
        scores,
        fitted.reference_scores(scores),
        top=request.top,
        contamination=request.contamination,
        is_clean=fitted.selection.is_clean,
    )


def ranking_of(
    scores: Floats, reference: Floats, *, top: int, contamination: float | None, is_clean: bool
) -> Ranking:
    """Draw the threshold, and pick the rows to explain.

    These are all rows above the threshold, but at most 200, and never fewer than `top`. `reference` are the
    scores of the rows to compare with; `is_clean` tells whether the user vouches for them.
    """
    threshold, rule = draw_threshold(scores, reference, contamination, is_clean=is_clean)
    n_explained = max(top, min(int((scores > threshold).sum()), EXPLAINED_ROWS))
    positions = np.argsort(-scores, kind="stable")[:n_explained]
    # "left" counts the reference rows that score lower: a row of the reference does not stand above itself.
    percentiles = 100.0 * np.searchsorted(np.sort(reference), scores[positions], "left") / len(reference)
    return Ranking(scores, threshold, rule, positions, percentiles)


def draw_threshold(
    scores: Floats, reference: Floats, contamination: float | None, *, is_clean: bool
) -> tuple[float, str]:
    """Return the score above which a row is odd, and how it was drawn, in words."""
    if contamination is not None:
        level = float(np.quantile(scores, 1 - contamination))
        return level, f"the highest {100 * contamination:g} % of scores"
    if is_clean:
        level = float(np.quantile(reference, 0.99))
        return level, "scores that 99 % of the reference rows stay below"
    # Tukey's fence: quartiles stay where they are however odd the few odd rows are.
    low, high = np.quantile(scores, [0.25, 0.75])
    level = float(high + 1.5 * (high - low))
    return level, "scores beyond the upper quartile by 1.5 times the quartiles' distance"
