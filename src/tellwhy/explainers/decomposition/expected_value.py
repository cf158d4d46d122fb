"""Squared differences to the model's weighted mean."""

from __future__ import annotations

import numpy as np

from tellwhy.core.registry import register
from tellwhy.core.score_function import CentreDistance, KernelExpansion
from tellwhy.explainers.base import Attribution, Explainer, Rows, needs_member


@register(
    "explainer",
    family="decomposition",
    needs="a model made of distances to support points, neighbours or centres",
    cost="O(n d)",
    exactness="a baseline: shares of one distance, not of the score",
    citation="Kauffmann, Müller, Montavon, Pattern Recognition 101 (2020), section 8.2",
    applies=lambda score: getattr(score, "expansion", None) is not None,
)
class ExpectedValue(Explainer):
    """R_i = (x_i − ū_i)² with ū = Σ_j α_j u_j, the weighted mean of the support points.

    Examples
    --------
    >>> from tellwhy.detectors import KernelDensity
    >>> ExpectedValue(KernelDensity(bandwidth=1.0).fit([[0.0, 0.0], [4.0, 4.0]])).explain([[1.0, 2.0]]).values
    array([[1., 0.]])
    """

    kind = "ranking"

    def _attribute(self, rows: Rows) -> Attribution:
        expansion = needs_member(rows.score, "expansion", "ExpectedValue", "support points")
        if isinstance(expansion, KernelExpansion):
            expected = expansion.weights @ expansion.points
        elif isinstance(expansion, CentreDistance):
            expected = expansion.centres.mean(axis=0)
        else:
            expected = expansion.points.mean(axis=0)
        return Attribution(np.square(rows.X - expected), rows.score.value(rows.X))
