"""Split-R̂ and effective draws against what they must be for known chains."""

import numpy as np
import pytest
from scipy import stats

from tellwhy.explainers.surrogate.chains import (
    BESIDE,
    Convergence,
    convergence,
    count_bulk_draws,
    count_effective_draws,
    count_tail_draws,
    normal_scores,
    rank_r_hat,
    split_r_hat,
)


def autoregressive(rho, chains, n, rng):
    found = np.zeros((chains, n))
    for i in range(1, n):
        found[:, i] = rho * found[:, i - 1] + rng.normal(size=chains)
    return found


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_effective_draws_of_autoregressive_chains(rho):
    draws = autoregressive(rho, 4, 4000, np.random.default_rng(0))
    expected = 16_000 * (1 - rho) / (1 + rho)
    assert float(count_effective_draws(draws)) == pytest.approx(expected, rel=0.15)


def test_split_r_hat_sees_chains_apart_and_chains_that_drift():
    rng = np.random.default_rng(1)
    good = rng.normal(size=(4, 400))
    assert float(split_r_hat(good)) < 1.02
    assert float(split_r_hat(good + np.array([[0], [0], [0], [2]]))) > 1.2
    assert float(split_r_hat(good + np.linspace(0, 4, 400))) > 1.2, "drift is seen within one chain"
    assert float(count_effective_draws(good + np.array([[0], [0], [0], [2]]))) < 40


def test_split_r_hat_by_hand():
    """Half chains (0, 1), (2, 3), (4, 5), (6, 7): variance ½ within, 20/3 between their means."""
    draws = np.arange(8.0).reshape(2, 4)
    assert float(split_r_hat(draws)) == pytest.approx(np.sqrt((0.5 * 0.5 + 20 / 3) / 0.5))


def test_rank_r_hat_by_hand():
    """Ranks 1 to 8 of half chains (0, 1), (2, 3), (4, 5), (6, 7) as normal quantiles; distances to 3.5 tie in pairs."""
    draws = np.arange(8.0).reshape(2, 4) ** 3  # ranks do not depend on the power
    scores = stats.norm.ppf((np.arange(1.0, 9.0) - 0.375) / 8.25).reshape(2, 4)
    np.testing.assert_allclose(normal_scores(draws), scores)
    of_means = float(split_r_hat(scores))
    assert float(rank_r_hat(draws)) == pytest.approx(of_means)
    distances = np.abs(draws - np.median(draws))
    assert float(split_r_hat(normal_scores(distances))) < of_means


def test_rank_r_hat_sees_what_split_r_hat_does_not():
    rng = np.random.default_rng(2)
    assert float(rank_r_hat(rng.normal(size=(4, 400)))) < 1.02
    wider = rng.normal(size=(4, 400)) * np.array([[1], [1], [1], [3]])
    assert float(split_r_hat(wider)) < 1.02 < 1.05 < float(rank_r_hat(wider)), "same means, other spreads"
    heavy = rng.standard_cauchy(size=(4, 400)) + np.array([[0], [0], [0], [3]])
    assert float(split_r_hat(heavy)) < 1.05 < float(rank_r_hat(heavy)), "chains apart, without a variance"


def test_tails_of_chains_that_stay_in_one_have_few_draws():
    """Three chains that stay within ±1, and one that is now and then far out for long: means mix, ends do not."""
    rng = np.random.default_rng(3)
    draws = rng.uniform(-1, 1, size=(4, 400))
    draws[0, 150:210] += 5.0
    assert float(count_bulk_draws(draws)) > 4 * float(count_tail_draws(draws))
    plain = rng.normal(size=(4, 1000))
    assert 3000 < float(count_bulk_draws(plain)) < 5500
    assert 3000 < float(count_tail_draws(plain)) < 5500
    slow = autoregressive(0.9, 4, 4000, rng)
    assert float(count_bulk_draws(slow)) == pytest.approx(16_000 / 19, rel=0.25)
    assert float(count_tail_draws(slow)) < 16_000 / 8


def test_constant_quantities_have_converged():
    measured = convergence(
        {"constant": np.full((2, 50), 3.0), "noise": np.random.default_rng(0).normal(size=(2, 50))}
    )
    assert measured.r_hat["constant"] == 1.0
    assert measured.ess["constant"] == measured.tail["constant"] == 100
    assert measured.least_ess == min(measured.ess["noise"], measured.tail["noise"], 100)
    assert measured.words() == f"R̂ ≤ {measured.worst_r_hat:.2f}, effective draws ≥ {measured.least_ess:.0f}"


def test_many_quantities_at_once():
    draws = np.random.default_rng(0).normal(size=(2, 100, 5))
    together = count_effective_draws(draws)
    np.testing.assert_allclose(together, [count_effective_draws(draws[..., k]) for k in range(5)])
    for measure in (rank_r_hat, count_bulk_draws, count_tail_draws):
        np.testing.assert_allclose(measure(draws), [measure(draws[..., k]) for k in range(5)])


def test_what_is_watched_beside_counts_only_where_nothing_else_is_there():
    agreement = Convergence({"effect": 1.01, BESIDE: 1.9}, {"effect": 300.0, BESIDE: 5.0}, {"effect": 80.0})
    assert (agreement.worst_r_hat, agreement.least_ess) == (1.01, 80.0)
    alone = Convergence({BESIDE: 1.9}, {BESIDE: 5.0})
    assert (alone.worst_r_hat, alone.least_ess) == (1.9, 5.0)
