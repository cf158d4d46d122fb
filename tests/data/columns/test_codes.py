from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tellwhy.data.columns.codes import (
    BooleanCode,
    CategoryCode,
    DateCode,
    NumberCode,
    compressed,
    expand,
    measure_rarity,
    measure_scale,
)
from tellwhy.data.columns.reading import Labels, read_labels


def dates(*texts):
    return np.array(texts, dtype="datetime64[us]")


def every(step, n, start="2020-01-01"):
    return np.datetime64(start, "us") + np.arange(n) * np.timedelta64(step, "m")


def test_rarity_is_the_two_sided_normal_quantile():
    draws = np.abs(np.random.default_rng(0).normal(size=400_000))
    for share in (0.5, 0.1, 0.01):
        assert np.mean(draws > measure_rarity(np.array([share]))[0]) == pytest.approx(share, rel=0.05)


def test_robust_scale_of_a_normal_column_is_its_standard_deviation():
    values = np.random.default_rng(0).normal(5, 3, 200_000)
    values[:2000] = 1e9
    centre, scale = measure_scale(values)
    assert centre == pytest.approx(5, abs=0.1)
    assert scale == pytest.approx(3, rel=0.03)


def test_robust_scale_where_nearly_all_rows_share_a_value():
    values = np.array([0.0] * 97 + [1.0] * 3)
    assert measure_scale(values) == (0.0, pytest.approx(np.std(values)))
    assert measure_scale(np.array([7.0, 7.0])) == (7.0, 1.0)
    noisy = 1e9 + np.array([0.0] * 97 + [1e-7, 1e-7, 100.0])
    assert measure_scale(noisy)[1] == pytest.approx(np.std(noisy))


@pytest.mark.parametrize("values", [[-1.0, 1.0] * 50, [0.0] * 99 + [1.0]])
def test_robust_scale_does_not_overflow(values):
    centre, scale = measure_scale(np.array(values))
    assert measure_scale(np.array(values) * 1.7e308) == (centre * 1.7e308, pytest.approx(scale * 1.7e308))


def test_compression_keeps_order_meets_at_three_and_is_undone():
    z = np.linspace(-50, 50, 10_001)
    u = compressed(z)
    assert (np.diff(u) > 0).all()
    np.testing.assert_array_equal(u[np.abs(z) <= 3], z[np.abs(z) <= 3])
    assert np.abs(np.diff(u)).max() < 1.001 * (z[1] - z[0])  # no jump, slope at most 1
    np.testing.assert_allclose(expand(u), z, rtol=1e-12)


CYCLES = {
    "hours over a month": (every(60, 24 * 30), ("time of day", "day of week")),
    "hours over years": (every(60 * 7, 5000), ("time of day", "day of week", "day of year")),
    "days over years": (every(24 * 60, 1000), ("day of week", "day of year")),
    "days over a week": (every(24 * 60, 7), ()),
    "hours over one day": (every(60, 24), ()),
    "hours over a day and a half": (every(60, 36), ()),
    "days over ten days": (every(24 * 60, 11), ()),
    "days over fifteen days": (every(24 * 60, 15), ("day of week",)),
    "firsts of the month": (
        np.arange("2000-01", "2010-01", dtype="datetime64[M]").astype("datetime64[us]"),
        ("day of year",),
    ),
    "firsts of the year": (np.arange("1900", "2010", dtype="datetime64[Y]").astype("datetime64[us]"), ()),
}


@pytest.mark.parametrize(("values", "cycles"), [pytest.param(*v, id=k) for k, v in CYCLES.items()])
def test_cycles_are_used_where_dates_resolve_them(values, cycles):
    assert DateCode.learn(values, slice(None)).cycles == cycles


def test_cycles_meet_at_midnight_and_share_one_variance():
    values = every(37, 40_000)
    code = DateCode.learn(values, slice(None))
    out = np.empty((len(values), code.width))
    code.write(values, out)
    assert np.var(out[:, 1:], axis=0).sum() == pytest.approx(1, rel=1e-6)
    block = np.empty((3, code.width))
    code.write(dates("2021-03-01T23:59", "2021-03-02T00:01", "2021-03-02T12:00"), block)
    time_of_day = block[:, 1:3]
    assert np.linalg.norm(time_of_day[0] - time_of_day[1]) < 0.02
    assert np.linalg.norm(time_of_day[0] - time_of_day[2]) > 1


def test_an_unusual_hour_stands_out_and_a_missing_date_does_not():
    rng = np.random.default_rng(0)
    office = every(24 * 60, 700) + rng.integers(9 * 60, 17 * 60, 700) * np.timedelta64(1, "m")
    code = DateCode.learn(office, slice(None))
    known = np.empty((len(office), code.width))
    code.write(office, known)
    out = np.empty((3, code.width))
    code.write(np.append(dates("2020-12-15T03:00", "2020-12-15T13:00"), np.datetime64("NaT")), out)
    hours = slice(1, 3)
    night, noon, missing = [np.linalg.norm(known[:, hours] - row[hours], axis=1).min() for row in out]
    assert night > 0.5 > 0.05 > noon
    assert missing == 0
    assert out[2, 0] == 0


@pytest.mark.parametrize("weekday", range(7))
def test_a_missing_date_is_put_on_the_most_common_day_of_the_week(weekday):
    """The centre of the circle is a place that no date has: a law of seven places would call it odd."""
    days = np.arange(np.datetime64("2026-01-05"), np.datetime64("2026-03-30"))  # begins on a Monday
    common = days[weekday::7]
    values = np.concatenate([days, common]).astype("datetime64[us]")
    code = DateCode.learn(values, slice(None))
    assert code.cycles == ("day of week",)
    out = np.empty((2, code.width))
    code.write(np.append(common[:1].astype("datetime64[us]"), np.datetime64("NaT", "us")), out)
    np.testing.assert_array_equal(out[0, 1:], out[1, 1:])


def test_the_day_of_the_week_does_not_depend_on_the_hour():
    code = DateCode.learn(every(60 * 7, 5000), slice(None))
    out = np.empty((2, code.width))
    code.write(dates("2021-03-01T00:10", "2021-03-01T23:50"), out)
    for cycle in ("day of week", "day of year"):
        at = 1 + 2 * code.cycles.index(cycle)
        np.testing.assert_array_equal(out[0, at : at + 2], out[1, at : at + 2])


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_booleans_come_back_whichever_is_usual(share):
    values = (np.random.default_rng(0).random(200) < share).astype(float)
    code = BooleanCode.learn(values)
    out = np.empty((200, 1))
    code.write(values, out)
    assert code.usual == (share > 0.5)
    np.testing.assert_array_equal(code.decode(out), values == 1)


def test_a_typical_deviation_from_a_constant_sets_the_scale():
    code = NumberCode.around_constant(5.0, np.array([5.0, 6.0, 4.0, 6.0, 1005.0, np.nan]), 100)
    out = np.empty((3, 1))
    code.write(np.array([5.0, 6.0, 4.0]), out)
    as_odd = measure_rarity(np.array([0.5 / 100.5]))[0]  # what none of a hundred rows showed
    np.testing.assert_allclose(out[:, 0], [0, as_odd, -as_odd])


def test_cells_that_say_missing_and_cells_that_are_count_as_one_label():
    said = Labels(np.array([0] * 3 + [1] * 5 + [-1] * 2), ("(missing)", "a"))
    plain = Labels(np.array([-1] * 5 + [0] * 5), ("a",))
    code, other = CategoryCode.learn(said, 9), CategoryCode.learn(plain, 9)
    assert dict(zip(code.labels, code.scales, strict=True)) == dict(
        zip(other.labels, other.scales, strict=True)
    )


def test_labels_that_a_sample_may_lack_are_others_in_a_large_table():
    """Detectors learn from 5,000 rows: of 20,000, a label of 20 rows may not be among them."""
    names = np.repeat([f"user {i}" for i in range(500)], 20).tolist() + ["guest"] * 10_000
    large = CategoryCode.learn(read_labels(pd.DataFrame({"name": names}), "name"), 100)
    assert large.labels == ("guest", "(other)")
    small = CategoryCode.learn(read_labels(pd.DataFrame({"name": names[:4_000]}), "name"), 100)
    assert len(small.labels) == 101
