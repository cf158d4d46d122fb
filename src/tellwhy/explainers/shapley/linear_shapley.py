"""Shapley values of a linear score, in closed form."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.capabilities import HasLinear
from tellwhy.core.params import Rules
from tellwhy.core.registry import register
from tellwhy.core.score_function import Floats
from tellwhy.explainers.base import Attribution, BackgroundExplainer, Rows, lacks


@register(
    "explainer",
    family="shapley",
    needs="a linear score (linear and logistic regression, linear SVMs); background rows for their mean",
    cost="one product with the weights",
    exactness="exact; additive",
    citation="Štrumbelj, Kononenko, Knowledge and Information Systems 41 (2014)",
    applies=lambda score: isinstance(score, HasLinear),
    automatic=2,
)
class LinearShapley(BackgroundExplainer):
    """R_i = w_i (x_i − m_i), with the weights w of a linear score and the mean m of the background rows.

    These are the Shapley values that `KernelShap` would find with all background rows as references, whatever
    their number. The base value is the mean score of the background.

    Parameters
    ----------
    model
        A model that `tellwhy.scoring` reads as a linear score: of a classifier its margin, of a regressor its
        prediction (`tellwhy.scoring.as_prediction`), of a linear one-class SVM its score.

    Attributes
    ----------
    mean_
        Mean of the background rows, in the columns that the score sees.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from tellwhy.scoring import as_prediction
    >>> X = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 4.0]])
    >>> model = LinearRegression().fit(X, [0.0, 2.0, 8.0])
    >>> LinearShapley(as_prediction(model)).fit([[1.0, 1.0]]).explain([[3.0, 0.0]]).values.round(9)
    array([[ 2., -2.]])
    """

    _parameters: ClassVar[dict[str, Rules]] = {}

    def _fit(self, X: ArrayLike) -> None:
        """Learn the mean of the background rows."""
        self.mean_ = self.rows(X).X.mean(axis=0)

    def _attribute(self, rows: Rows) -> Attribution:
        if not isinstance(rows.score, HasLinear):
            raise lacks(rows.score, "LinearShapley", "weights (KernelShap explains any score)")
        self._check_fitted("mean_")
        number = np.zeros(len(rows.X), dtype=np.int64) if rows.output is None else rows.output
        weights: Floats = rows.score.linear.weights[number]
        base = (weights * self.mean_).sum(axis=1) + rows.score.linear.intercept[number]
        return Attribution(weights * (rows.X - self.mean_), rows.scores(), base)
