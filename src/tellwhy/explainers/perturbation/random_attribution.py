"""Random numbers in the place of an explanation: the baseline that every method must beat."""

from __future__ import annotations

from typing import ClassVar

from tellwhy.core.params import Rules, Seed, generator, seed
from tellwhy.core.registry import register
from tellwhy.explainers.base import Attribution, Rows, ScoreExplainer
from tellwhy.explainers.in_batches import BATCH_PARAMETERS


@register(
    "explainer",
    family="perturbation",
    needs="any score",
    cost="one score per row",
    exactness="a baseline: random order of features",
    citation="—",
    applies=lambda _: True,
)
class RandomAttribution(ScoreExplainer):
    """R_i drawn uniformly from [0, 1), independently of the row and the model.

    Parameters
    ----------
    model
        The model whose scores are shown.
    random_state
        Seed; the same seed gives the same numbers.
    batch_size
        Rows that the model gets per call, at most; None: as many as memory allows.
    n_jobs
        Calls of the model at the same time, in threads; −1: one per core. Results do not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> RandomAttribution(lambda X: X.sum(axis=1)).explain(np.ones((4, 3))).values.shape
    (4, 3)
    """

    kind = "ranking"
    reads_rows = False
    calls_in_batches = True
    _parameters: ClassVar[dict[str, Rules]] = {"random_state": seed, **BATCH_PARAMETERS}

    def __init__(
        self, model: object, *, random_state: Seed = 0, batch_size: int | None = None, n_jobs: int = 1
    ):
        super().__init__(model)
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _attribute(self, rows: Rows) -> Attribution:
        # one generator per call: the same rows get other numbers in another batch, and no seed is used up
        values = generator(self.random_state).random((len(rows.X), rows.n_owners))
        return Attribution(values, rows.scores())
