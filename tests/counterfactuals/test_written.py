"""Numbers written with few digits: what is shown is what was scored, and it stays where normal values are."""

import numpy as np
import pytest

from tellwhy.counterfactuals.user_rows import Limits, written
from tellwhy.words.numbers import LARGE, write_number

ANYTHING = Limits(np.array([True]), np.zeros(1), np.array([-np.inf]), np.array([np.inf]))


def one(x, y, is_normal, limits=ANYTHING):
    """The written version of a single number, and whether it is as shown."""
    told = written(np.array([[x]]), np.array([[y]]), limits, lambda points, rows: is_normal(points[:, 0]))
    return float(told.points[0, 0]), bool(told.as_shown[0])


def read_back(text):
    """The number that a text says: 67.32 million is 67,320,000."""
    number, _, size = text.partition(" ")
    return float(round(float(number) * LARGE[size])) if size else float(number)


@pytest.mark.parametrize("scale", 10.0 ** np.arange(-8, 12))
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_the_shown_number_is_the_scored_number(scale, sign):
    rng = np.random.default_rng(0)
    for level in sign * scale * rng.uniform(1.0, 10.0, 40):
        value, as_shown = one(3.0 * level, level, lambda v, at=level: sign * v <= sign * at)
        assert as_shown
        assert sign * value <= sign * level  # on the normal side
        assert read_back(write_number(value)) == value
        assert abs(value - level) <= 1e-3 * abs(level)  # and no farther than four digits are


def test_plain_rounding_is_taken_where_it_will_do():
    assert one(9.0, 2.0 - 1e-9, lambda v: v <= 2.0) == (2.0, True)
    assert one(9.0, 2.0 - 1e-9, lambda v: v < 2.0) == (1.999, True)
    assert one(1.0, 2.0004, lambda v: v >= 2.0004) == (2.001, True)


def test_a_number_goes_further_where_the_first_way_to_write_it_is_not_normal():
    tried = []

    def is_normal(v):
        tried.extend(v.tolist())
        return v <= 1.9965

    assert one(9.0, 2.0 - 1e-9, is_normal) == (1.995, True)
    assert tried[:5] == [2.0, 1.999, 1.998, 1.997, 1.995]


def test_more_digits_are_no_version_to_show():
    """Between 0.1234561 and 0.1234569 there is no number of four digits."""
    value, as_shown = one(5.0, 0.1234565, lambda v: (v > 0.1234561) & (v < 0.1234569))
    assert not as_shown
    assert value == 0.1234565
    value, as_shown = one(5.0, np.pi, lambda v: v == np.pi)
    assert (value, as_shown) == (np.pi, False)


def test_nothing_is_told_that_is_not_normal():
    value, as_shown = one(5.0, 1.0, lambda v: np.zeros(len(v), dtype=bool))
    assert np.isnan(value)
    assert not as_shown


def test_steps_and_ranges():
    whole = Limits(np.array([True]), np.ones(1), np.array([0.0]), np.array([7.0]))
    assert one(40.0, 6.7, lambda v: v <= 6.7, whole) == (6.0, True)
    assert one(-3.0, 6.2, lambda v: v >= 6.2, whole) == (7.0, True)
    assert np.isnan(one(-3.0, 6.2, lambda v: v > 7.0, whole)[0])  # 8 was never seen
    assert np.isnan(one(40.0, 6.7, lambda v: v == 6.7, whole)[0])  # a part of a whole is no value
    days = Limits(np.array([True]), np.array([86_400.0]), np.array([-np.inf]), np.array([np.inf]))
    assert one(1e9, 86_400.0 * 3.4, lambda v: v <= 86_400.0 * 3.4, days) == (86_400.0 * 3, True)
    edge = Limits(np.array([True]), np.zeros(1), np.array([1.23456]), np.array([9.0]))
    assert one(9.5, 1.23456, lambda v: v <= 1.23456, edge) == (1.23456, False)  # 1.234 is out of range


def test_a_change_that_reads_like_no_change_is_not_shown():
    value, as_shown = one(3.14161, 3.14159, lambda v: v <= 3.1416)
    assert (value, as_shown) == (3.141, True)  # 3.142 would read "3.142 instead of 3.142"


def test_only_changed_numbers_are_written():
    limits = Limits(np.array([True, True, False]), np.zeros(3), np.full(3, -9.0), np.full(3, 9.0))
    X = np.array([[1.23456, 8.0, 1.23456]])
    Y = np.array([[1.23456, 1.98765, 2.23456]])
    told = written(X, Y, limits, lambda points, rows: np.ones(len(points), dtype=bool))
    np.testing.assert_array_equal(told.points, [[1.23456, 1.988, 2.23456]])


def test_rows_are_told_apart_in_any_number_of_batches(monkeypatch):
    rng = np.random.default_rng(0)
    levels = rng.uniform(1.0, 9.0, (50, 1))
    X = levels + 5.0

    def is_normal(points, rows):
        return points[:, 0] <= levels[rows, 0]

    told = written(X, levels, ANYTHING, is_normal)
    assert told.as_shown.all()
    assert (told.points <= levels).all()
    monkeypatch.setattr("tellwhy.counterfactuals.user_rows._BATCH_BYTES", 2_000)
    np.testing.assert_array_equal(written(X, levels, ANYTHING, is_normal).points, told.points)
