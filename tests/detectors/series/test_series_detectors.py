"""The pieces that detectors of events are made of, beside slow twins, and what must be true of them."""

import numpy as np
import pytest
from oracles import series_oracles as slow

from tellwhy.detectors.series import _compiled, changes, cycles, evidence, measures, monitoring
from tellwhy.detectors.series.events import find_events


@pytest.mark.parametrize("known", [0, 60])
@pytest.mark.parametrize("width", [1, 4, 20])
def test_the_nearest_earlier_window(width, known):
    x = np.random.default_rng(width).normal(size=150)
    x[40:80] = np.round(x[40:80])  # ties
    means = evidence.compute_window_means(x, width)
    keys = means.sum(axis=1) / np.sqrt(means.shape[1])
    places = np.arange(width - 1, known or len(x))
    found = _compiled.find_nearest_earlier(means, keys, places, width, known)
    np.testing.assert_allclose(found, slow.nearest_earlier(means, places, width, known), rtol=1e-12)


def test_runs_means_and_two_windows():
    x = np.random.default_rng(0).integers(0, 3, 200).astype(float)
    np.testing.assert_array_equal(measures.count_run_lengths(x), slow.run_lengths(x))
    np.testing.assert_allclose(measures.average_until(x, 7), slow.mean_until(x, 7), rtol=1e-12)
    np.testing.assert_allclose(
        evidence.compute_window_means(x, 20)[19:], slow.window_means(x, 20, 8), rtol=1e-12
    )
    found = changes.compare_two_windows(x, 16)
    expected = slow.two_windows(x, 16)
    np.testing.assert_allclose(found[16:-17], expected[16:-17], atol=1e-12)


def test_expected_false_events():
    told = np.random.default_rng(0).exponential(size=1000)
    found = measures.log_expected(told, 20, slice(100, None), n_judged=900, prior=(24.0, 0.4), lowest=-9.0)
    blocks = told[100:].reshape(45, 20).max(axis=1)
    expected = [slow.expected_false(value, blocks, 45, (24.0, 0.4)) for value in told]
    np.testing.assert_allclose(10**found, expected, rtol=1e-10)


def test_a_fine_profile_is_learned_where_left_out_cycles_ask_for_it():
    rng = np.random.default_rng(0)
    minute = np.arange(288 * 20) % 288 * 5
    switched = (minute >= 520).astype(float) + 0.05 * rng.normal(size=len(minute))  # from 08:40 on
    found = cycles.find_cycle(switched, 300.0)
    assert found is not None
    assert found.period == 288
    assert abs(found.profile[103]) < 0.1  # 08:35
    assert abs(found.profile[104] - 1) < 0.1  # 08:40
    wave = np.sin(2 * np.pi * minute / 1440) + rng.normal(size=len(minute))
    smooth = cycles.find_cycle(wave, 300.0)
    assert smooth is not None
    assert len(np.unique(smooth.profile)) <= 96


def test_a_year_is_a_cycle_where_it_was_seen_three_times():
    rng = np.random.default_rng(0)
    day = np.arange(365 * 4)
    warm = 10 * np.sin(2 * np.pi * day / 365.2425) + rng.normal(size=len(day))
    found = cycles.find_cycle(warm, 86_400.0)
    assert found is not None
    assert 355 <= found.period <= 375
    assert np.abs(warm - found.profile).mean() < 1.5


def test_the_size_of_a_course_is_one_and_none_where_it_is_left_out():
    x = np.sin(2 * np.pi * np.arange(2000) / 50)
    x[1000:1050] = 0.0
    size = changes.measure_course_size(x, cycles.Cycle(50, np.sin(2 * np.pi * np.arange(2000) / 50)))
    np.testing.assert_allclose(size[200:900], 1.0, atol=0.05)
    assert size[1025] < 0.25


def test_what_the_other_channels_leave():
    rng = np.random.default_rng(0)
    a = rng.normal(size=1000)
    X = np.column_stack([a, 2 * a + 0.1 * rng.normal(size=1000), rng.normal(size=1000)])
    rest = changes.predict_rest_of_others(X, 1)
    assert rest is not None
    assert 0.05 < rest.std() < 0.3
    assert changes.predict_rest_of_others(X, 2) is None


def test_events_do_not_change_with_units_and_the_order_of_channels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    X[700:740, 1] += 6.0
    plain = find_events(X)
    assert plain.events[0].is_told
    scaled = find_events(X * [1000.0, 0.01] + [5.0, -3.0])
    swapped = find_events(X[:, ::-1])
    for other, channels in ((scaled, (0, 1)), (swapped, (1, 0))):
        for a, b in zip(plain.events, other.events, strict=True):
            assert (a.start, a.end, a.named.kind) == (b.start, b.end, b.named.kind)
            assert b.channel == channels[a.channel]
            assert a.expected_false == pytest.approx(b.expected_false, rel=1e-6)


def test_the_past_alone_counts_for_novelty():
    x = np.random.default_rng(0).normal(size=600)
    later = x.copy()
    later[400:] += 9.0
    for width in (1, 10):
        found = evidence.distances(x, width)[:400]
        np.testing.assert_array_equal(found, evidence.distances(later, width)[:400])


def test_a_reference_that_drifts_is_said():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.cumsum(rng.normal(size=800)), rng.normal(size=800)])
    assert find_events(X, before=400, is_clean=True).drifting == (0,)
    assert not monitoring.estimate_drift_variance(X[:, 1], 400).any()
    assert monitoring.estimate_drift_variance(X[:, 0], 400)[-1] > 0
