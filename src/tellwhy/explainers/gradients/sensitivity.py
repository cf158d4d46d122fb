"""Squared partial derivatives of a score."""

from __future__ import annotations

import numpy as np

from tellwhy.core.capabilities import HasGradient
from tellwhy.core.registry import register
from tellwhy.explainers.base import Attribution, Rows, ScoreExplainer, lacks


@register(
    "explainer",
    family="gradients",
    needs="a score with a gradient",
    cost="one gradient: O(n m d) for kernel models",
    exactness="exact derivative; explains the score's variation, not its value",
    citation="Baehrens, Schroeter, Harmeling, Kawanabe, Hansen, Müller, JMLR 11 (2010)",
    applies=lambda score: isinstance(score, HasGradient),
)
class Sensitivity(ScoreExplainer):
    """R_i = (∂o/∂x_i)².

    Training rows of a kernel model are left out of it, as in `OneClassDTD`: at its own support point a row's
    gradient vanishes.

    Examples
    --------
    >>> from tellwhy.detectors import SVDD
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> Sensitivity(SVDD(kernel="linear").fit(X)).explain([[0.0, 5.0]]).values.round(-1)
    array([[  0., 100.]])
    """

    kind = "sensitivity"
    leaves_rows_out = True

    def _attribute(self, rows: Rows) -> Attribution:
        if not isinstance(rows.score, HasGradient):
            raise lacks(rows.score, "Sensitivity", "a gradient")
        # squared, so that a feature whose growth lowers the score counts as much as one that raises it
        slope = rows.score.gradient(rows.X, *rows.without)
        return Attribution(np.square(slope), rows.scores())
