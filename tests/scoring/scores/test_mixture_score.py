"""Energies of Gaussian mixtures: values, gradients and marginals against slow formulas; rows far away."""

import numpy as np
import pytest
from oracles.deep_oracles import mixture_energy
from oracles.score_oracles import central_differences
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.mixture._base import BaseMixture

from tellwhy.core.errors import InvalidInput
from tellwhy.scoring import FunctionScore, Mixture, MixtureScore, ScaledMixture, as_score

RNG = np.random.default_rng(0)
ROOTS = RNG.normal(size=(3, 4, 4))
MIXTURE = Mixture(
    np.array([0.5, 0.3, 0.2]), 3 * RNG.normal(size=(3, 4)), ROOTS @ ROOTS.transpose(0, 2, 1) + np.eye(4)
)
X = np.vstack([RNG.normal(size=(20, 4)), 30 * RNG.normal(size=(5, 4))])


def energies(mixture, rows):
    return np.array([mixture_energy(x, mixture.weights, mixture.means, mixture.covariances) for x in rows])


def test_values_and_gradients():
    score = MixtureScore.of(MIXTURE)
    np.testing.assert_allclose(score.value(X), energies(MIXTURE, X), rtol=1e-10)
    value, gradient = score.value_and_gradient(X)
    np.testing.assert_array_equal(value, score.value(X))
    np.testing.assert_array_equal(gradient, score.gradient(X))
    np.testing.assert_allclose(gradient, central_differences(score.value, X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("columns", [[2], [0, 3], [3, 1, 0]])
def test_marginals_are_those_of_the_covariance_blocks(columns):
    block = np.ix_(range(3), columns, columns)
    expected = [
        mixture_energy(x[columns], MIXTURE.weights, MIXTURE.means[:, columns], MIXTURE.covariances[block])
        for x in X
    ]
    found = MixtureScore.of(MIXTURE.marginal(columns)).value(X[:, columns])
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_marginals_of_precision_blocks_would_be_others():
    precision = np.linalg.inv(MIXTURE.covariances)[:, :1, :1]
    wrong = Mixture(MIXTURE.weights, MIXTURE.means[:, :1], 1 / precision)
    right = MixtureScore.of(MIXTURE.marginal([0])).value(X[:, :1])
    assert np.abs(MixtureScore.of(wrong).value(X[:, :1]) - right).max() > 0.1


@pytest.mark.parametrize("diagonal", [False, True])
def test_scaled_coordinates_change_nothing(diagonal):
    centre, scale = RNG.normal(size=4), np.array([1.0, 10.0, 0.1, 3.0])
    covariances = MIXTURE.covariances * np.eye(4) if diagonal else MIXTURE.covariances
    plain = Mixture(MIXTURE.weights, MIXTURE.means, covariances)
    inverse = np.linalg.cholesky(np.linalg.inv(covariances / scale / scale[:, None])[:, ::-1, ::-1])[
        :, ::-1, ::-1
    ]
    factors = np.diagonal(inverse, axis1=1, axis2=2) if diagonal else inverse
    parts = ScaledMixture(np.log(plain.weights), (plain.means - centre) / scale, factors, centre, scale)
    score = MixtureScore(parts)
    np.testing.assert_allclose(score.value(X), energies(plain, X), rtol=1e-10)
    np.testing.assert_allclose(score.gradient(X), MixtureScore.of(plain).gradient(X), rtol=1e-9, atol=1e-12)
    for name in ("weights", "means", "covariances"):
        np.testing.assert_allclose(getattr(score.mixture, name), getattr(plain, name), rtol=1e-9, atol=1e-12)


def test_components_far_apart_keep_their_digits():
    """Differences are taken before anything is multiplied: offsets of 1e8 widths do not cost the answer."""
    far = Mixture(np.array([0.5, 0.5]), np.array([[0.0, 0.0], [1e8, -1e8]]), np.array([np.eye(2), np.eye(2)]))
    new = np.array([[1e8 + 1.5, -1e8 + 0.25], [0.5, -2.0]])
    np.testing.assert_allclose(MixtureScore.of(far).value(new), energies(far, new), rtol=1e-12)


def test_rows_beyond_floating_point_are_refused_by_name():
    far = X.copy()
    far[7, 2] = 1e200
    for method in ("value", "gradient", "value_and_gradient"):
        with pytest.raises(InvalidInput, match="Row 7 of X is too far"):
            getattr(MixtureScore.of(MIXTURE), method)(far)


def test_many_rows_are_scored_in_batches():
    score, rows = MixtureScore.of(MIXTURE), np.tile(X, (8000, 1))
    value, gradient = score.value_and_gradient(rows)
    np.testing.assert_allclose(value.reshape(8000, -1), np.tile(score.value(X), (8000, 1)), rtol=1e-12)
    np.testing.assert_allclose(gradient[-len(X) :], score.gradient(X), rtol=1e-10, atol=1e-12)


def test_covariances_that_are_none_are_refused():
    with pytest.raises(InvalidInput, match="not positive definite"):
        MixtureScore.of(Mixture(np.ones(1), np.zeros((1, 2)), np.array([[[1.0, 2.0], [2.0, 1.0]]])))


def test_covariances_that_overflow_are_refused():
    score = MixtureScore(
        ScaledMixture(np.zeros(1), np.zeros((1, 1)), np.ones((1, 1)), np.zeros(1), np.full(1, 1e200))
    )
    assert score.value([[1e200]]) > score.value([[0.0]])
    with pytest.raises(InvalidInput, match="overflow"):
        _ = score.mixture


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_mixture_of_scikit_learns_model(kind):
    near = X[:20]  # far away scikit-learn's own squares lose digits
    model = GaussianMixture(2, covariance_type=kind, random_state=0).fit(near)
    np.testing.assert_allclose(energies(as_score(model).mixture, near), -model.score_samples(near), rtol=1e-8)


def test_bayesian_mixture_with_a_plain_prior_of_weights():
    prior = "dirichlet_distribution"
    model = BayesianGaussianMixture(
        n_components=3, weight_concentration_prior_type=prior, random_state=0, max_iter=900
    ).fit(X)
    np.testing.assert_allclose(as_score(model).value(X), -model.score_samples(X), rtol=1e-10)


class Uniform(BaseMixture):
    """A mixture of someone else's."""

    def __init__(self):
        pass

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def score_samples(self, X):
        return np.zeros(len(X))

    def _check_parameters(self, X): ...
    def _initialize(self, X, resp): ...
    def _m_step(self, X, log_resp): ...
    def _get_parameters(self): ...
    def _set_parameters(self, params): ...
    def _compute_lower_bound(self, *args): ...
    def _estimate_log_prob(self, X): ...
    def _estimate_log_weights(self): ...


def test_other_mixtures_are_scored_by_their_own_function():
    score = as_score(Uniform().fit(X))
    assert type(score) is FunctionScore
    np.testing.assert_array_equal(score.value(X), 0.0)
