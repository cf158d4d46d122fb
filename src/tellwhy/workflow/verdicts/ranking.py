"""Which rows count as anomalous, and which are explained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.score_function import Floats, Integers
from tellwhy.workflow.verdicts.alarms import Alarms, Calibration, draw_alarms

EXPLAINED_ROWS = 200


@dataclass(frozen=True)
class Ranking:
    """Scores of all selected rows, the threshold, and the rows to explain, most anomalous first.

    Attributes
    ----------
    scores, surprises
        Of every row, with what findings added; a surprise is −log of the row's p-value.
    model_scores
        Scores of the detector alone.
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
    model_scores: Floats
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
    scores: Floats,
    calibration: Calibration,
    reference: Floats,
    wanted: Wanted,
    added: Floats | None = None,
    *,
    drawn: Alarms | None = None,
) -> Ranking:
    """Draw the line, and pick the rows to explain.

    These are all rows above the threshold, but at most 200, and never fewer than `wanted.top`.

    Parameters
    ----------
    scores
        Of every row, by the detector.
    calibration
        How scores become surprises.
    reference
        Scores of the rows to compare with.
    wanted
        What the user asked for.
    added
        Surprise that findings add to each row.
    drawn
        Where alarms begin, if that was decided before; `wanted` decides otherwise.
    """
    raised = scores if added is None else calibration.raised(scores, added)
    surprises = calibration.surprises(raised)
    # Rows with findings are alarms in any case. With their tiny p-values among the others, the rule for false
    # discoveries would let more of the others pass.
    is_budget = wanted.alarms is not None or wanted.contamination is not None
    alarms = drawn or draw_alarms(
        surprises if is_budget else calibration.surprises(scores),
        alarms=wanted.alarms,
        contamination=wanted.contamination,
        fdr=wanted.fdr,
    )
    threshold = _threshold(raised, surprises > alarms.level, calibration.score_of(alarms.level))
    n_explained = max(wanted.top, min(int((raised > threshold).sum()), EXPLAINED_ROWS))
    positions = np.argsort(-raised, kind="stable")[:n_explained]
    # "left" counts the reference rows that score lower: a row of the reference does not stand above itself.
    percentiles = 100.0 * np.searchsorted(np.sort(reference), raised[positions], "left") / len(reference)
    return Ranking(raised, surprises, scores, threshold, alarms, positions, percentiles)


class Wanted(Protocol):
    """How many rows are wanted, and where alarms begin."""

    @property
    def top(self) -> int:
        """How many rows to explain at least."""
        ...

    @property
    def alarms(self) -> int | None:
        """Largest number of alarms."""
        ...

    @property
    def contamination(self) -> float | None:
        """Share of rows that are alarms."""
        ...

    @property
    def fdr(self) -> float | None:
        """Expected share of false alarms."""
        ...


def _threshold(scores: Floats, is_alarm: NDArray[np.bool_], drawn: float) -> float:
    """Return the score that separates alarms from other rows, as near to the drawn one as they allow.

    Where several scores have one surprise, the way back from the surprise is not exact.
    """
    low = scores[~is_alarm].max(initial=-np.inf)
    high = scores[is_alarm].min(initial=np.inf)
    return float(max(min(drawn, np.nextafter(high, -np.inf)), low))
