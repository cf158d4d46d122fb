"""Each full conditional against the joint density written out term by term."""

import numpy as np
import pytest
from oracles.mixture_oracles import elastic_net_log_density, log_joint, prior_draw, simulate, small_data
from scipy import integrate, special, stats

from tellwhy.explainers.surrogate import _compiled_draws, _compiled_sweep as _compiled
from tellwhy.explainers.surrogate.chains import Priors

PRIORS = Priors(
    alpha_shape=2.0,
    lambda1_shape=3.0,
    lambda2_shape=2.0,
    lambda_rate=1.0,
    variance_shape=4.0,
    variance_scale=3.0,
    intercept_variance=1.5,
).numbers()
N_DRAWS = 3000


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture
def drawn(rng):
    """A state and data in which every component has rows and both nets are used."""
    data = small_data(12, 3, 1, rng)
    while True:
        state = prior_draw(data, 3, 2, PRIORS, rng)
        simulate(state, data, rng)
        if state.counts.min() >= 2 and len(set(state.c)) == 2:
            return state, data


def repeated(step, state, data, rng, read, n_draws=N_DRAWS):
    found = []
    for _ in range(n_draws):
        step(state, data, PRIORS, rng)
        found.append(np.copy(read(state)))
    return np.array(found)


def by_grid(state, data, array, index, grid, draws):
    """Largest distance between the draws' distribution function and that of the joint density along one coordinate."""
    before = array[index]
    levels = []
    for x in grid:
        array[index] = np.exp(x)
        levels.append(log_joint(state, data, PRIORS) + x)  # density of the logarithm
    array[index] = before
    density = np.exp(np.array(levels) - np.max(levels))
    cdf = integrate.cumulative_trapezoid(density, grid, initial=0.0)
    theirs = np.searchsorted(np.sort(np.log(draws)), grid) / len(draws)
    return np.abs(cdf / cdf[-1] - theirs).max()


GRID = np.linspace(-9, 6, 400)
NEAR = 1.9 / np.sqrt(N_DRAWS / 4)  # draws of a slice sampler are not independent


def test_log_erfcx_has_full_precision():
    for x in [0.0, 1e-8, 0.3, 2.0, 4.999, 5.0, 7.0, 30.0, 1e5]:
        assert _compiled_draws.log_erfcx(x) == pytest.approx(np.log(special.erfcx(x)), rel=1e-13, abs=1e-14)


def test_elastic_net_integrates_to_one():
    for lambda1, lambda2, sigma2 in [(1.0, 2.0, 0.5), (6.0, 0.3, 0.2), (1e-3, 1.0, 4.0), (40.0, 0.01, 1.0)]:

        def density(b, lambda1=lambda1, lambda2=lambda2, sigma2=sigma2):
            return np.exp(_compiled_draws.log_elastic_net(abs(b), b * b, 1, sigma2, lambda1, lambda2))

        assert 2 * integrate.quad(density, 0, np.inf)[0] == pytest.approx(1.0, rel=1e-6)
        mine = _compiled_draws.log_elastic_net(0.7, 0.49, 1, sigma2, lambda1, lambda2)
        assert mine == pytest.approx(elastic_net_log_density(0.7, lambda1, lambda2, sigma2), rel=1e-9)


@pytest.mark.parametrize(("mean", "shape"), [(1.0, 1.0), (0.02, 3.0), (50.0, 0.5), (1e6, 2.0)])
def test_inverse_gaussian(mean, shape, rng):
    draws = [_compiled_draws.draw_inverse_gaussian(mean, shape, rng) for _ in range(4000)]
    assert stats.kstest(draws, stats.invgauss(mean / shape, scale=shape).cdf).pvalue > 1e-3


@pytest.mark.parametrize("mean", [1e100, 1e250])
def test_inverse_gaussian_of_vanishing_coefficients_stays_finite(mean, rng):
    draws = np.array([_compiled_draws.draw_inverse_gaussian(mean, 2.0, rng) for _ in range(2000)])
    assert np.isfinite(draws).all()
    assert stats.kstest(2.0 / draws, stats.chi2(1).cdf).pvalue > 1e-3  # the limit is 1/Gamma


@pytest.mark.parametrize("low", [0.0, 0.3, 2.0, 30.0])
def test_normal_above(low, rng):
    draws = np.array([_compiled_draws.draw_normal_above(low, rng) for _ in range(4000)])
    uniform = np.exp(stats.norm.logsf(draws) - stats.norm.logsf(low))
    assert stats.kstest(uniform, "uniform").pvalue > 1e-3


def test_log_gamma_of_tiny_shapes(rng):
    draws = np.array([_compiled_draws.log_gamma_draw(1e-3, rng) for _ in range(4000)])
    assert np.isfinite(draws).all()
    assert draws.mean() == pytest.approx(special.digamma(1e-3), rel=0.08)


def test_assignments(drawn, rng):
    state, data = drawn
    weights = np.exp(state.log_pi) * stats.norm.pdf(
        data.y[:, None], data.X @ state.coef.T, np.sqrt(state.sigma2)
    )
    weights *= stats.norm.pdf(data.gates, state.gate_mean.T, np.sqrt(state.gate_var.T))
    expected = weights / weights.sum(axis=1, keepdims=True)
    z = repeated(_compiled.draw_assignments, state, data, rng, lambda s: s.z)
    seen = np.array([(z == j).mean(axis=0) for j in range(3)]).T
    assert np.abs(seen - expected).max() < 4.5 * 0.5 / np.sqrt(N_DRAWS)
    assert state.counts.tolist() == np.bincount(state.z, minlength=3).tolist()


def test_sticks(drawn, rng):
    state, data = drawn
    logs = repeated(_compiled.draw_sticks, state, data, rng, lambda s: s.log_rest)
    beyond = state.counts[::-1].cumsum()[::-1] - state.counts
    for j in range(2):
        expected = stats.beta(1 + state.counts[j], state.alpha[0] + beyond[j])
        assert stats.kstest(-np.expm1(logs[:, j]), expected.cdf).pvalue > 1e-3
    assert np.exp(state.log_pi).sum() == pytest.approx(1.0)


def test_alpha(drawn, rng):
    state, data = drawn
    alpha = repeated(_compiled.draw_alpha, state, data, rng, lambda s: s.alpha[0])
    assert by_grid(state, data, state.alpha, 0, GRID, alpha) < NEAR


def test_nets_and_their_weights(drawn, rng):
    state, data = drawn
    logits = np.empty((3, 2))
    for j in range(3):
        for k in range(2):
            density = elastic_net_log_density(
                state.coef[j, 1:], state.lambda1[k], state.lambda2[k], state.sigma2[j]
            )
            logits[j, k] = state.log_w[k] + density.sum()
    c = repeated(_compiled.draw_nets, state, data, rng, lambda s: s.c)
    expected = special.softmax(logits, axis=1)[:, 1]
    assert np.abs(c.mean(axis=0) - expected).max() < 4.5 * 0.5 / np.sqrt(N_DRAWS)
    state.c[:] = [0, 1, 1]
    w = repeated(_compiled.draw_net_weights, state, data, rng, lambda s: np.exp(s.log_w[0]))
    assert stats.kstest(w, stats.beta(1.5, 2.5).cdf).pvalue > 1e-3


@pytest.mark.parametrize("k", [0, 1])
def test_penalties(drawn, rng, k):
    state, data = drawn
    draws = repeated(_compiled.draw_penalties, state, data, rng, lambda s: [s.lambda1[k], s.lambda2[k]])
    x = np.linspace(-9, 4, 130)
    lambda1, lambda2 = np.exp(x)[:, None], np.exp(x)[None, :]
    level = (
        stats.gamma.logpdf(lambda1, 3.0)
        + np.log(lambda1)
        + stats.gamma.logpdf(lambda2, 2.0)
        + np.log(lambda2)
    )
    for j in np.flatnonzero(state.c == k):
        for beta in state.coef[j, 1:]:
            level = level + elastic_net_log_density(beta, lambda1, lambda2, state.sigma2[j])
    density = np.exp(level - level.max())
    for axis, column in ((1, draws[:, 0]), (0, draws[:, 1])):
        cdf = np.cumsum(density.sum(axis=axis))
        theirs = np.searchsorted(np.sort(np.log(column)), x + (x[1] - x[0]) / 2) / len(column)
        assert np.abs(cdf / cdf[-1] - theirs).max() < NEAR


def test_slices_from_odd_starts_stay_within_reach(rng):
    """Where the start is unlikely the slice is wide: 2.5·x falls slowly towards −∞."""
    target = _compiled_draws.LogScale(2.5, 1.0, 1.0, 3, 1.0, np.ones(1))
    found = []
    for _ in range(200):
        found.append(_compiled_draws.slice_step(8.0, target, rng))
    assert np.abs(found).max() <= 60.0
    assert np.min(found) < -20.0, "the start was odd enough"


def test_unused_penalties_come_from_the_prior(drawn, rng):
    state, data = drawn
    state.c[:] = 0
    draws = repeated(_compiled.draw_penalties, state, data, rng, lambda s: [s.lambda1[1], s.lambda2[1]])
    assert stats.kstest(draws[:, 0], stats.gamma(3).cdf).pvalue > 1e-3
    assert stats.kstest(draws[:, 1], stats.gamma(2).cdf).pvalue > 1e-3


@pytest.mark.parametrize("j", [0, 1, 2])
def test_variances(drawn, rng, j):
    state, data = drawn
    draws = repeated(_compiled.draw_variances, state, data, rng, lambda s: s.sigma2[j])
    assert by_grid(state, data, state.sigma2, j, GRID, draws) < NEAR


def test_variance_of_an_empty_component(drawn, rng):
    state, data = drawn
    state.z[state.z == 1] = 0
    state.counts[:] = np.bincount(state.z, minlength=3)
    draws = repeated(_compiled.draw_variances, state, data, rng, lambda s: s.sigma2[1])
    assert by_grid(state, data, state.sigma2, 1, GRID, draws) < NEAR


def test_scales(drawn, rng):
    state, data = drawn
    t = repeated(_compiled.draw_scales, state, data, rng, lambda s: s.t)
    for j, c in enumerate(state.c):
        shape = state.lambda1[c] ** 2 / (4 * state.lambda2[c] * state.sigma2[j])
        for k in range(3):
            mean = state.lambda1[c] / (2 * state.lambda2[c] * abs(state.coef[j, k + 1]))
            assert stats.kstest(t[:, j, k], stats.invgauss(mean / shape, scale=shape).cdf).pvalue > 1e-4


def test_scales_integrated_out_give_the_elastic_net(rng):
    """∫ N(β; 0, σ²/(λ2(1+t))) p(t) dt is the elastic net, where p(τ) is the inverse-gamma cut to (0, 1)."""
    lambda1, lambda2, sigma2 = 1.7, 0.8, 0.6
    x2 = lambda1**2 / (4 * lambda2 * sigma2)
    cut = stats.invgamma(0.5, scale=x2 / 2)

    def density(beta):
        def inner(tau):
            return stats.norm.pdf(beta, 0, np.sqrt(sigma2 / lambda2 * (1 - tau))) * cut.pdf(tau) / cut.cdf(1)

        return integrate.quad(inner, 0, 1)[0]

    for beta in (0.2, -1.3):
        expected = np.exp(elastic_net_log_density(beta, lambda1, lambda2, sigma2))
        assert density(beta) == pytest.approx(expected, rel=1e-6)


def moments_of_coefficients(state, data, j):
    rows = state.z == j
    diagonal = np.append(1 / PRIORS.intercept_variance, state.lambda2[state.c[j]] * (1 + state.t[j]))
    M = np.linalg.inv(data.X[rows].T @ data.X[rows] + np.diag(diagonal))
    return M @ data.X[rows].T @ data.y[rows], state.sigma2[j] * M


@pytest.mark.parametrize("with_grams", [True, False])
def test_coefficients(drawn, rng, with_grams):
    state, data = drawn
    if not with_grams:
        state = state._replace(gram=np.zeros((0, 4, 4)), moment=np.zeros((0, 4)))
    _compiled.draw_scales(state, data, PRIORS, rng)
    coef = repeated(_compiled.draw_coefficients, state, data, rng, lambda s: s.coef)
    for j in range(3):
        mean, covariance = moments_of_coefficients(state, data, j)
        assert np.abs((coef[:, j].mean(axis=0) - mean) / np.sqrt(np.diag(covariance) / N_DRAWS)).max() < 4.5
        np.testing.assert_allclose(np.cov(coef[:, j].T), covariance, atol=0.12 * np.diag(covariance).max())


def test_coefficients_of_an_empty_component_come_from_the_prior(drawn, rng):
    state, data = drawn
    state.z[state.z == 1] = 0
    state.counts[:] = np.bincount(state.z, minlength=3)
    coef = repeated(_compiled.draw_coefficients, state, data, rng, lambda s: s.coef[1])
    c, grid = state.c[1], np.linspace(-30, 30, 20001)
    density = np.exp(elastic_net_log_density(grid, state.lambda1[c], state.lambda2[c], state.sigma2[1]))
    cdf = integrate.cumulative_trapezoid(density, grid, initial=0.0)
    for k in (1, 2, 3):
        assert stats.kstest(coef[:, k], lambda x: np.interp(x, grid, cdf)).pvalue > 1e-3


def test_gates(drawn, rng):
    state, data = drawn
    draws = repeated(_compiled.draw_gates, state, data, rng, lambda s: [s.gate_mean[0, 0], s.gate_var[0, 0]])
    column = data.gates[state.z == 0, 0]
    n, k0 = len(column), PRIORS.gate_count
    mean = column.sum() / (k0 + n)
    shape = PRIORS.gate_shape + n / 2
    scale = PRIORS.gate_scale + 0.5 * ((column**2).sum() - (k0 + n) * mean**2)
    assert stats.kstest(draws[:, 1], stats.invgamma(shape, scale=scale).cdf).pvalue > 1e-3
    marginal = stats.t(2 * shape, mean, np.sqrt(scale / shape / (k0 + n)))
    assert stats.kstest(draws[:, 0], marginal.cdf).pvalue > 1e-3


def test_gram_matrices_follow_the_rows_that_move(drawn, rng):
    state, data = drawn
    for _ in range(20):
        _compiled.sweep(state, data, PRIORS, rng)
        for j in range(3):
            rows = state.z == j
            np.testing.assert_allclose(state.gram[j], data.X[rows].T @ data.X[rows], atol=1e-10)
            np.testing.assert_allclose(state.moment[j], data.X[rows].T @ data.y[rows], atol=1e-10)
