"""Surprise: a probability where rows are, an ordered tail beyond, and no attention to a few anomalies."""

import numpy as np
import pytest

from tellwhy.scoring.surprise import Surprise


def ordinary(kind, n=4000, seed=0):
    rng = np.random.default_rng(seed)
    return {"exponential": rng.exponential, "normal": rng.normal, "heavy": lambda size: rng.pareto(3, size)}[
        kind
    ](size=n)


@pytest.mark.parametrize("kind", ["exponential", "normal", "heavy"])
def test_surprise_is_the_logarithm_of_the_share_above(kind):
    scores = ordinary(kind)
    law = Surprise.learn(scores)
    for level in (0.3, 0.5, 0.69, 0.9, 0.97):
        assert law.value(np.quantile(scores, [level]))[0] == pytest.approx(-np.log1p(-level), rel=0.1)


@pytest.mark.parametrize("kind", ["exponential", "normal", "heavy"])
def test_surprise_is_continuous_and_increasing(kind):
    scores = ordinary(kind)
    law = Surprise.learn(scores)
    grid = np.linspace(scores.min(), 50 * scores.max(), 200_001)
    found = law.value(grid)
    assert (np.diff(found) >= 0).all()
    assert (np.diff(found[grid > law.knots[-1]]) > 0).all()
    around = law.value(law.knots[-1] + np.array([-1e-9, 0.0, 1e-9]))
    np.testing.assert_allclose(around, law.levels[-1], atol=1e-3)


def test_scores_beyond_everything_seen_stay_in_order_and_finite():
    law = Surprise.learn(ordinary("normal"))
    far = law.value(np.array([1e2, 1e4, 1e100]))
    assert (np.diff(far) > 0).all()
    assert np.isfinite(far).all()


def test_two_per_cent_of_anomalies_do_not_move_the_tail():
    scores = ordinary("exponential")
    polluted = scores.copy()
    polluted[:80] = 1e6
    law = Surprise.learn(polluted)
    assert law.value(np.array([3.0]))[0] == pytest.approx(3.0, rel=0.2)
    assert law.value(np.array([1e6]))[0] > 20


def test_known_ordinary_rows_are_followed_further_out():
    rng = np.random.default_rng(1)
    scores = np.concatenate([rng.normal(size=9700), rng.normal(size=300) * 0.3 + 8])  # a rare, ordinary kind
    for at in (2.0, 7.0, 8.0):
        share = (scores >= at).mean()
        assert Surprise.learn(scores, is_clean=True).value(np.array([at]))[0] == pytest.approx(
            -np.log(share), abs=0.3
        )


def test_equal_scores_share_the_middle_of_their_ranks():
    scores = np.concatenate([np.zeros(50), np.arange(1.0, 51.0)])
    law = Surprise.learn(scores)
    assert law.value(np.zeros(1))[0] == pytest.approx(-np.log((50 + 25 + 0.5) / 101))


def test_all_scores_equal():
    law = Surprise.learn(np.full(30, 7.0))
    assert (np.diff(law.value(np.array([7.0, 8.0, 9.0]))) > 0).all()


def test_surprises_do_not_become_more_surprising():
    mostly_zero = np.zeros(1000)
    mostly_zero[:5] = 4.0
    law = Surprise.learn(mostly_zero, least_scale=1.0)
    assert law.value(np.array([4.0]))[0] <= 4.0 + law.levels[-1]


def test_score_of_inverts_value():
    law = Surprise.learn(ordinary("heavy"))
    for surprise in (0.5, 1.0, 2.0, 9.0):
        assert law.value(np.array([law.score_of(surprise)]))[0] == pytest.approx(surprise, rel=1e-3)


def test_a_tail_of_equal_scores_has_a_thousandth_of_the_spread_as_its_scale():
    scores = np.concatenate([np.linspace(0.0, 50.0, 600), np.full(400, 50.0)])
    low, high = np.quantile(scores, [0.05, 0.95])
    assert Surprise.learn(scores).scale == pytest.approx(1e-3 * (high - low))


def test_rows_that_are_equal_are_as_odd_as_their_group_is_rare():
    scores = np.r_[np.zeros(570), np.full(17, 3.0)]
    law = Surprise.learn(scores).with_groups(scores)
    assert law.value(np.array([3.0]))[0] == pytest.approx(-np.log(8.5 / 587), abs=0.01)
    one = np.r_[np.zeros(586), 3.0]
    assert Surprise.learn(one).with_groups(one).value(np.array([3.0]))[0] > 9
