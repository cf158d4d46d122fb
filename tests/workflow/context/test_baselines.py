"""What is usual for a number in a segment, drawn towards the whole table where the segment is small."""

import numpy as np
import pytest

from tellwhy.checks.in_time.baselines import FEW, TO_SIGMA, Baseline, chosen_bend, spread_of, step_of


def draws(rng, n_segments, size, *, apart, spread=1.0):
    segments = np.repeat(np.arange(n_segments), size)
    middles = apart * rng.normal(size=n_segments)
    return middles[segments] + spread * rng.normal(size=len(segments)), segments, middles


def test_large_segments_keep_their_own_middle_and_spread():
    rng = np.random.default_rng(0)
    values, segments, middles = draws(rng, 20, 400, apart=50.0)
    values = np.where(segments == 3, middles[3] + 7 * (values - middles[3]), values)
    found = Baseline.learn(values, segments, 20)
    np.testing.assert_allclose(found.middles[:20], middles, atol=1.5)
    assert found.scales[3] == pytest.approx(7, rel=0.2)
    assert found.scales[4] == pytest.approx(1, rel=0.2)


def test_segments_that_do_not_differ_are_judged_by_the_whole_table():
    rng = np.random.default_rng(1)
    values, segments, _ = draws(rng, 100, 6, apart=0.0)
    found = Baseline.learn(values, segments, 100)
    own = spread_of(values, segments, 100).middle
    assert np.std(found.middles[:100]) < 0.35 * np.std(own)
    assert np.std(np.log(found.scales)) < 0.25


@pytest.mark.parametrize("seed", range(4))
def test_shrunk_middles_are_nearer_to_the_truth_than_medians_and_than_the_whole(seed):
    rng = np.random.default_rng(seed)
    values, segments, middles = draws(rng, 200, 5, apart=0.7)
    found = Baseline.learn(values, segments, 200).middles[:200]
    medians = spread_of(values, segments, 200).middle

    def error(told):
        return np.mean((told - middles) ** 2)

    assert error(found) < 0.9 * error(medians)
    assert error(found) < 0.9 * error(np.full(200, np.median(values)))


def test_a_row_is_judged_without_itself():
    """The oracle: learn the segment's middle and spread from the other rows, with the prior of all."""
    rng = np.random.default_rng(2)
    values, segments, _ = draws(rng, 40, 7, apart=3.0)
    found = Baseline.learn(values, segments, 40)
    left_out = found.left_out(values, segments)
    for row in (0, 19, 200):
        rest = np.flatnonzero((segments == segments[row]) & (np.arange(len(values)) != row))
        alone = spread_of(values[rest], np.zeros(len(rest), dtype=np.int64), 1)
        middle, scale = found.prior.posterior(alone)
        assert left_out[row] == pytest.approx((values[row] - middle[0]) / scale[0])


def test_the_only_row_of_a_segment_is_compared_with_the_other_segments():
    rng = np.random.default_rng(3)
    values, segments, _ = draws(rng, 30, 50, apart=2.0)
    values = np.append(values, [40.0, 0.0])
    segments = np.append(segments, [30, 31])
    found = Baseline.learn(values, segments, 32).left_out(values, segments)
    assert abs(found[-2]) > 10
    assert abs(found[-1]) < 2


def test_rows_without_a_segment_have_the_spread_between_segments_too():
    rng = np.random.default_rng(4)
    values, segments, _ = draws(rng, 60, 80, apart=9.0)
    found = Baseline.learn(values, segments, 60)
    relative = found.relative(np.array([20.0, 0.0]), np.array([-1, -1]))
    assert abs(relative[0]) < 3
    assert found.scales[-1] > 5


def test_there_and_back():
    rng = np.random.default_rng(5)
    values, segments, _ = draws(rng, 5, 100, apart=4.0)
    found = Baseline.learn(values, segments, 5)
    np.testing.assert_allclose(found.absolute(found.relative(values, segments), segments), values)


def test_missing_cells_stay_missing_and_do_not_count():
    rng = np.random.default_rng(6)
    values, segments, _ = draws(rng, 6, 20, apart=4.0)
    with_gaps = np.append(values, [np.nan, np.nan])
    there = np.append(segments, [0, -1])
    one = Baseline.learn(values, segments, 6)
    other = Baseline.learn(with_gaps, there, 6)
    np.testing.assert_array_equal(one.middles, other.middles)
    assert np.isnan(other.left_out(with_gaps, there)[-2:]).all()


def test_a_segment_of_equal_values_has_a_spread():
    values = np.concatenate([np.full(40, 5.0), np.random.default_rng(0).normal(size=200)])
    segments = np.concatenate([np.zeros(40, dtype=np.int64), 1 + np.arange(200) % 4])
    found = Baseline.learn(values, segments, 5)
    assert np.isfinite(found.left_out(values, segments)).all()
    assert (found.scales > 0).all()


def test_spread_is_the_median_distance():
    values = np.array([1.0, 2, 3, 4, 100])
    found = spread_of(values, np.zeros(5, dtype=np.int64), 1)
    assert found.middle[0] == 3
    assert np.exp(found.log_spread[0]) == pytest.approx(TO_SIGMA)


def test_form_in_which_values_are_compared():
    rng = np.random.default_rng(7)
    segments = np.repeat(np.arange(3), 500)
    scale = np.array([1.0, 10.0, 100.0])[segments]
    assert chosen_bend(scale * rng.lognormal(0, 0.8, size=1500), segments, 3) == "logarithm"
    assert chosen_bend(50 * scale + scale * rng.normal(size=1500), segments, 3) == "as it is"
    assert chosen_bend(rng.gamma(2, size=1500), segments, 3) == "square root"
    with_zeros = np.where(rng.random(1500) < 0.05, 0.0, rng.lognormal(0, 0.8, size=1500))
    assert chosen_bend(with_zeros, segments, 3) == "square root"


def test_steps_are_seen_where_they_are_coarse():
    rng = np.random.default_rng(8)
    segments = np.repeat(np.arange(3), 500)
    assert step_of(rng.poisson(2.0, size=1500).astype(float), segments, 3) == 1.0
    assert step_of(rng.normal(size=1500).round(2), segments, 3) == 0.0


def test_few_is_where_leaving_out_stops():
    """A segment with one row more is judged by its whole median: the two hardly differ."""
    rng = np.random.default_rng(9)
    values, segments, _ = draws(rng, 30, FEW + 1, apart=2.0)
    found = Baseline.learn(values, segments, 30)
    np.testing.assert_array_equal(found.left_out(values, segments), found.relative(values, segments))
