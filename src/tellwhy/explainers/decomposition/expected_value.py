"""Squared differences to the model's weighted mean."""

from __future__ import annotations

import numpy as np

from tellwhy.core.capabilities import HasExpansion
from tellwhy.core.registry import register
from tellwhy.core.score_function import CentreDistance, Expansion, Floats, KernelExpansion
from tellwhy.explainers.base import Attribution, Rows, ScoreExplainer, lacks


@register(
    "explainer",
    family="decomposition",
    needs="a model made of distances to support points, neighbours or centres",
    cost="O(n d)",
    exactness="a baseline: shares of one distance, not of the score",
    citation="Kauffmann, Müller, Montavon, Pattern Recognition 101 (2020), section 8.2",
    applies=lambda score: isinstance(score, HasExpansion),
)
class ExpectedValue(ScoreExplainer):
    """R_i = (x_i − ū_i)² with ū = Σ_j α_j u_j, the weighted mean of the support points.

    Examples
    --------
    >>> from tellwhy.detectors import KernelDensity
    >>> model = KernelDensity(bandwidth=1.0).fit([[0.0, 0.0], [4.0, 4.0]])
    >>> ExpectedValue(model).explain([[1.0, 2.0]]).values
    array([[1., 0.]])
    """

    kind = "ranking"

    def _attribute(self, rows: Rows) -> Attribution:
        if not isinstance(rows.score, HasExpansion):
            raise lacks(rows.score, "ExpectedValue", "support points")
        expected = _expected(rows.score.expansion)
        # the score of a training row includes itself here: ū does, too
        return Attribution(np.square(rows.X - expected), rows.scores())


def _expected(expansion: Expansion) -> Floats:
    """Mean of the points that a score is made of, by their weights where they have any."""
    if isinstance(expansion, KernelExpansion):
        return np.asarray(expansion.weights @ expansion.points)
    points = expansion.centres if isinstance(expansion, CentreDistance) else expansion.points
    return np.asarray(points.mean(axis=0))
