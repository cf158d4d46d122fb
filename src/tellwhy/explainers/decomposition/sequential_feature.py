"""Features in the order in which they would convince a reader that a row is odd."""

from __future__ import annotations

from typing import ClassVar

from tellwhy.core.params import Rules, integer, none
from tellwhy.core.registry import register
from tellwhy.explainers.base import Attribution, Rows, ScoreExplainer
from tellwhy.explainers.decomposition.marginal_models import has_marginals, marginal_model


@register(
    "explainer",
    family="decomposition",
    needs="a Gaussian mixture, a model with a Gaussian kernel, or a reconstruction error",
    cost="O(n K d n_picked²) for K components, O(n m d n_picked) for m support points",
    exactness="greedy: each step is optimal, the set may not be; a ranking",
    citation="Siddiqui, Fern, Dietterich, Wong, ACM TKDD 13 (2019), sequential marginal",
    applies=has_marginals,
)
class SequentialFeature(ScoreExplainer):
    """R = 1 − t/d for the feature that is picked at step t = 0, 1, …, d − 1.

    This is the sequential feature explanation, SFE: the features in the order in which a reader should look
    at them to be convinced by as few as possible. Step t picks the feature with the largest energy
    −log p(x_i | x_S) given the features S picked before, that is, the one with which the picked features are
    most odd together. `extras["conditional_energy"]` holds these energies in the columns of the features;
    when all are picked, they add up to the score. Scores that can be explained are those of `Marginal`; for
    reconstruction errors, whose terms do not depend on each other, both give the same order.

    Where a pipeline makes several columns from one of the user's, it is picked with the first of them.

    Parameters
    ----------
    model
        A model with marginals (see `Marginal`).
    n_picked
        How many features to pick one by one; the others follow in the order of their energies given those.
        None: all. The cost grows with its square.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.mixture import GaussianMixture
    >>> covariance = [[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]]
    >>> X = np.random.default_rng(0).multivariate_normal([0, 0, 0], covariance, size=500)
    >>> explanation = SequentialFeature(GaussianMixture(1).fit(X)).explain(np.array([[4.0, 3.5, 2.0]]))
    >>> explanation.values.round(2)
    array([[1.  , 0.33, 0.67]])
    """

    kind = "ranking"
    leaves_rows_out = True
    _parameters: ClassVar[dict[str, Rules]] = {"n_picked": (none, integer(1))}

    def __init__(self, model: object, *, n_picked: int | None = None):
        super().__init__(model)
        self.n_picked = n_picked

    def _attribute(self, rows: Rows) -> Attribution:
        model = marginal_model(rows, "SequentialFeature")
        found = model.sequence(rows.X.shape[1] if self.n_picked is None else self.n_picked)
        values = 1.0 - found.position / rows.n_owners
        extras = {"conditional_energy": found.energies}
        return Attribution(values, rows.scores(), extras=extras, per_owner=True)
