"""Which rows count as anomalous, and which are explained."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.score_function import Floats, Integers
from tellwhy.workflow.verdicts.alarms import Alarms, Calibration

EXPLAINED_ROWS = 200


@dataclass(frozen=True)
class Ranking:
    """Scores of all selected rows, the threshold, and the rows to explain, most anomalous first.

    Attributes
    ----------
    scores, surprises
        Of every row; a surprise is −log of the row's p-value.
    threshold
        Score above which a row is an alarm.
    alarms
        How the threshold was drawn.
    positions
        Rows to explain.
    percentiles
        Of those rows, among the reference rows.
    """

    scores: Floats
    surprises: Floats
    threshold: float
    alarms: Alarms
    positions: Integers
    percentiles: Floats

    @property
    def n_above(self) -> int:
        """How many rows are above the threshold."""
        return int((self.scores > self.threshold).sum())

    def p_value(self, position: int) -> float:
        """Probability that an ordinary row is as odd as this one."""
        return float(np.exp(-max(self.surprises[position], 0.0)))


def ranking_of(
    scores: Floats, calibration: Calibration, reference: Floats, alarms: Alarms, *, top: int
) -> Ranking:
    """Pick the rows to explain.

    These are all rows above the threshold, but at most 200, and never fewer than `top`. `reference` are the
    scores of the rows to compare with.
    """
    surprises = calibration.surprises(scores)
    threshold = _threshold(scores, surprises > alarms.level, calibration.score_of(alarms.level))
    n_explained = max(top, min(int((scores > threshold).sum()), EXPLAINED_ROWS))
    positions = np.argsort(-scores, kind="stable")[:n_explained]
    # "left" counts the reference rows that score lower: a row of the reference does not stand above itself.
    percentiles = 100.0 * np.searchsorted(np.sort(reference), scores[positions], "left") / len(reference)
    return Ranking(scores, surprises, threshold, alarms, positions, percentiles)


def _threshold(scores: Floats, is_alarm: NDArray[np.bool_], drawn: float) -> float:
    """Return the score that separates alarms from other rows, as near to the drawn one as they allow.

    Where several scores have one surprise, the way back from the surprise is not exact.
    """
    low = scores[~is_alarm].max(initial=-np.inf)
    high = scores[is_alarm].min(initial=np.inf)
    return float(max(min(drawn, np.nextafter(high, -np.inf)), low))
