"""Compensation: how far each column moves to the local minimum, in standard deviations."""

import numpy as np
from oracles.shapley_oracles import gaussian_minimum
from sklearn.mixture import GaussianMixture

from tellwhy.explainers import Compensation

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3)) @ RNG.normal(size=(3, 3)) * [1.0, 100.0, 0.01]
ODD = X[:4] + X.std(axis=0) * [0.0, 4.0, 0.0]
MODEL = GaussianMixture(1, reg_covar=1e-9, random_state=0).fit(X)


def test_against_the_closed_form():
    found = Compensation(MODEL, gamma=0.5).fit(X).explain(ODD)
    scores = -MODEL.score_samples(X)
    gamma = 0.5 * np.subtract(*np.quantile(scores, [0.75, 0.25])) / 1.349  # γ counts in units of the score
    assert found.kind == "ranking"
    assert found.residual is None
    for x, values, displacement in zip(ODD, found.values, found.extras["displacement"], strict=True):
        scales, every = X.std(axis=0), np.ones(3, dtype=bool)
        exact = gaussian_minimum(
            x, MODEL.means_[0], MODEL.precisions_[0], free=every, gamma=gamma, scales=scales
        )
        np.testing.assert_allclose(displacement, exact - x, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(values, np.abs(exact - x) / scales, atol=1e-7)
