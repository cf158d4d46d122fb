"""The regression over sets: covariances against sums over all products, values against plain algebra."""

from itertools import combinations

import numpy as np
import pytest

from tellwhy.explainers.shapley.set_regression import Fit, Products, Sampled, find_reaches, regress

P = 6
REACH = np.array([0.1, 0.5, 0.3, 0.05, 0.8, 0.2])
SIGNS = np.random.default_rng(0).choice([-1.0, 1.0], size=(9, P))


def products():
    """All sets of three, five, … players, with the variances of their coefficients."""
    sets = [T for size in range(3, P + 1, 2) for T in combinations(range(P), size)]
    variances = np.array([np.tanh(REACH[list(T)]).prod() for T in sets])
    return sets, variances / variances.sum()


def columns(signs):
    return np.array([signs[:, list(T)].prod(axis=1) for T in products()[0]]).T


def of_values():
    """Values of players from coefficients, (products, p)."""
    return np.array([[2.0 / len(T) * (i in T) for i in range(P)] for T in products()[0]])


def test_covariances_are_sums_over_all_products():
    prior, variances = Products(REACH), products()[1]
    others = SIGNS[::-1] * np.array([1.0, -1.0, 1.0, 1.0, 1.0, -1.0])
    expected = (columns(SIGNS) * variances) @ columns(others).T
    np.testing.assert_allclose(prior.between(SIGNS, others), expected, atol=1e-12)
    np.testing.assert_allclose(prior.between(SIGNS, SIGNS).diagonal(), 1.0)
    np.testing.assert_allclose(
        prior.with_values(SIGNS), (columns(SIGNS) * variances) @ of_values(), atol=1e-12
    )
    np.testing.assert_allclose(prior.of_values(), variances @ of_values() ** 2, atol=1e-12)


def test_values_and_errors_are_those_of_bayes_with_a_vague_prior_of_single_players():
    """The joint normal distribution of coefficients, written out, where the variance of singles goes far up."""
    rng = np.random.default_rng(1)
    sampled = Sampled.of(SIGNS > 0, rng.uniform(0.5, 2.0, size=9))
    seen = rng.normal(size=(10, 1))
    fit = Fit.of(sampled, Products(REACH), 0.1)
    values, errors = fit.values(seen)
    design = np.hstack([sampled.signs, columns(sampled.signs)])
    prior = np.concatenate([np.full(P, 1e5), products()[1]])
    noise = np.diag(0.1 * sampled.noise + 1e-8)
    gain = prior[:, None] * design.T @ np.linalg.inv(design * prior @ design.T + noise)
    of_all = np.vstack([2.0 * np.eye(P), of_values()])
    np.testing.assert_allclose(values[0], (gain @ seen[:, 0]) @ of_all, rtol=1e-3, atol=1e-3)
    left = np.diag(prior) - gain @ (design * prior)
    spread = np.sqrt(np.diag(of_all.T @ left @ of_all))
    np.testing.assert_allclose(errors[0] / errors[0, 0], spread / spread[0], rtol=1e-3)


def test_with_a_prior_of_single_players_too_they_are_those_of_bayes():
    rng = np.random.default_rng(5)
    sampled = Sampled.of(SIGNS[:5] > 0, rng.uniform(0.5, 2.0, size=5))  # fewer sets than players
    seen = rng.normal(size=(6, 1))
    fit = Fit.of(sampled, Products(REACH), 0.1, 3.0)
    design = np.hstack([sampled.signs, columns(sampled.signs)])
    prior = np.concatenate([np.full(P, 3.0), products()[1]])
    covariance = design * prior @ design.T + np.diag(0.1 * sampled.noise + 1e-8)
    gain = prior[:, None] * design.T @ np.linalg.inv(covariance)
    of_all = np.vstack([2.0 * np.eye(P), of_values()])
    values, errors = fit.values(seen)
    np.testing.assert_allclose(values[0], (gain @ seen[:, 0]) @ of_all, rtol=1e-6)
    spread = np.sqrt(np.diag(of_all.T @ (np.diag(prior) - gain @ (design * prior)) @ of_all))
    np.testing.assert_allclose(errors[0] / errors[0, 0], spread / spread[0], rtol=1e-6)
    likely = 6 * np.log(fit.solve(seen).scale[0]) + np.linalg.slogdet(covariance)[1]
    assert fit.unlikeliness(seen)[0] == pytest.approx(likely, rel=1e-8)


def test_the_likeliest_prior_is_that_of_the_marginal_likelihood():
    rng = np.random.default_rng(2)
    signs = rng.choice([-1.0, 1.0], size=(30, P))
    sampled = Sampled.of(signs > 0, np.ones(30))
    seen = rng.normal(size=(31, 2))
    for noise in (0.01, 1.0):
        fit = Fit.of(sampled, Products(REACH), noise)
        covariance = Products(REACH).between(sampled.signs, sampled.signs)
        covariance += np.diag(noise * sampled.noise + 1e-8)
        inverse = np.linalg.inv(covariance)
        normal = sampled.signs.T @ inverse @ sampled.signs
        sizes = np.linalg.slogdet(covariance)[1] + np.linalg.slogdet(normal)[1]
        scale = fit.solve(seen).scale
        np.testing.assert_allclose(fit.unlikeliness(seen), 25 * np.log(scale) + sizes, rtol=1e-8)


def test_players_that_take_part_in_much_have_a_wide_prior():
    rng = np.random.default_rng(3)
    signs = rng.choice([-1.0, 1.0], size=(200, 10))
    sampled = Sampled.of(signs > 0, np.ones(200))
    odd = np.append(2.0 * signs[:, 0] + signs[:, 3], 3.0)[:, None]
    even = (signs[:, 1] * signs[:, 4])[:, None]
    found = find_reaches(sampled, odd, even)[0]
    assert set(np.argsort(-found)[:4].tolist()) == {0, 1, 3, 4}
    assert found.mean() == pytest.approx(1.0)


def test_games_that_are_nothing_but_sums_have_no_error():
    rng = np.random.default_rng(4)
    signs = rng.choice([-1.0, 1.0], size=(60, 8))
    sampled = Sampled.of(signs > 0, np.ones(60))
    weights = rng.normal(size=8)
    values, errors = regress(sampled, (sampled.signs @ weights)[:, None], None)
    np.testing.assert_allclose(values[0], 2 * weights, atol=1e-10)
    np.testing.assert_allclose(errors, 0.0, atol=1e-8)
