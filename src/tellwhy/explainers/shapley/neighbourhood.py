"""What background rows tell about moving away from a row: units, binary columns, and ordinary rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.params import function, one_of, real
from tellwhy.core.score_function import Floats
from tellwhy.scoring.minimise import Minima, minimise
from tellwhy.scoring.row_scores import RowScores
from tellwhy.scoring.surroundings import Distance, Mask, binary_columns, column_scales

DISTANCES = (one_of("squared", "absolute"), function)
GAMMAS = real(0, np.inf, closed="left")
N_ANCHORS = 8
_LOOKED_AT = 256


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
        Mask of the columns that hold both 0 and 1 and nothing else.
    anchors
        A few ordinary rows, for searches without a gradient.
    """

    scales: Floats
    constant: Mask
    binary: Mask
    anchors: Floats

    @classmethod
    def of(cls, score: Any, background: Floats) -> Neighbourhood:
        """Learn from background rows, in the score's own columns."""
        scales, constant = column_scales(background)
        return cls(scales, constant, binary_columns(background), _ordinary_rows(score, background))

    def lowest(
        self, scores: RowScores, X: Floats, free: Mask, *, gamma: float, distance: Distance, radius: float | None = None
    ) -> Minima:
        """Return the local minima of the score around rows, for some sets of free columns."""
        return minimise(
            scores,
            X,
            free,
            gamma=gamma,
            scales=self.scales,
            distance=distance,
            binary=self.binary,
            radius=radius,
            anchors=self.anchors,
        )


def _ordinary_rows(score: Any, background: Floats) -> Floats:
    """Rows evenly spread over the half of the background that scores lowest."""
    looked_at = background[_spread(len(background), _LOOKED_AT)]
    order = np.argsort(score.value(looked_at), kind="stable")
    calm = looked_at[order[: (len(order) + 1) // 2]]
    return calm[_spread(len(calm), N_ANCHORS)]


def _spread(n: int, most: int) -> Any:
    return np.linspace(0, n - 1, min(n, most)).round().astype(np.int64)


def distance_words(distance: Distance) -> str:
    """Name a distance for the record of an explanation."""
    return distance if isinstance(distance, str) else getattr(distance, "__name__", type(distance).__name__)
