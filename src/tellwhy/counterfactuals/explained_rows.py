"""What was explained and what counts as normal; and what a search for normal versions must know of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tellwhy.core.capabilities import LeavesRowsOut
from tellwhy.core.score_function import Floats, Integers, ScoreFunction
from tellwhy.counterfactuals.choices import Mask
from tellwhy.counterfactuals.written import Limits
from tellwhy.scoring.training_rows import points_of


@dataclass(frozen=True, eq=False)
class ExplainedRows:
    """Rows whose score was explained.

    Attributes
    ----------
    score
        The score that was explained.
    data
        The explained rows, as they were given.
    values
        Their attributions: where there are many columns, those with the highest values are looked at.
    background
        Ordinary rows like `data`; None: what the model keeps of the rows that it learned from.
    threshold
        Score that counts as normal, at most.
    left_out
        Training row that each row was scored without, or −1, as `extras["left_out"]` records it; None:
        nothing.
    """

    score: Any
    data: Any
    values: Floats
    background: Any
    threshold: float
    left_out: Integers | None = None

    def points(self, rows: Integers, score: ScoreFunction) -> Integers | None:
        """Support point that each row does without, or −1; None for scores that cannot leave one out."""
        if not isinstance(score, LeavesRowsOut):
            return None
        if self.left_out is None:
            return np.full(len(rows), -1, dtype=np.int64)
        return points_of(np.asarray(self.left_out)[rows], score.remembered)


class UserRows(Protocol):
    """Rows as the user has them, told in numbers that can be changed."""

    @property
    def X(self) -> Floats:
        """The explained rows; one number per column."""
        ...

    @property
    def limits(self) -> Limits:
        """What the numbers may be."""
        ...

    def nearest(self, rows: Integers) -> Floats:
        """Return the nearest normal version of some rows; NaN where none was found."""
        ...

    def is_normal(self, Y: Floats, rows: Integers) -> Mask:
        """Tell which points score at most the threshold; point i was made from row `rows[i]`."""
        ...

    def table(self, Y: Floats, rows: Integers) -> Any:
        """Return points as the user has rows: an array of numbers, or a frame; a row with NaN is empty."""
        ...
