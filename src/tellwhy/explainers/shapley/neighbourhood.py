"""What background rows tell about moving away from a row: units, binary columns, and ordinary rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from tellwhy.core.capabilities import HasGradient, SharesOfOne
from tellwhy.core.params import function, one_of, real
from tellwhy.core.score_function import Floats, ScoreFunction
from tellwhy.core.tables import evenly_spread
from tellwhy.counterfactuals.minimise import Minima, minimise
from tellwhy.counterfactuals.row_scores import RowScores
from tellwhy.counterfactuals.surroundings import Distance, Mask, binary_columns, column_scales
from tellwhy.optimise.arrays import Array

DISTANCES = (one_of("squared", "absolute"), function)
GAMMAS = real(0, np.inf, closed="left")
N_ANCHORS = 8  # ordinary rows that a search without gradients may step towards
_LOOKED_AT = 256  # background rows that are scored to find them


@dataclass(frozen=True)
class Neighbourhood:
    """How far is far, by column, as learned from background rows.

    Attributes
    ----------
    scales
        Standard deviation of each column; 1 for a constant one.
    constant
        Mask of the constant columns.
    binary
        Mask of the columns that hold both 0 and 1 and nothing else; all columns of a score of shares of 1.
    anchors
        A few ordinary rows, for scores without a gradient, which are searched by trial steps and whose
        distances are bounded; None for others.
    score_unit
        What γ is multiplied with: 1, or the standard deviation of the background's scores where the score has
        no gradient (a forest's score lies between 0 and 1, a distance is in the units of the data).
    """

    scales: Floats
    constant: Mask
    binary: Mask
    anchors: Floats | None
    score_unit: float

    @classmethod
    def of(cls, score: ScoreFunction, background: Floats) -> Neighbourhood:
        """Learn from background rows, in the score's own columns."""
        scales, constant = column_scales(background)
        binary = binary_columns(background) | isinstance(score, SharesOfOne)
        if isinstance(score, HasGradient):
            return cls(scales, constant, binary, None, 1.0)
        looked_at = background[evenly_spread(len(background), _LOOKED_AT)]
        values = score.value(looked_at)
        unit = float(np.std(values))  # 0 for a score that is the same for all rows
        return cls(scales, constant, binary, _ordinary_rows(looked_at, values), unit if unit > 0 else 1.0)

    def lowest(
        self,
        scores: RowScores,
        X: Array,
        free: Mask,
        *,
        gamma: float,
        distance: Distance,
        radius: float | None = None,
        slack: float = 0.0,
    ) -> Minima:
        """Return the local minima of the score around rows, for some sets of free columns."""
        return minimise(
            scores,
            X,
            free,
            gamma=gamma * self.score_unit,
            scales=self.scales,
            distance=distance if self.anchors is None else partial(_bounded, distance),
            binary=self.binary,
            radius=radius,
            anchors=self.anchors,
            slack=slack,
        )


def where_scored(scores: RowScores, X: Floats, distance: Distance) -> Array:
    """Return rows where the score computes; on the host where the distance is the user's function."""
    return X if callable(distance) else scores.space.array(X)


def _bounded(distance: Distance, U: Floats) -> Floats:
    """Return dist/(1 + dist): however far a row is, a score that is bounded itself can make up for it."""
    if callable(distance):
        cost = np.asarray(distance(U), dtype=np.float64)
    else:
        cost = np.abs(U) if distance == "absolute" else np.square(U)
    return cost / (1.0 + cost)


def _ordinary_rows(rows: Floats, values: Floats) -> Floats:
    """Rows evenly spread over the half of them that scores lowest."""
    order = np.argsort(values, kind="stable")
    calm = rows[order[: (len(order) + 1) // 2]]
    return calm[evenly_spread(len(calm), N_ANCHORS)]


def distance_words(distance: Distance) -> str:
    """Name a distance for the record of an explanation."""
    return distance if isinstance(distance, str) else getattr(distance, "__name__", type(distance).__name__)
