"""Per-feature terms of a diagonal Gaussian."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.params import Rules, real
from tellwhy.core.registry import register
from tellwhy.core.rows.scaling import ColumnSpread
from tellwhy.explainers.base import Attribution, BackgroundExplainer, Rows


@register(
    "explainer",
    family="decomposition",
    needs="background rows",
    cost="O(n d)",
    exactness="a baseline: explains a Gaussian's score, never reads the model",
    citation="Kauffmann, Müller, Montavon, Pattern Recognition 101 (2020), section 8.1",
    applies=lambda _: True,
)
class GaussianNLL(BackgroundExplainer):
    """R_i = (x_i − μ_i)² / (2 (s_i² + λ v)): how far each feature is from its own mean.

    What the model says does not enter: this is what a reader sees in a table of z-scores.

    μ_i and s_i² are the mean and the variance of the background rows, and v the mean variance over the
    features, so that λ has no unit and a constant feature does not divide by zero.

    Parameters
    ----------
    model
        The model whose scores are shown; its structure is not used.
    regularisation
        λ.

    Examples
    --------
    >>> from tellwhy.explainers import GaussianNLL
    >>> background = np.random.default_rng(0).normal(size=(500, 2))
    >>> explainer = GaussianNLL(lambda X: np.abs(X).sum(axis=1)).fit(background)
    >>> int(explainer.explain(np.array([[0.0, 5.0]])).values.argmax())
    1
    """

    kind = "ranking"
    _parameters: ClassVar[dict[str, Rules]] = {"regularisation": real(0, np.inf, closed="left")}

    def __init__(self, model: object, *, regularisation: float = 1e-3):
        super().__init__(model)
        self.regularisation = regularisation

    def _fit(self, X: ArrayLike) -> None:
        """Learn mean and variance of each feature from background rows."""
        background = self.rows(X).X
        spread = ColumnSpread.of(background)
        self.mean_ = spread.mean
        self.variance_ = spread.deviation**2

    def _attribute(self, rows: Rows) -> Attribution:
        self._check_fitted("mean_")
        # where all columns are constant there is no mean variance either: then any positive number will do
        unit = max(float(self.variance_.mean()), np.finfo(float).tiny)
        variance = self.variance_ + self.regularisation * unit
        difference = rows.X - self.mean_
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(difference == 0, 0.0, difference**2 / (2 * variance))
        # a value never seen in a constant column is as odd as can be told, not infinitely odd
        return Attribution(np.minimum(terms, np.finfo(float).max), rows.scores())
