"""The sampler as a whole: Geweke's test, calibration, special cases with known answers, same bits, resuming."""

import json

import numpy as np
import pytest
from oracles.mixture_oracles import (
    geweke_z,
    independent_elastic_net,
    marginal_conditional,
    metropolis_variances,
    penalties_without_jacobian,
    printed_alpha,
    printed_net_weights,
    printed_scales,
    prior_draw,
    simulate,
    small_data,
    steps_with,
    successive_conditional,
)
from scipy import stats
from sklearn.metrics import adjusted_rand_score

from tellwhy.core.errors import UnreadableFile
from tellwhy.explainers.surrogate import _compiled, checkpoint, sampler
from tellwhy.explainers.surrogate.priors import PRESETS, Priors
from tellwhy.explainers.surrogate.sampler import Settings, design, kept_arrays, sample

OWN = Priors(
    alpha_shape=2.0,
    lambda1_shape=3.0,
    lambda2_shape=3.0,
    lambda_rate=1.0,
    variance_shape=4.0,
    variance_scale=3.0,
    intercept_variance=1.0,
)
SIZES = (3, 2)  # components, elastic nets


def geweke_data(n=8, p=3, q=1):
    return small_data(n, p, q, np.random.default_rng(5))


@pytest.fixture(scope="module")
def independent():
    return marginal_conditional(3000, geweke_data(), SIZES, OWN.numbers(), np.random.default_rng(0))


def geweke(independent, steps, n_draws, seed=1):
    data = geweke_data()
    chain = successive_conditional(n_draws, data, SIZES, OWN.numbers(), np.random.default_rng(seed), steps)
    return np.abs(geweke_z(independent, chain))


def test_geweke(independent):
    z = geweke(independent, None, 4000)
    assert len(z) >= 30
    assert z.max() < 4


PRINTED = {
    "concentration": {"draw_alpha": printed_alpha},
    "net weights": {"draw_net_weights": printed_net_weights},
    "latent scales": {"draw_scales": printed_scales},
    "variance proposal": {"draw_variances": metropolis_variances(lambda p: 1)},
    "penalties without Jacobian": {"draw_penalties": penalties_without_jacobian},
}


@pytest.mark.parametrize("name", PRINTED)
def test_printed_formulas_fail_geweke(independent, name):
    assert geweke(independent, steps_with(**PRINTED[name]), 1500).max() > 6


def test_geweke_accepts_a_right_metropolis_step(independent):
    """The failure of the printed proposal is its own, not that of the way it is tried."""
    right = steps_with(draw_variances=metropolis_variances(lambda p: p))
    assert geweke(independent, right, 1500).max() < 4


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(8, 3, 1), (2, 6, 0), (20, 1, 2)])
def test_geweke_long(shape):
    data, rng = geweke_data(*shape), np.random.default_rng(7)
    expected = marginal_conditional(20_000, data, SIZES, OWN.numbers(), rng)
    chain = successive_conditional(60_000, data, SIZES, OWN.numbers(), rng)
    assert np.abs(geweke_z(expected, chain)).max() < 4


def test_compiled_sweep_is_its_steps():
    data = geweke_data()
    runs = []
    for steps in (None, steps_with()):
        rng = np.random.default_rng(2)
        runs.append(successive_conditional(20, data, SIZES, OWN.numbers(), rng, steps))
    np.testing.assert_array_equal(*runs)


def invariant(state, data):
    """Quantities that do not depend on the labels of the components."""
    fitted = (data.X * state.coef[state.z]).sum(axis=1)
    return np.array(
        [
            state.alpha[0],
            fitted[0],
            fitted[1],
            state.coef[state.z[0], 1],
            state.coef[state.z[1], 2],
            np.log(state.sigma2[state.z]).mean(),
            np.abs(state.coef[state.z, 1:]).mean(),
            np.exp(2 * state.log_pi).sum(),
        ]
    )


def calibration_ranks(n_sets, n_draws, thin, seed):
    """Rank of each true quantity among posterior draws, over data sets drawn from the prior."""
    rng, priors, ranks = np.random.default_rng(seed), OWN.numbers(), []
    data = geweke_data(15, 2, 0)
    for _ in range(n_sets):
        truth = prior_draw(data, *SIZES, priors, rng)
        simulate(truth, data, rng)
        true = invariant(truth, data)
        state = prior_draw(data, *SIZES, priors, rng)
        none = kept_arrays(state, 0)
        _compiled.run_sweeps(state, data, priors, rng, 200, 1, none)
        draws = []
        for _ in range(n_draws):
            _compiled.run_sweeps(state, data, priors, rng, thin, 1, none)
            draws.append(invariant(state, data))
        ranks.append((np.array(draws) < true).sum(axis=0))
    return np.array(ranks)


def assert_uniform(ranks, n_draws, n_bins):
    edges = np.linspace(-0.5, n_draws + 0.5, n_bins + 1)
    for k in range(ranks.shape[1]):
        observed = np.histogram(ranks[:, k], edges)[0]
        assert stats.chisquare(observed).pvalue > 1e-3, f"quantity {k}: {observed}"


def test_simulation_based_calibration():
    assert_uniform(calibration_ranks(100, 19, 15, seed=4), 19, 5)


@pytest.mark.slow
def test_simulation_based_calibration_long():
    assert_uniform(calibration_ranks(2000, 99, 20, seed=5), 99, 20)


def test_one_component_is_a_bayesian_elastic_net():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(25, 2))
    y = X @ [1.0, 0.0] + 0.3 + 0.7 * rng.normal(size=25)
    settings = Settings(n_components=1, n_elastic_nets=1, n_sweeps=12_000, n_burn=500, n_chains=2)
    mine = sample(design(X, y), OWN, settings, rng=rng).coef[:, 0]
    theirs = independent_elastic_net(X, y, OWN.numbers(), rng, n_walkers=200, n_steps=1200)[:, :3]
    np.testing.assert_allclose(mine.mean(axis=0), theirs.mean(axis=0), atol=0.03)
    np.testing.assert_allclose(mine.std(axis=0), theirs.std(axis=0), rtol=0.12)
    np.testing.assert_allclose(
        np.quantile(mine, [0.1, 0.9], axis=0), np.quantile(theirs, [0.1, 0.9], axis=0), atol=0.06
    )


def test_without_l1_it_is_conjugate_ridge():
    rng, priors = np.random.default_rng(9), OWN.numbers()
    data = design(rng.normal(size=(20, 3)), rng.normal(size=20))
    state = sampler.start(data, Settings(n_components=1, n_elastic_nets=1), priors, rng)
    state.lambda1[:], state.lambda2[:] = 1e-7, 2.0
    steps = [s for s in steps_with() if s is not _compiled.draw_penalties]
    coef, sigma2 = [], []
    for sweep in range(6000):
        for step in steps:
            step(state, data, priors, rng)
        if sweep > 100:
            coef.append(state.coef[0].copy())
            sigma2.append(state.sigma2[0])
    precision = data.X.T @ data.X + np.diag([1 / priors.intercept_variance, 2.0, 2.0, 2.0])
    mean = np.linalg.solve(precision, data.X.T @ data.y)
    shape = priors.variance_shape + 10
    scale = priors.variance_scale + 0.5 * (data.y @ data.y - mean @ precision @ mean)
    covariance = scale / (shape - 1) * np.linalg.inv(precision)
    np.testing.assert_allclose(np.mean(coef, axis=0), mean, atol=5 * np.sqrt(np.diag(covariance).max() / 6000))
    np.testing.assert_allclose(np.cov(np.transpose(coef)), covariance, atol=0.1 * np.diag(covariance).max())
    thinned = sigma2[::10]
    assert stats.kstest(thinned, stats.invgamma(shape, scale=scale).cdf).pvalue > 1e-3


def planted(seed, n=400, p=8, noise=0.05):
    rng = np.random.default_rng(seed)
    coef = np.zeros((3, p))
    coef[0, [0, 1]], coef[1, [2]], coef[2, [3, 4, 5]] = [1.0, -1.0], [1.5], [1.0, 1.0, -1.0]
    z = rng.integers(3, size=n)
    X = rng.normal(size=(n, p))
    y = np.array([-4.0, 0.0, 4.0])[z] + (X * coef[z]).sum(axis=1) + noise * rng.normal(size=n)
    return X, y, z, coef


def test_planted_mixture_is_recovered():
    X, y, z, coef = planted(0)
    settings = Settings(n_components=6, n_sweeps=600, n_burn=300)
    posterior = sample(design(X, y), Priors(variance_scale=0.01), settings, rng=np.random.default_rng(1))
    assert posterior.convergence.worst_r_hat < 1.05
    found = np.array([adjusted_rand_score(z, draw) for draw in posterior.z])
    assert found.mean() >= 0.95
    of_rows = posterior.coef[np.arange(len(posterior.z))[:, None], posterior.z.astype(int), 1:]
    low, high = np.quantile(of_rows, [0.025, 0.975], axis=0)
    nonzero = coef[z] != 0
    assert ((low > 0) | (high < 0))[nonzero].mean() > 0.97
    assert ((low > 0) | (high < 0))[~nonzero].mean() < 0.08
    assert np.median(np.abs(of_rows.mean(axis=0) - coef[z]).max(axis=1)) < 0.03


@pytest.mark.parametrize("p", [3, 40])
def test_same_bits_whatever_the_number_of_threads(p):
    rng = np.random.default_rng(0)
    data = design(rng.normal(size=(30, p)), rng.normal(size=30))
    settings = Settings(n_components=3, n_sweeps=40, n_burn=20, n_chains=3)
    runs = [sample(data, Priors(), settings, rng=np.random.default_rng(1), n_jobs=jobs) for jobs in (1, 3)]
    np.testing.assert_array_equal(runs[0].coef, runs[1].coef)
    np.testing.assert_array_equal(runs[0].z, runs[1].z)
    assert not np.array_equal(runs[0].coef[:40], runs[0].coef[40:80]), "chains are different"


@pytest.fixture
def interrupted(tmp_path, monkeypatch):
    """Rows, settings, and a folder in which a run was cut off in the middle."""
    monkeypatch.setattr(sampler, "SAVE_SECONDS", 0.0)
    rng = np.random.default_rng(0)
    data = design(rng.normal(size=(40, 3)), rng.normal(size=40))
    settings = Settings(n_components=3, n_sweeps=230, n_burn=70, n_chains=2)
    saves, save = [], checkpoint.save

    def cut_off(*arguments):
        save(*arguments)
        saves.append(1)
        if len(saves) == 7:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "save", cut_off)
    with pytest.raises(KeyboardInterrupt):
        sample(data, Priors(), settings, rng=np.random.default_rng(1), folder=tmp_path / "chains")
    monkeypatch.setattr(checkpoint, "save", save)
    return data, settings, tmp_path / "chains"


def test_resumed_chains_give_the_same_bits(interrupted):
    data, settings, folder = interrupted
    assert json.loads((folder / "chains.json").read_text())["chains"][0]["done"] == 130
    whole = sample(data, Priors(), settings, rng=np.random.default_rng(1))
    resumed = sample(data, Priors(), settings, rng=np.random.default_rng(1), folder=folder)
    np.testing.assert_array_equal(whole.coef, resumed.coef)
    again = sample(data, Priors(), settings, rng=np.random.default_rng(1), folder=folder)
    np.testing.assert_array_equal(whole.sigma2, again.sigma2)


def test_checkpoints_of_something_else_are_refused(interrupted):
    data, settings, folder = interrupted
    other = design(data.X[:, 1:], data.y + 1e-9)
    for rows, seed, size in ((other, 1, 230), (data, 2, 230), (data, 1, 240)):
        chosen = Settings(n_components=3, n_sweeps=size, n_burn=70, n_chains=2)
        with pytest.raises(UnreadableFile, match="checkpoint of other rows"):
            sample(rows, Priors(), chosen, rng=np.random.default_rng(seed), folder=folder)
    (folder / "arrays.npz").write_bytes(b"cut")
    with pytest.raises(UnreadableFile, match="damaged"):
        sample(data, Priors(), settings, rng=np.random.default_rng(1), folder=folder)


def test_published_settings():
    assert {(n, s["n_components"], s["priors"].alpha_shape, s["priors"].lambda1_shape) for n, s in PRESETS.items()} == {
        ("random forest", 5, 1.0, 4.0),
        ("svm", 5, 5.0, 5.0),
        ("mnist", 6, 5.0, 2.5),
        ("fashion-mnist", 10, 5.0, 2.5),
        ("imagenet", 10, 5.0, 2.5),
    }
    assert all(s["priors"].lambda_rate == 0.5 and s["n_elastic_nets"] == 3 for s in PRESETS.values())
    assert PRESETS["svm"]["priors"].variance_scale == 1.0
