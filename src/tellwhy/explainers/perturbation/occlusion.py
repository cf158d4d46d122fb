"""How much a score falls when one column takes ordinary values."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellwhy.core.parallel import tracked_batches
from tellwhy.core.params import Rules, Seed, generator, integer, seed
from tellwhy.core.registry import register
from tellwhy.core.score_function import Floats
from tellwhy.explainers.base import Attribution, BackgroundExplainer, Rows, mean_of_rows
from tellwhy.explainers.in_batches import BATCH_PARAMETERS


@register(
    "explainer",
    family="perturbation",
    needs="any score; background rows",
    cost="d × n_background scores per row",
    exactness="exact for the drawn background; interactions are stated as residual",
    citation="Zeiler, Fergus, ECCV (2014); Robnik-Šikonja, Kononenko, IEEE TKDE 20 (2008)",
    applies=lambda _: True,
    automatic=10,
)
class Occlusion(BackgroundExplainer):
    """R_i = o(x) − mean_b o(x with column i taken from background row b), for any score at all.

    One column is replaced at a time, so what several columns cause only together is not attributed; it stays
    in the residual. A negative value says that the column makes the row look more normal. The base value is
    the mean score of the background, which is what a row without any odd column would have.

    Parameters
    ----------
    model
        Any model or function that `tellwhy.scoring.as_score` reads.
    n_background
        Background rows drawn per explanation (fewer where there are fewer).
    random_state
        Seed of that draw.
    batch_size
        Rows that the model gets per call, at most; None: as many as memory allows.
    n_jobs
        Calls of the model at the same time, in threads; −1: one per core. Results do not depend on it.

    Examples
    --------
    >>> background = np.random.default_rng(0).normal(size=(100, 2))
    >>> explainer = Occlusion(lambda X: (X**2).sum(axis=1)).fit(background)
    >>> explainer.explain(np.array([[0.0, 5.0]])).values.round()
    array([[-1., 24.]])
    """

    calls_in_batches = True
    _parameters: ClassVar[dict[str, Rules]] = {
        "n_background": integer(1),
        "random_state": seed,
        **BATCH_PARAMETERS,
    }

    def __init__(
        self,
        model: object,
        *,
        n_background: int = 32,
        random_state: Seed = 0,
        batch_size: int | None = None,
        n_jobs: int = 1,
    ):
        super().__init__(model)
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.n_background = n_background
        self.random_state = random_state

    def _fit(self, X: ArrayLike) -> None:
        """Draw the background rows."""
        everyone = self.rows(X).X
        chosen = generator(self.random_state).permutation(len(everyone))[: self.n_background]
        # in their own order: the same rows give the same sums, whatever order they were drawn in
        self.background_ = everyone[np.sort(chosen)]

    def _attribute(self, rows: Rows) -> Attribution:
        self._check_fitted("background_")
        scores = rows.scores()
        values = np.empty((len(rows.X), rows.n_owners))
        bytes_per_row = 8 * rows.X.shape[1] * len(self.background_)
        for batch in tracked_batches(len(rows.X), bytes_per_row, "explaining by occlusion"):
            for column in range(rows.n_owners):
                occluded = self._replaced(rows, batch, rows.owner == column)
                values[batch, column] = scores[batch] - occluded
        base = mean_of_rows(rows, self.background_)
        return Attribution(values, scores, base, per_owner=True)

    def _replaced(self, rows: Rows, batch: slice, columns: NDArray[np.bool_]) -> Floats:
        """Return the mean score of each row with some columns taken from each background row."""
        X = rows.X[batch]
        own = tuple(each[batch] for each in rows.without)
        if not columns.any():  # the user's column has no part in the score: an encoder dropped it
            return np.asarray(rows.score.value(X, *own))
        many = np.repeat(X[:, None, :], len(self.background_), axis=1)
        many[:, :, columns] = self.background_[None, :, columns]
        repeated = tuple(np.repeat(each, len(self.background_)) for each in own)
        found = rows.score.value(many.reshape(-1, X.shape[1]), *repeated)
        return np.asarray(found.reshape(len(X), -1).mean(axis=1))
