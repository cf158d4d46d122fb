"""How far each column has to move for the score to be lowest nearby."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.params import Rules
from tellwhy.counterfactuals.minimise import Distance
from tellwhy.counterfactuals.row_scores import RowScores
from tellwhy.explainers.base import BackgroundExplainer
from tellwhy.explainers.rows import BATCH_PARAMETERS, Attribution, Rows
from tellwhy.explainers.shapley.neighbourhood import (
    DISTANCES,
    GAMMAS,
    Neighbourhood,
    describe_distance,
    place_where_scored,
)
from tellwhy.optimise.arrays import on_host


class Compensation(BackgroundExplainer):
    """How far each column has to move, in standard deviations, to where the score is lowest nearby.

    R_i = |x̂*_i − x_i| / s_i, with x̂* a local minimum, where descent from y = x ends, of
    e(y) + γ/d Σ dist(y_i, x_i).

    Parameters
    ----------
    model
        Any model or function that `tellwhy.scoring.as_score` reads.
    gamma
        Weight of the distance, as in `AnomalyShapley`.
    distance
        As in `AnomalyShapley`.
    batch_size
        Rows that the model gets per call, at most; None: as many as memory allows.
    n_jobs
        Calls of the model at the same time, in threads; None: one, −1: one per core. Results do not depend
        on it.

    Notes
    -----
    `extras["displacement"]` holds x̂* − x in the columns that the score sees, with signs and in their units.

    Examples
    --------
    >>> from tellwhy.scoring import FunctionScore
    >>> bowl = FunctionScore(lambda X: (X**2).sum(axis=1), gradient=lambda X: 2 * X)
    >>> background = np.random.default_rng(0).normal(size=(100, 2))
    >>> int(Compensation(bowl).fit(background).explain(np.array([[0.1, 5.0]])).values.argmax())
    1
    """

    kind = "ranking"
    leaves_rows_out = True
    only_anomalies = True
    least_rows = 2
    calls_in_batches = True
    _parameters: ClassVar[dict[str, Rules]] = {"gamma": GAMMAS, "distance": DISTANCES, **BATCH_PARAMETERS}

    def __init__(
        self,
        model: object,
        *,
        gamma: float = 0.01,
        distance: Distance = "squared",
        batch_size: int | None = None,
        n_jobs: int | None = None,
    ):
        super().__init__(model)
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.gamma = gamma
        self.distance = distance

    def _fit(self, X: ArrayLike) -> None:
        """Learn the units of the columns from background rows."""
        background = self.rows(X)
        self.neighbourhood_ = Neighbourhood.of(background.score, background.X)

    def _attribute(self, rows: Rows) -> Attribution:
        self._check_fitted("neighbourhood_")
        scores = RowScores(rows.score, rows.X, rows.left_out)
        everything = np.ones((1, rows.X.shape[1]), dtype=bool)
        X = place_where_scored(scores, rows.X, self.distance)
        found = self.neighbourhood_.lowest(scores, X, everything, gamma=self.gamma, distance=self.distance)
        displacement = on_host(found.points[:, 0] - X)
        return Attribution(
            np.abs(displacement) / self.neighbourhood_.scales,
            scores.value(rows.X, np.arange(len(rows.X))),
            extras={"displacement": displacement},
            params={
                "distance": describe_distance(self.distance),
                "minima_not_settled": int((~found.converged).sum()),
            },
        )
