"""Heights of ordinary stretches: how high the highest of new ones will be."""

import numpy as np
import pytest

from tellwhy.scoring.surprise import ForetoldHeights, measure_independence
from tellwhy.verdicts.ordinary import judge

N = 40  # stretches of the reference, and of what is judged


def share_of_alarms(draw, *, n_runs=80, **how):
    rng = np.random.default_rng(0)
    n_alarms = 0
    for _ in range(n_runs):
        ordinary = draw(rng)
        new = draw(rng)
        n_alarms += (new > judge(new, ordinary, few="rank", **how).threshold).any()
    return n_alarms / n_runs


def pareto(rng):
    return (rng.uniform(size=N) ** (-2 / 3) - 1) * 1.5


def maxima(rng):
    return rng.normal(size=(N, 30)).max(axis=1) ** 2


@pytest.mark.parametrize("draw", [pareto, maxima])
def test_clean_heights_are_alarms_as_seldom_as_is_said(draw):
    rate = share_of_alarms(draw, learn=ForetoldHeights.learn)
    assert rate <= 0.15


def test_a_fitted_tail_would_be_taken_for_the_true_one():
    """The reason for all this: the law of rows, fitted to as few heights, promises too much."""
    assert share_of_alarms(pareto) > 0.2


def test_a_light_tail_is_known_to_be_light_with_a_doubt():
    """Twice as high as all that was seen is an alarm; a little higher may be a large reading that is rare."""
    heights = np.random.default_rng(1).normal(10.0, 1.0, size=N)
    surprises = ForetoldHeights.learn(heights).surprises(heights.max() * np.array([1.0, 1.4, 2.0]))
    assert (surprises[:2] < np.log(N / 0.1)).all()
    assert surprises[2] > np.log(N / 0.1)


def test_heights_in_bursts_tell_less_and_the_line_is_higher():
    heights = np.random.default_rng(2).exponential(size=60)
    line = ForetoldHeights.learn(heights).score_of(np.log(600))
    in_a_row = ForetoldHeights.learn(np.sort(heights)).score_of(np.log(600))
    assert measure_independence(np.sort(heights) > 1.0) < measure_independence(heights > 1.0)
    assert in_a_row > 1.1 * line


def test_surprise_is_finite_rises_and_can_be_turned_round():
    heights = np.random.default_rng(3).exponential(size=1000)
    law = ForetoldHeights.learn(heights)
    scores = np.append(np.sort(heights)[::50], [10.0, 20.0, 1e3, 1e6])
    surprises = law.surprises(scores)
    assert np.isfinite(surprises).all()
    assert (np.diff(surprises) > 0).all()
    np.testing.assert_allclose([law.score_of(s) for s in surprises], scores, rtol=1e-6)


def test_a_longer_reference_lowers_the_line_towards_the_true_one():
    rng = np.random.default_rng(4)
    drawn = [[rng.exponential(size=n) for _ in range(10)] for n in (20, 2000)]
    short, long = (np.median([ForetoldHeights.learn(h).score_of(6.0) for h in each]) for each in drawn)
    assert short > long
    assert long == pytest.approx(6.0, rel=0.1)


def test_equal_heights_are_dealt_with():
    law = ForetoldHeights.learn(np.full(20, 3.0))
    assert np.isfinite(law.levels).all()
    assert law.surprises(np.array([3.0]))[0] < law.surprises(np.array([300.0]))[0]


def test_the_tail_of_single_readings_moves_the_line():
    """The same heights, but readings that reach far now and then: a high stretch may come yet."""
    rng = np.random.default_rng(5)
    heights = rng.exponential(size=N)
    light = ForetoldHeights.learn(heights, rng.exponential(size=1500)).score_of(np.log(N / 0.1))
    heavy = ForetoldHeights.learn(heights, rng.standard_t(3, size=1500) ** 2).score_of(np.log(N / 0.1))
    alone = ForetoldHeights.learn(heights).score_of(np.log(N / 0.1))
    assert light < 1.1 * alone  # these heights look light by themselves
    assert heavy > 2 * alone


def test_readings_that_are_equal_or_absent_tell_nothing():
    heights = np.random.default_rng(6).exponential(size=N)
    alone = ForetoldHeights.learn(heights)
    for readings in (np.full(300, 2.0), np.empty(0), np.array([1.0, 2.0])):
        np.testing.assert_allclose(ForetoldHeights.learn(heights, readings).levels, alone.levels)


def test_heavy_tailed_series_raise_as_few_alarms_as_is_said():
    """Windows of independent readings: squares of Student's t, added up; without the readings more are alarms."""
    rng = np.random.default_rng(7)
    counts = dict.fromkeys(("told by readings", "by heights alone"), 0)
    n_runs = 150
    for _ in range(n_runs):
        readings, new = (rng.standard_t(3, size=(2, N * 20)) ** 2).reshape(2, N, 20)
        heights = readings.sum(axis=1)
        for name, told in (("told by readings", readings.ravel()), ("by heights alone", None)):
            line = ForetoldHeights.learn(heights, told).score_of(np.log(N / 0.1))
            counts[name] += (new.sum(axis=1) > line).any()
    assert counts["told by readings"] <= 0.1 * n_runs
    assert counts["told by readings"] < counts["by heights alone"]


def test_a_few_scores_raise_as_few_alarms_as_is_said_and_far_ones_are_found():
    """Fifteen good pictures whose scores are skewed, and twelve new ones; one of them far out, or none."""
    rng = np.random.default_rng(8)
    n_runs = 100
    counts = {"averaged": 0, "fitted": 0, "found": 0}
    for _ in range(n_runs):
        good, new = (5.0 + rng.lognormal(0.0, 0.6, size=n) for n in (15, 12))
        averaged = judge(new, good, learn=ForetoldHeights.of_scores)
        counts["averaged"] += (new > averaged.threshold).any()
        counts["fitted"] += (new > judge(new, good).threshold).any()
        new[0] = np.median(good) + 10 * np.ptp(good)
        counts["found"] += new[0] > judge(new, good, learn=ForetoldHeights.of_scores).threshold
    assert counts["averaged"] <= 0.12 * n_runs
    assert counts["averaged"] < 0.6 * counts["fitted"]
    assert counts["found"] == n_runs
