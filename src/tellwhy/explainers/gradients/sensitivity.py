"""Squared partial derivatives of a score."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tellwhy.core.capabilities import HasGradient
from tellwhy.core.params import Rules
from tellwhy.core.registry import register
from tellwhy.explainers.base import Attribution, Rows, ScoreExplainer, lacks
from tellwhy.explainers.in_batches import BATCH_PARAMETERS


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

    Parameters
    ----------
    model
        A model whose score has a gradient.
    batch_size
        Rows that the model gets per call, at most; None: as many as memory allows.
    n_jobs
        Calls of the model at the same time, in threads; −1: one per core. Results do not depend on it.

    Examples
    --------
    >>> from tellwhy.detectors import SVDD
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> Sensitivity(SVDD(kernel="linear").fit(X)).explain([[0.0, 5.0]]).values.round(-1)
    array([[  0., 100.]])
    """

    kind = "sensitivity"
    leaves_rows_out = True
    calls_in_batches = True
    _parameters: ClassVar[dict[str, Rules]] = {**BATCH_PARAMETERS}

    def __init__(self, model: object, *, batch_size: int | None = None, n_jobs: int = 1):
        super().__init__(model)
        self.batch_size = batch_size
        self.n_jobs = n_jobs

    def _attribute(self, rows: Rows) -> Attribution:
        if not isinstance(rows.score, HasGradient):
            raise lacks(rows.score, "Sensitivity", "a gradient")
        # squared, so that a feature whose growth lowers the score counts as much as one that raises it
        slope = rows.score.gradient(rows.X, *rows.without)
        return Attribution(np.square(slope), rows.scores())
