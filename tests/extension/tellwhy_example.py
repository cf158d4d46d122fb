"""A package of somebody else: one detector and one explainer for tellwhy."""

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.registry import register
from tellwhy.detectors.base import Detector
from tellwhy.explainers.base import BackgroundExplainer
from tellwhy.explainers.rows import Attribution
from tellwhy.scoring import FunctionScore


@register(
    "detector",
    needs="numeric rows",
    cost="O(n d)",
    exactness="exact",
    citation="an example",
)
class RobustDistance(Detector):
    """o(x) = Σ_i |x_i − m_i| / s_i with the median m and the interquartile range s of each column."""

    def _fit(self, X):
        self.middle_ = np.median(X, axis=0)
        low, high = np.quantile(X, [0.25, 0.75], axis=0)
        spread = high - low
        self.spread_ = np.where(spread > 0, spread, 1.0)
        if not np.isfinite(spread).all():
            raise InvalidInput("The spread of a column overflows. Scale the columns first.")
        self.training_scores_ = self._distance(X)
        self.threshold_ = float(np.quantile(self.training_scores_, 0.95))

    def _distance(self, X):
        return (np.abs(np.asarray(X, dtype=float) - self.middle_) / self.spread_).sum(axis=1)

    def to_score(self):
        return FunctionScore(
            self._distance,
            feature_shape=self.middle_.shape,
            feature_names=self._names,
            describes="sum of distances to the medians",
            threshold=self.threshold_,
        )


@register(
    "explainer",
    family="an example",
    needs="any score; background rows",
    cost="d scores per row",
    exactness="exact; what columns cause together is stated as residual",
    citation="an example",
    applies=lambda _: True,
)
class MedianGap(BackgroundExplainer):
    """R_i = o(x) − o(x with column i at the median of the background rows)."""

    def _fit(self, X):
        self.median_ = np.median(self.rows(X).X, axis=0)

    def _attribute(self, rows):
        self._check_fitted("median_")
        scores = rows.scores()
        values = np.empty(rows.X.shape)
        for column, middle in enumerate(self.median_):
            replaced = rows.X.copy()
            replaced[:, column] = middle
            values[:, column] = scores - rows.score.value(replaced)
        return Attribution(values, scores)
