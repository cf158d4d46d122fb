"""Mean distance to the nearest training rows."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.params import Rules, integer, real
from tellwhy.core.score import Floats, NeighbourDistance
from tellwhy.detectors.base import RememberingDetector, choose_calibration_rows
from tellwhy.scoring import NeighbourScore


class NearestNeighbours(RememberingDetector):
    """o(x) = mean Euclidean distance to the k nearest training rows.

    Parameters
    ----------
    n_neighbors
        k; fewer where there are fewer other rows.
    contamination
        Share of training rows, each scored as if it were new, above the threshold that `fit` sets.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> NearestNeighbours().fit(X).predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        "n_neighbors": integer(1),
        "contamination": real(0, 0.5, closed="right"),
    }

    def __init__(self, n_neighbors: int = 10, *, contamination: float = 0.1):
        self.n_neighbors = n_neighbors
        self.contamination = contamination

    def _fit(self, X: Floats) -> None:
        k = min(int(self.n_neighbors), len(X) - 1)  # a row is no neighbour of itself
        everyone = np.arange(len(X))
        self.expansion_ = NeighbourDistance(X.copy(), k, everyone, len(X))
        rows = choose_calibration_rows(len(X))
        self.training_scores_ = self.to_score().value(X[rows], rows)
        self.set_threshold(contamination=self.contamination)

    def to_score(self) -> NeighbourScore:
        """Return the outlierness as a score function with its neighbours."""
        check_is_fitted(self)
        return NeighbourScore(self.expansion_, feature_names=self._names, threshold=self._known_threshold)
