"""Squared partial derivatives of a score."""

from __future__ import annotations

import numpy as np

from tellwhy.core.registry import register_explainer
from tellwhy.core.score_function import Integers
from tellwhy.explainers.base import Attribution, Explainer, Rows, needs_member
from tellwhy.scoring.training_rows import recorded_rows


@register_explainer(
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
        return Attribution(np.square(slope), rows.score.value(rows.X, *others), extras=left_out_extra(rows, *others))


def left_out_argument(rows: Rows) -> tuple[Integers, ...]:
    """The support point that each row is, for scores that can leave it out; nothing for others."""
    return (rows.score.match(rows.X),) if hasattr(rows.score, "match") else ()


def left_out_extra(rows: Rows, *left_out: Integers) -> dict[str, Integers]:
    """The training rows that were left out, as an explanation records them."""
    return {"left_out": recorded_rows(left_out[0], rows.score.expansion)} if left_out else {}
