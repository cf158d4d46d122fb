"""The energy of each feature on its own."""

from __future__ import annotations

from tellwhy.core.registry import register
from tellwhy.explainers.base import Attribution, Rows, ScoreExplainer
from tellwhy.explainers.decomposition.marginal_models import has_marginals, marginal_model


@register(
    "explainer",
    family="decomposition",
    needs="a Gaussian mixture, a model with a Gaussian kernel, or a reconstruction error",
    cost="O(n d K) for K components, O(n d m) for m support points",
    exactness="closed form; reconstruction errors add up to the score, marginal energies are a ranking",
    citation="Takeishi, Kawahara, TMLR (2022), section 5.1.3 (MARG)",
    applies=has_marginals,
)
class Marginal(ScoreExplainer):
    """R_i = how odd feature i is by itself, whatever the others are.

    - Gaussian mixtures: R_i = −log Σ_k π_k N(x_i; μ_ki, Σ_k,ii), with the variance that the feature has by
      itself, not the one that is left once all other features are known.
    - Gaussian kernels: R_i = −log Σ_j α_j exp(−(x_i − u_ji)²/2σ²). Training rows are left out, as in
      `OneClassDTD`.
    - Reconstructions: R_i = (x_i − x̂_i)², which add up to the score.

    A feature that is odd only together with others is not found. Where a pipeline makes several columns from
    one of the user's (one-hot encoding), R is the energy of all of them together.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.mixture import GaussianMixture
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> Marginal(GaussianMixture(1).fit(X)).explain(np.array([[0.0, 5.0, 1.0]])).values.round()
    array([[ 1., 14.,  1.]])
    """

    kind = "ranking"
    leaves_rows_out = True

    def _attribute(self, rows: Rows) -> Attribution:
        model = marginal_model(rows, "Marginal")
        # energies of single features leave out what features share: only errors add up to the score
        kind = "attribution" if model.adds_up else "ranking"
        return Attribution(model.energies(), rows.scores(), per_owner=True, kind=kind)
