"""Several balls instead of one: support vector data description of clusters."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import Rules, Seed, generator, integer, one_of, real, seed
from tellwhy.core.score import CentreDistance, Floats, Integers
from tellwhy.data.graphs import as_graph
from tellwhy.detectors.base import Detector, choose_calibration_rows
from tellwhy.detectors.lccad.alternation import Alternation, Settings
from tellwhy.detectors.lccad.costs import squared_distances
from tellwhy.kernels.distances import squarable_centre_and_unit
from tellwhy.scoring import CentreScore


class ClusterSVDD(Detector):
    """o(x) = min_k ‖x − c_k‖²: `LCCAD` without a graph. For ν = 1, the centres are those of k-means.

    Parameters
    ----------
    n_classes
        Number of balls; those that end up without rows are dropped.
    nu
        Share of each cluster that its ball may leave out; 1 makes the centres cluster means.
    loss
        Of the excess ‖c − x‖² − t: 'hinge', or 'squared' (of the positive part).
    n_init
        Number of starts; the lowest objective is kept.
    max_iter
        The most rounds of a start.
    contamination
        Share of training rows above the threshold that `fit` sets.
    random_state
        Seed of the starts.

    Attributes
    ----------
    labels_
        Ball of each training row.
    squared_radii_
        Squared radius t_k of each ball.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(100, 2)), rng.normal(size=(100, 2)) + 10.0])
    >>> ClusterSVDD().fit(X).predict([[0.0, 0.0], [5.0, 5.0], [10.0, 10.0]])
    array([ 1, -1,  1])
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        "n_classes": integer(1, 127),
        "nu": real(0, 1, closed="right"),
        "loss": one_of("hinge", "squared"),
        "n_init": integer(1),
        "max_iter": integer(1),
        "contamination": real(0, 0.5, closed="right"),
        "random_state": seed,
    }

    def __init__(
        self,
        n_classes: int = 2,
        nu: float = 1.0,
        loss: str = "hinge",
        *,
        n_init: int = 5,
        max_iter: int = 100,
        contamination: float = 0.1,
        random_state: Seed = 0,
    ):
        self.n_classes = n_classes
        self.nu = nu
        self.loss = loss
        self.n_init = n_init
        self.max_iter = max_iter
        self.contamination = contamination
        self.random_state = random_state

    def _fit(self, X: Floats) -> None:
        if self.n_classes > len(X):
            raise InvalidInput(
                f"n_classes={self.n_classes} needs as many rows; X has {len(X)}. Take fewer classes."
            )
        middle, unit = squarable_centre_and_unit(X, "squared distances")
        rng = generator(self.random_state)
        # In these units steps and tolerances suit any data; the results are brought back below.
        alternation = Alternation((X - middle) / unit, as_graph(None, len(X)), self._settings(), rng)
        found = [alternation.run(alternation.start(rng)) for _ in range(self.n_init)]
        best = min(found, key=lambda state: state.rank)
        self.n_iter_ = best.n_iter
        used = best.sizes > 0
        # Balls without rows are dropped, and the others numbered anew.
        self.labels_ = (np.cumsum(used) - 1)[best.labelling.labels]
        self.squared_radii_ = best.balls.squared_radii[used] * unit**2
        self.expansion_ = CentreDistance(best.balls.centres[used] * unit + middle)
        self.training_scores_ = self.to_score().value(X[choose_calibration_rows(len(X))])
        self.set_threshold(contamination=self.contamination)

    def _settings(self) -> Settings:
        """Return settings of the latent-class model under which neighbours do not count (θ = 1)."""
        return Settings(
            n_classes=int(self.n_classes),
            theta=1.0,
            nu=float(self.nu),
            loss=self.loss,
            gamma=0.0,
            inference="auto",
            learn="fixed",
            coupling=0.0,
            on_features=False,
            normalised=False,
            max_iter=int(self.max_iter),
        )

    def to_score(self) -> CentreScore:
        """Return the outlierness as a score function with its centres."""
        check_is_fitted(self)
        return CentreScore(
            self.expansion_,
            feature_names=self._names,
            describes="squared distance to the nearest centre of ClusterSVDD",
            threshold=self._known_threshold,
        )

    def assign(self, X: ArrayLike) -> Integers:
        """Return the nearest ball's centre for each row."""
        check_is_fitted(self)
        return squared_distances(self._validated(X, reset=False), self.expansion_.centres).argmin(axis=1)
