"""The sampler as a whole: Geweke's test, calibration, known answers, same bits, resuming, what is watched."""

import json
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from oracles.mixture_calibration import (
    OWN,
    PRINTED,
    RIGHT,
    SIZES,
    calibration_ranks,
    expected_statistics,
    geweke,
    geweke_data,
    rank_histograms,
    recovery,
)
from oracles.mixture_oracles import independent_elastic_net, steps_with, successive_conditional
from scipy import stats

from tellwhy.core import progress
from tellwhy.core.errors import UnreadableFile
from tellwhy.explainers import DMMMEN
from tellwhy.explainers.surrogate import _compiled_sweep as _compiled, sampler, sampler as checkpoint
from tellwhy.explainers.surrogate.chains import GOAL, PRESETS, Priors, design
from tellwhy.explainers.surrogate.sampler import WATCHED, Settings, quantities, sample


@pytest.fixture(scope="module")
def independent():
    return expected_statistics(3000)


def test_geweke(independent):
    z = geweke(independent, None, 4000)
    assert len(z) >= 30
    assert z.max() < 4


@pytest.mark.parametrize("name", PRINTED)
def test_printed_formulas_fail_geweke(independent, name):
    assert geweke(independent, steps_with(**PRINTED[name]), 1500).max() > 6


@pytest.mark.parametrize("name", RIGHT)
def test_geweke_accepts_right_steps_in_numpy(independent, name):
    """The failure of a printed formula is its own, not that of the way it is tried."""
    assert geweke(independent, steps_with(**RIGHT[name]), 4000).max() < 4


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(8, 3, 1), (2, 6, 0), (20, 1, 2)])
def test_geweke_long(shape):
    assert geweke(expected_statistics(20_000, shape), None, 60_000, shape=shape, seed=7).max() < 4


def test_compiled_sweep_is_its_steps():
    data = geweke_data()
    runs = []
    for steps in (None, steps_with()):
        rng = np.random.default_rng(2)
        runs.append(successive_conditional(20, data, SIZES, OWN.numbers(), rng, steps))
    np.testing.assert_array_equal(*runs)


def assert_uniform(ranks, n_draws, n_bins):
    counts, p_values = rank_histograms(ranks, n_draws, n_bins)
    assert p_values.min() > 1e-3, counts[p_values.argmin()]


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
    np.testing.assert_allclose(
        np.mean(coef, axis=0), mean, atol=5 * np.sqrt(np.diag(covariance).max() / 6000)
    )
    np.testing.assert_allclose(np.cov(np.transpose(coef)), covariance, atol=0.1 * np.diag(covariance).max())
    thinned = sigma2[::10]
    assert stats.kstest(thinned, stats.invgamma(shape, scale=scale).cdf).pvalue > 1e-3


def test_planted_mixture_is_recovered():
    found = recovery(0)
    assert found["R̂"] < 1.05
    assert found["ARI"] >= 0.95
    assert found["non-zero coefficients found"] > 0.97
    assert found["zero coefficients taken for others"] < 0.08
    assert found["median error of a row's coefficients"] < 0.03


@pytest.mark.parametrize("p", [3, 40])
def test_same_bits_whatever_the_number_of_threads(p):
    rng = np.random.default_rng(0)
    data = design(rng.normal(size=(30, p)), rng.normal(size=30))
    settings = Settings(n_components=3, n_sweeps=40, n_burn=20, n_chains=3)
    runs = [sample(data, Priors(), settings, rng=np.random.default_rng(1), n_jobs=jobs) for jobs in (1, 3)]
    np.testing.assert_array_equal(runs[0].coef, runs[1].coef)
    np.testing.assert_array_equal(runs[0].z, runs[1].z)
    assert not np.array_equal(runs[0].coef[:40], runs[0].coef[40:80]), "chains are different"


def test_progress_tells_how_far_chains_agree(monkeypatch):
    monkeypatch.setattr(progress, "QUIET_SECONDS", -1.0)
    monkeypatch.setattr(progress, "_REFRESH_SECONDS", 0.0)
    rng, lines = np.random.default_rng(0), []
    data = design(rng.normal(size=(20, 2)), rng.normal(size=20))
    with progress.show_with(lambda label, done, total: lines.append((label, done, total))):
        found = sample(data, Priors(), Settings(2, n_sweeps=40, n_burn=40), rng=rng).convergence
    assert [line[1:] for line in lines] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert lines[0][0] == "sampling the mixture (burn-in)"
    assert lines[-1][0] == f"sampling the mixture ({found.words()})"
    assert found.words() == f"R̂ ≤ {found.worst_r_hat:.2f}, effective draws ≥ {found.least_ess:.0f}"


def cut_off(monkeypatch, data, settings, folder):
    """A run that is interrupted when it has saved seven times."""
    saves, save = [], checkpoint.save

    def save_some(*arguments):
        save(*arguments)
        saves.append(1)
        if len(saves) == 7:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "save", save_some)
    with pytest.raises(KeyboardInterrupt):
        sample(data, Priors(), settings, rng=np.random.default_rng(1), folder=folder)
    monkeypatch.setattr(checkpoint, "save", save)


@pytest.fixture
def interrupted(tmp_path, monkeypatch):
    """Rows, settings, and a folder in which a run was cut off in the middle."""
    monkeypatch.setattr(sampler, "SAVE_SECONDS", 0.0)
    rng = np.random.default_rng(0)
    data = design(rng.normal(size=(40, 3)), rng.normal(size=40))
    settings = Settings(n_components=3, n_sweeps=230, n_burn=70, n_chains=2)
    cut_off(monkeypatch, data, settings, tmp_path / "chains")
    return data, settings, tmp_path / "chains"


def test_resumed_chains_give_the_same_bits(interrupted):
    data, settings, folder = interrupted
    assert json.loads((folder / "chains.json").read_text())["chains"][0]["done"] == 130
    whole = sample(data, Priors(), settings, rng=np.random.default_rng(1))
    resumed = sample(data, Priors(), settings, rng=np.random.default_rng(1), folder=folder)
    np.testing.assert_array_equal(whole.coef, resumed.coef)
    again = sample(data, Priors(), settings, rng=np.random.default_rng(1), folder=folder)
    np.testing.assert_array_equal(whole.sigma2, again.sigma2)


KILLED_WHILE_SAVING = """
import os, signal, sys
import numpy as np
from tellwhy.explainers.surrogate import sampler, sampler as checkpoint
from tellwhy.explainers.surrogate.chains import design
from tellwhy.explainers.surrogate.chains import GOAL
from tellwhy.explainers.surrogate.chains import Priors

saves, savez = [], np.savez

def dying(*arguments, **arrays):
    saves.append(1)
    if len(saves) == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    savez(*arguments, **arrays)

checkpoint.np.savez, sampler.SAVE_SECONDS = dying, 0.0
X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30.0) / 30
settings = sampler.Settings(n_components=2, n_sweeps=100, n_burn=60, n_chains=2)
folder = sampler.Path(sys.argv[1])
sampler.sample(design(X, y), Priors(), settings, rng=np.random.default_rng(1), folder=folder)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_process_killed_while_it_saves_is_resumed(tmp_path):
    folder = tmp_path / "chains"
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_SAVING, str(folder)], check=False, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert json.loads((folder / "chains.json").read_text())["chains"][0]["done"] == 80, (
        "the last whole checkpoint"
    )
    data = design(np.random.default_rng(0).normal(size=(30, 2)), np.arange(30.0) / 30)
    settings = Settings(n_components=2, n_sweeps=100, n_burn=60, n_chains=2)
    resumed, whole = (
        sample(data, Priors(), settings, rng=np.random.default_rng(1), folder=where)
        for where in (folder, None)
    )
    np.testing.assert_array_equal(whole.coef, resumed.coef)


def test_chains_are_saved_now_and_then_and_at_the_end(tmp_path, monkeypatch):
    """All blocks are alike, and none but the last is the last one."""
    saved_at = []
    save = checkpoint.save
    monkeypatch.setattr(checkpoint, "save", lambda *args: (saved_at.append(args[2][0].done), save(*args)))
    data = design(np.random.default_rng(0).normal(size=(30, 2)), np.arange(30.0) / 30)
    settings = Settings(n_components=2, n_sweeps=100, n_burn=60, n_chains=2)
    sample(data, Priors(), settings, rng=np.random.default_rng(1), folder=tmp_path / "chains")
    assert saved_at == [160]


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


# Guo et al. (2018), supplement, table 4: J, e, f, K, R, L, V, a, b
TABLE_4 = {
    "random forest": (5, 1, 1, 3, 4, 1, 1, 0.5, 0.5),
    "svm": (5, 5, 1, 3, 5, 1, 1, 1, 1),
    "mnist": (6, 5, 1, 3, 2.5, 1, 1, 0.5, 0.5),
    "fashion-mnist": (10, 5, 1, 3, 2.5, 1, 1, 0.5, 0.5),
    "imagenet": (10, 5, 1, 3, 2.5, 1, 1, 0.5, 0.5),
}


def test_published_settings():
    assert set(PRESETS) == set(TABLE_4)
    for name, (J, e, f, K, R, L, V, a, b) in TABLE_4.items():
        priors = Priors(e, f, R, L, V / 2, a, b)
        assert PRESETS[name] == {"n_components": J, "n_elastic_nets": K, "priors": priors}


@pytest.fixture
def two_regimes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = np.where(X[:, 0] > 0, 2 * X[:, 1], -2 * X[:, 2]) + 0.5 * rng.normal(size=120)
    return design(X, y / y.std())


def test_chains_go_on_until_they_agree(two_regimes, tmp_path):
    """Sixty sweeps without burn-in do not agree; with time, longer and longer rounds follow until they do."""
    short = {"n_components": 4, "n_sweeps": 60, "n_burn": 0, "n_chains": 4}
    brief = sample(two_regimes, Priors(), Settings(**short), rng=np.random.default_rng(1))
    assert brief.convergence.worst_r_hat > GOAL
    longer = Settings(**short, max_seconds=60)
    found = sample(two_regimes, Priors(), longer, rng=np.random.default_rng(1), folder=tmp_path / "chains")
    assert found.convergence.worst_r_hat <= GOAL
    done = json.loads((tmp_path / "chains" / "chains.json").read_text())["chains"][0]["done"]
    assert done in 60 * np.cumsum([1, 2, 3, 4, 6, 9, 13, 19, 28])[1:], (
        "rounds of 1, 2, 3, 4, 6, … × 60 sweeps"
    )
    assert found.convergence.ended == f"agreed after {done:,} sweeps"
    assert found.coef.shape == brief.coef.shape, "as many draws, further apart"


def test_no_round_is_begun_that_would_not_be_done_in_time(two_regimes, monkeypatch):
    """A clock on which every look costs a second: the first run takes some, a round twice as long does not fit."""
    now = iter(range(10**6))
    monkeypatch.setattr(sampler.time, "monotonic", lambda: float(next(now)))
    sweeps = []
    run = sampler._run
    monkeypatch.setattr(sampler, "_run", lambda *given: (sweeps.append(given[3]), run(*given)))
    settings = Settings(n_components=4, n_sweeps=8, n_burn=0, n_chains=1, max_seconds=2.0)
    found = sample(two_regimes, Priors(), settings, rng=np.random.default_rng(1))
    assert sum(sweeps) == 8
    assert found.convergence.words().endswith("; ended by the time limit of 2 s, after 8 sweeps")


def test_chains_that_agree_do_not_go_on(two_regimes):
    settings = {"n_components": 1, "n_sweeps": 400, "n_burn": 50, "n_chains": 4}
    plain = sample(two_regimes, Priors(), Settings(**settings), rng=np.random.default_rng(1))
    assert plain.convergence.worst_r_hat <= GOAL
    timed = sample(two_regimes, Priors(), Settings(**settings, max_seconds=60), rng=np.random.default_rng(1))
    np.testing.assert_array_equal(plain.coef, timed.coef)


def test_chains_that_went_on_are_resumed_with_the_same_bits(two_regimes, tmp_path, monkeypatch):
    monkeypatch.setattr(sampler, "SAVE_SECONDS", 0.0)
    settings = Settings(n_components=4, n_sweeps=60, n_burn=0, n_chains=4, max_seconds=60)
    whole = sample(two_regimes, Priors(), settings, rng=np.random.default_rng(1))
    cut_off(monkeypatch, two_regimes, settings, tmp_path / "c")
    resumed = sample(two_regimes, Priors(), settings, rng=np.random.default_rng(1), folder=tmp_path / "c")
    np.testing.assert_array_equal(whole.coef, resumed.coef)


def chain(rng, n_draws=40, n=30, p=14, J=3):
    kept = SimpleNamespace(
        z=rng.integers(J, size=(n_draws, n)).astype(np.int16),
        coef=rng.normal(size=(n_draws, J, 1 + p)) + np.arange(1 + p),
        sigma2=rng.uniform(0.5, 2.0, size=(n_draws, J)),
    )
    return SimpleNamespace(kept=kept, n_kept=n_draws)


def relabelled(one, rng):
    """The same draws, with other numbers for the components of each."""
    J = one.kept.sigma2.shape[1]
    kept = SimpleNamespace(z=one.kept.z.copy(), coef=one.kept.coef.copy(), sigma2=one.kept.sigma2.copy())
    for d in range(one.n_kept):
        order = rng.permutation(J)
        kept.coef[d], kept.sigma2[d] = one.kept.coef[d, order], one.kept.sigma2[d, order]
        kept.z[d] = np.argsort(order)[one.kept.z[d]]
    return SimpleNamespace(kept=kept, n_kept=one.n_kept)


def test_labels_do_not_matter():
    rng = np.random.default_rng(0)
    one = chain(rng)
    for name, draws in quantities([one], np.ones(14)).items():
        np.testing.assert_allclose(quantities([relabelled(one, rng)], np.ones(14))[name], draws, err_msg=name)


def test_effects_are_mean_coefficients_of_the_rows_times_the_spread():
    one = chain(np.random.default_rng(1))
    spread = np.linspace(0.1, 1.0, 14)[::-1]
    found = quantities([one], spread)
    draw = np.arange(one.n_kept)[:, None]
    by_hand = one.kept.coef[draw, one.kept.z].mean(axis=1)[:, 1:] * spread
    largest = np.argsort(-np.abs(by_hand.mean(axis=0)))
    for k in range(WATCHED):
        np.testing.assert_allclose(found[f"effect {k + 1} by size"][0], by_hand[:, largest[k]])
    variance = np.log(one.kept.sigma2[draw, one.kept.z]).mean(axis=1)
    np.testing.assert_allclose(found["mean log variance of the rows"][0], variance)
    first = set(largest[:WATCHED])
    same = [len(first & set(np.argsort(-np.abs(row))[:WATCHED])) / WATCHED for row in by_hand]
    np.testing.assert_allclose(found["features that come first"][0], same)


@pytest.mark.filterwarnings("ignore::tellwhy.core.errors.NotConverged")
def test_insights_and_rows_carry_how_far_chains_agree():
    X = np.random.default_rng(0).normal(size=(150, 3))
    explainer = DMMMEN(lambda X: 3 * X[:, 1], n_components=1, n_sweeps=200, n_burn=100, n_chains=4).fit(X)
    (insight,) = explainer.insights(2)
    assert 0.98 < insight.r_hat < 1.1
    assert insight.n_effective > 50
    assert (explainer.explain(X[:3]).extras["r_hat"] < 1.1).all()
    hasty = DMMMEN(lambda X: 3 * X[:, 1], n_components=8, n_sweeps=8, n_burn=0, n_chains=2).fit(X)
    parts = hasty.insights(2)
    assert max(part.r_hat for part in parts) > 1.1
