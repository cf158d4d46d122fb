"""Split-R̂ and effective draws against what they must be for known chains."""

import numpy as np
import pytest

from tellwhy.explainers.surrogate.convergence import convergence, effective_draws, split_r_hat


def autoregressive(rho, chains, n, rng):
    found = np.zeros((chains, n))
    for i in range(1, n):
        found[:, i] = rho * found[:, i - 1] + rng.normal(size=chains)
    return found


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_effective_draws_of_autoregressive_chains(rho):
    draws = autoregressive(rho, 4, 4000, np.random.default_rng(0))
    expected = 16_000 * (1 - rho) / (1 + rho)
    assert float(effective_draws(draws)) == pytest.approx(expected, rel=0.15)


def test_split_r_hat_sees_chains_apart_and_chains_that_drift():
    rng = np.random.default_rng(1)
    good = rng.normal(size=(4, 400))
    assert float(split_r_hat(good)) < 1.02
    assert float(split_r_hat(good + np.array([[0], [0], [0], [2]]))) > 1.2
    assert float(split_r_hat(good + np.linspace(0, 4, 400))) > 1.2, "drift is seen within one chain"
    assert float(effective_draws(good + np.array([[0], [0], [0], [2]]))) < 40


def test_split_r_hat_by_hand():
    """Half chains (0, 1), (2, 3), (4, 5), (6, 7): variance ½ within, 20/3 between their means."""
    draws = np.arange(8.0).reshape(2, 4)
    assert float(split_r_hat(draws)) == pytest.approx(np.sqrt((0.5 * 0.5 + 20 / 3) / 0.5))


def test_constant_quantities_have_converged():
    measured = convergence(
        {"constant": np.full((2, 50), 3.0), "noise": np.random.default_rng(0).normal(size=(2, 50))}
    )
    assert measured.r_hat["constant"] == 1.0
    assert measured.ess["constant"] == 100
    assert "R̂" in measured.words()


def test_many_quantities_at_once():
    draws = np.random.default_rng(0).normal(size=(2, 100, 5))
    together = effective_draws(draws)
    np.testing.assert_allclose(together, [effective_draws(draws[..., k]) for k in range(5)])
