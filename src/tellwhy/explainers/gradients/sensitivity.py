"""Squared partial derivatives of a score."""

from __future__ import annotations

import numpy as np

from tellwhy.core.registry import register
from tellwhy.explainers.base import (
    Attribution,
    Explainer,
    Rows,
    left_out_argument,
    left_out_extra,
    needs_member,
)


@register(
    "explainer",
    family="gradients",
    needs="a score with a gradient",
    cost="one gradient: O(n m d) for kernel models",
    exactness="exact derivative; explains the score's variation, not its value",
    citation="Baehrens, Schroeter, Harmeling, Kawanabe, Hansen, Müller, JMLR 11 (2010)",
    applies=lambda score: getattr(score, "gradient", None) is not None,
)
class Sensitivity(Explainer):
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

    def _attribute(self, rows: Rows) -> Attribution:
        needs_member(rows.score, "gradient", "Sensitivity", "a gradient")
        others = left_out_argument(rows)
        slope = rows.score.gradient(rows.X, *others)
        return Attribution(
            np.square(slope), rows.score.value(rows.X, *others), extras=left_out_extra(rows, *others)
        )
