"""What a time of the week usually has, only where the data show it."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.checks.in_time.seasons import find_season


def clock(n, freq, start="2024-03-01 05:00"):
    return pd.date_range(start, periods=n, freq=freq)


def seconds(times):
    return times.to_numpy().astype("datetime64[ns]").astype(np.int64) / 1e9


def by_day(times):
    return 5 * np.sin(2 * np.pi * (times.hour + times.minute / 60) / 24).to_numpy()


def at_work(times):
    return 4.0 * ((times.day_of_week < 5) & (times.hour >= 8) & (times.hour < 18))


@pytest.mark.parametrize("freq", ["10min", "30min", "1h"])
def test_the_hour_of_the_day(freq):
    times = clock(int(pd.Timedelta("8D") / pd.Timedelta(freq)), freq)
    noise = np.random.default_rng(0).normal(size=len(times))
    season = find_season(by_day(times) + noise, seconds(times))
    assert season.kind == "hour of the day"
    rest = season.level - by_day(times)
    assert np.abs(rest - np.median(rest)).mean() < 0.6


def test_the_hour_of_the_week():
    times = clock(24 * 7 * 6, "1h")
    noise = np.random.default_rng(1).normal(size=len(times))
    season = find_season(at_work(times) + by_day(times) + noise, seconds(times))
    assert season.kind == "hour of the week"
    is_weekend = (times.day_of_week >= 5) & (times.hour == 12)
    is_workday = (times.day_of_week < 5) & (times.hour == 12)
    assert season.level[is_workday].mean() - season.level[is_weekend].mean() == pytest.approx(4, abs=1)


def test_the_day_of_the_week():
    times = clock(200, "1D")
    values = 6.0 * (times.day_of_week >= 5) + np.random.default_rng(2).normal(size=200)
    assert find_season(values, seconds(times)).kind == "day of the week"


@pytest.mark.parametrize("seed", range(10))
def test_noise_has_no_season(seed):
    rng = np.random.default_rng(seed)
    times = clock(24 * 7 * 5, "1h")
    walk = rng.normal(size=len(times)).cumsum()
    assert find_season(rng.normal(size=len(times)), seconds(times)).kind == ""
    assert find_season(walk, seconds(times)).kind == ""


def test_too_few_cycles_have_no_season():
    times = clock(24 * 3, "1h")
    assert find_season(by_day(times), seconds(times)).kind == ""
    week = clock(24 * 14, "1h")
    assert find_season(at_work(week) + by_day(week), seconds(week)).kind == "hour of the day"


def test_one_odd_week_does_not_move_what_is_usual():
    times = clock(24 * 7 * 5, "1h")
    values = at_work(times) + by_day(times) + 0.5 * np.random.default_rng(3).normal(size=len(times))
    odd = values.copy()
    odd[200:260] += 50
    before = find_season(values, seconds(times))
    after = find_season(odd, seconds(times))
    assert after.kind == before.kind
    assert np.abs(after.level - before.level).max() < 2


def test_spread_depends_on_the_time_too():
    times = clock(24 * 30, "1h")
    spread = np.where((times.hour >= 8) & (times.hour < 18), 4.0, 1.0)
    values = by_day(times) * 3 + spread * np.random.default_rng(4).normal(size=len(times))
    scale = find_season(values, seconds(times)).scale
    assert scale[spread == 4].mean() / scale[spread == 1].mean() > 2
