"""What is watched for convergence: quantities that are reported, whatever the components are called."""

from types import SimpleNamespace

import numpy as np
import pytest

from tellwhy.explainers import DMMMEN
from tellwhy.explainers.surrogate.sampler import WATCHED, quantities


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
