"""How far Shapley values are off because reference rows were drawn from more.

Values are linear in the worth of sets, and the worth of a set is a mean over reference rows: values are the
mean over reference rows of those that each of them gives alone. Their spread tells the error of the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tellwhy.core.score_function import Floats
from tellwhy.explainers.shapley.coalitions import Coalitions
from tellwhy.explainers.shapley.shapley_values import SumFit, set_weights


@dataclass(frozen=True)
class ReferenceErrors:
    """Standard errors of values whose reference rows are a sample without repetition.

    Attributes
    ----------
    fit
        From worth to values; None for a single player, who gets everything.
    weighted
        Masks of the sets times their weights, (m, p).
    left
        Share of the background that was not drawn: with none left there is no error.
    """

    fit: SumFit | None
    weighted: Floats
    left: float

    @classmethod
    def of(cls, coalitions: Coalitions, n_drawn: int, n_rows: int) -> ReferenceErrors | None:
        """Prepare for some sets; None where all rows serve, or a single one, which has no spread."""
        if not 1 < n_drawn < n_rows:
            return None
        weighted = coalitions.members * set_weights(coalitions)[:, None]
        fit = SumFit.of_sets(coalitions) if coalitions.n_players > 1 else None
        return cls(fit, weighted, 1.0 - n_drawn / n_rows)

    def summed(self, worth: Floats, some: slice) -> Floats:
        """Σ w z v(z) over some of the sets, from v of each reference row (n, sets, r), shape (n, r, p)."""
        return np.asarray(np.swapaxes(worth, 1, 2) @ self.weighted[some])

    def of_rows(self, sums: Floats, empty: Floats, full: Floats) -> Floats:
        """Standard error of each value, from the sums over all sets and v(∅) of each reference row (n, r)."""
        total = full[:, None] - empty
        if self.fit is None:
            each = total[..., None]
        else:
            gains = sums - empty[..., None] * self.weighted.sum(axis=0)
            each = self.fit.values(gains, total)
        n_drawn = empty.shape[1]
        return np.asarray(np.sqrt(self.left * each.var(axis=1, ddof=1) / n_drawn))
