"""Moves that split and merge components: densities against scipy, and Geweke's test with a move after every sweep."""

import numpy as np
import pytest
from oracles.mixture_calibration import OWN, expected_statistics, geweke, geweke_data
from oracles.mixture_oracles import prior_draw, simulate, steps_with
from scipy import special, stats

from tellwhy.explainers.surrogate import _compiled_sweep as _compiled, _compiled_sweep as partition
from tellwhy.explainers.surrogate.chains import design

SHAPE = (6, 5, 0)  # rows, columns, gates


@pytest.fixture(scope="module")
def independent():
    return expected_statistics(3000, SHAPE)


def always(independent, n_draws=2000, shape=SHAPE):
    """Largest |z| of chains in which components and variances change by moves alone, three a sweep.

    The moves run through Python, where parts of them can be replaced.
    """
    move = partition.split_or_merge.py_func
    steps = [
        step for step in steps_with() if step not in (_compiled.draw_assignments, _compiled.draw_partition)
    ]
    return geweke(independent, [*steps, move, move, move], n_draws, shape=shape).max()


@pytest.mark.parametrize("n", [1, 4, 9])
def test_density_of_rows_without_their_coefficients(n):
    rng = np.random.default_rng(n)
    data = design(rng.normal(size=(n + 3, 4)), rng.normal(size=n + 3))
    rows, precision, sigma2 = np.arange(n), rng.uniform(0.5, 3.0, size=5), 0.7
    mean, density = partition.solve_regression(rows, data, precision, sigma2)
    X = data.X[rows]
    covariance = sigma2 * (np.eye(n) + X / precision @ X.T)
    assert density == pytest.approx(stats.multivariate_normal(cov=covariance).logpdf(data.y[rows]), abs=1e-9)
    expected = np.linalg.solve(X.T @ X + np.diag(precision), X.T @ data.y[rows])
    np.testing.assert_allclose(mean, expected, atol=1e-9)


def test_probability_of_components_without_their_sticks():
    """E[Π u_j^n_j (1 − u_j)^(rows beyond)] is a product of beta functions."""
    counts, alpha = np.array([5, 0, 3, 2]), 1.7
    beyond = counts[::-1].cumsum()[::-1][1:]
    expected = (special.betaln(1 + counts[:-1], alpha + beyond) - special.betaln(1, alpha)).sum()
    none = partition.log_stick_prior(np.zeros(4, dtype=np.int64), alpha)
    assert partition.log_stick_prior(counts, alpha) - none == pytest.approx(expected)


def test_density_of_the_scales():
    """p(t) ∝ t^(−3/2) (1 + t)^(−1/2) exp(−x²/2t) integrates to 1 for any σ², with the part that is left out."""
    state = prior_draw(geweke_data(*SHAPE), 3, 2, OWN.numbers(), np.random.default_rng(0))
    grid = np.linspace(-30, 30, 60_001)  # log t
    for sigma2 in (0.05, 0.6, 9.0):
        x = state.lambda1[state.c[1]] / (2 * np.sqrt(sigma2 * state.lambda2[state.c[1]]))
        v = np.exp(grid) / x**2
        left_out = -1.5 * np.log(v) - 0.5 / v - 0.5 * np.log(2 * np.pi)
        t = v * x**2
        log_density = [
            partition.log_scales_prior(1, t[k : k + 1], sigma2, state) for k in range(0, len(t), 100)
        ]
        area = np.trapezoid(np.exp(log_density + left_out[::100] + np.log(v[::100])), grid[::100])
        assert area == pytest.approx(1.0, abs=1e-3)


def test_geweke_of_moves_alone(independent):
    assert always(independent) < 4


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(8, 3, 1), (8, 3, 0), (20, 1, 0), (4, 6, 0)])
def test_geweke_with_a_move_after_every_sweep_long(shape):
    assert (
        geweke(
            expected_statistics(20_000, shape),
            steps_with(draw_partition=partition.split_or_merge),
            40_000,
            shape=shape,
        ).max()
        < 4
    )


def without(term):
    """The ratio of a merge without one of its terms."""
    whole = partition.log_merge_ratio

    def ratio(pair, in_b, odds, state, data, priors):
        return whole(pair, in_b, odds, state, data, priors) - term(pair, in_b, odds, state, priors)

    return ratio


def sticks(pair, in_b, odds, state, priors):
    counts = [partition.count_rows_of(pair, n, state) for n in (0, in_b.sum())]
    return np.subtract(*(partition.log_stick_prior(c, state.alpha[0]) for c in counts))


def division(pair, in_b, odds, state, priors):
    return np.where(in_b, special.log_expit(odds), special.log_expit(-odds)).sum()


@pytest.mark.parametrize("term", [sticks, division])
def test_geweke_sees_terms_that_are_left_out(independent, monkeypatch, term):
    monkeypatch.setattr(partition, "log_merge_ratio", without(term))
    assert always(independent) > 6


def test_densities_of_a_variance():
    """The two that the ratio compares: of the prior, and of the proposal around another variance."""
    priors = OWN.numbers()
    for sigma2 in (0.1, 0.9, 5.0):
        prior = stats.invgamma.logpdf(sigma2, priors.variance_shape, scale=priors.variance_scale)
        assert partition.log_variance_prior(sigma2, priors) == pytest.approx(prior)
        proposal = stats.lognorm.logpdf(sigma2, partition.WIDTH, scale=0.4)
        assert partition.log_variance_proposal(sigma2, 0.4) == pytest.approx(proposal)


def log_t(t, sigma2, lambda1, lambda2):
    """Log density of scales: x t^(−3/2) (1 + t)^(−1/2) exp(−x²/2t)/(√(2π) erfcx(x/√2))."""
    x = lambda1 / (2 * np.sqrt(sigma2 * lambda2))
    constant = np.log(x) - 0.5 * np.log(2 * np.pi) - np.log(special.erfcx(x / np.sqrt(2)))
    return (constant - 1.5 * np.log(t) - 0.5 * np.log1p(t) - x**2 / (2 * t)).sum()


def log_rows(rows, precision, sigma2, data):
    X = data.X[rows]
    covariance = sigma2 * (np.eye(len(rows)) + X / precision @ X.T)
    return stats.multivariate_normal(cov=covariance).logpdf(data.y[rows])


def log_components(counts, alpha):
    return special.betaln(1 + counts[:-1], alpha + counts[::-1].cumsum()[::-1][1:]).sum()


def test_ratio_is_that_of_the_joint_density_and_the_proposals():
    """Written out with scipy; t_b changes to t_b σ_b²/σ′², which has a Jacobian."""
    data, priors, rng = geweke_data(9, 3, 0), OWN.numbers(), np.random.default_rng(4)
    state = prior_draw(data, 3, 2, priors, rng)
    state.z[:] = [0, 1, 2, 0, 1, 2, 0, 1, 1]
    state.counts[:] = 3, 4, 2
    state.t[:] = rng.uniform(0.2, 3.0, size=state.t.shape)
    simulate(state, data, rng)
    pair, odds = partition.choose_pair(0, 1, state, priors, rng), rng.normal(size=7)
    in_b = state.z[pair.rows] == 1
    found = partition.log_merge_ratio(pair, in_b, odds, state, data, priors)
    net = state.lambda1[state.c[1]], state.lambda2[state.c[1]]
    prior = stats.invgamma(priors.variance_shape, scale=priors.variance_scale)
    rows, of_a, of_b = pair.rows, (pair.precision_a, pair.sigma2_a), (pair.precision_b, pair.sigma2_b)
    expected = log_components(np.array([7, 0, 2]), state.alpha[0]) - log_components(
        state.counts, state.alpha[0]
    )
    expected += (
        log_rows(rows, *of_a, data) - log_rows(rows[~in_b], *of_a, data) - log_rows(rows[in_b], *of_b, data)
    )
    expected += prior.logpdf(pair.empty) + log_t(pair.t_empty, pair.empty, *net)
    expected -= prior.logpdf(pair.sigma2_b) + log_t(state.t[1], pair.sigma2_b, *net)
    expected += 3 * np.log(pair.sigma2_b / pair.empty)
    expected += stats.lognorm.logpdf(pair.sigma2_b, partition.WIDTH, scale=pair.sigma2_a)
    expected -= prior.logpdf(pair.empty)
    expected += special.log_expit(np.where(in_b, odds, -odds)).sum()
    assert found == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(pair.t_empty, state.t[1] * pair.sigma2_b / pair.empty)


def test_splits_and_merges_are_accepted_and_counted():
    data, priors, rng = geweke_data(*SHAPE), OWN.numbers(), np.random.default_rng(0)
    state = prior_draw(data, 3, 2, priors, rng)
    simulate(state, data, rng)
    for _ in range(300):
        before = state.z.copy(), state.moves.copy()
        partition.split_or_merge(state, data, priors, rng)
        split, merged = (state.moves - before[1])[[1, 3]]
        n_before, n_after = (len(set(z)) for z in (before[0], state.z))
        assert n_after - n_before == split - merged
        assert (state.counts == np.bincount(state.z, minlength=3)).all()
    assert (state.moves[[1, 3]] > 5).all()
    assert (state.moves[[1, 3]] < state.moves[[0, 2]]).all()
