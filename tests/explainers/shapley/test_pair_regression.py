"""The regression of pairs: covariances against sums over all products, interactions against Bayes' rule."""

from itertools import combinations

import numpy as np
import pytest

from tellwhy.explainers.shapley.pair_regression import PairFit, even_covariance, of_pairs, with_pairs
from tellwhy.explainers.shapley.set_regression import Products

P = 6
REACH = np.array([0.1, 0.5, 0.3, 0.05, 0.8, 0.2])
SIGNS = np.random.default_rng(0).choice([-1.0, 1.0], size=(12, P))
PAIRS = np.column_stack(np.triu_indices(P, 1))
SETS = [T for size in range(2, P + 1, 2) for T in combinations(range(P), size)]
VARIANCES = np.array([np.tanh(REACH[list(T)]).prod() for T in SETS])
VARIANCES = VARIANCES / VARIANCES.sum()


def columns(signs):
    return np.array([signs[:, list(T)].prod(axis=1) for T in SETS]).T


def of_coefficients():
    """Interactions of pairs from coefficients, (products, pairs)."""
    return np.array([[4.0 / (len(T) - 1) * (i in T and j in T) for i, j in PAIRS] for T in SETS])


def test_covariances_are_sums_over_all_products():
    prior = Products(REACH)
    expected = (columns(SIGNS) * VARIANCES) @ columns(SIGNS[::-1]).T
    np.testing.assert_allclose(even_covariance(prior, SIGNS, SIGNS[::-1]), expected, atol=1e-12)
    np.testing.assert_allclose(
        with_pairs(prior, SIGNS, PAIRS), (columns(SIGNS) * VARIANCES) @ of_coefficients(), atol=1e-12
    )
    np.testing.assert_allclose(of_pairs(prior, PAIRS), VARIANCES @ of_coefficients() ** 2, atol=1e-12)


def test_interactions_and_errors_are_those_of_bayes_with_a_vague_prior_of_the_constant():
    rng = np.random.default_rng(1)
    even, noise = rng.normal(size=12), rng.uniform(0.5, 2.0, size=12)
    fit = PairFit.of(SIGNS, noise, Products(REACH), 0.1)
    found, errors = fit.interactions(even, PAIRS)
    design = np.hstack([np.ones((12, 1)), columns(SIGNS)])
    prior = np.append(1e6, VARIANCES)
    covariance = design * prior @ design.T + np.diag(0.1 * noise + 1e-8)
    gain = prior[:, None] * design.T @ np.linalg.inv(covariance)
    of_all = np.vstack([np.zeros((1, len(PAIRS))), of_coefficients()])
    np.testing.assert_allclose(found, (gain @ even) @ of_all, rtol=1e-4, atol=1e-4)
    left = np.diag(prior) - gain @ (design * prior)
    spread = np.sqrt(np.diag(of_all.T @ left @ of_all))
    np.testing.assert_allclose(errors / errors[0], spread / spread[0], rtol=1e-3)
    assert fit.unlikeliness(even) == pytest.approx(
        11 * np.log(fit.solve(even)[1]) + np.linalg.slogdet(covariance)[1] - np.log(1e6), abs=1e-3
    )
