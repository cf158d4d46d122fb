"""Standardised columns: extreme scales and offsets, constant columns."""

import numpy as np
import pytest

from tellwhy.core.arrays import ColumnSpread, Scaling
from tellwhy.core.errors import InvalidInput

X = np.random.default_rng(0).normal(size=(50, 3)) * [1.0, 5.0, 0.2] + [0.0, 3.0, -1.0]


def test_means_and_standard_deviations():
    scaling = Scaling.of(X)
    np.testing.assert_allclose(scaling.centre, X.mean(axis=0), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(scaling.scale, X.std(axis=0), rtol=1e-12)
    np.testing.assert_allclose(scaling.apply(X), (X - X.mean(axis=0)) / X.std(axis=0), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("factor", [1e300, 1e-300, 7.0])
def test_scales_at_the_ends_of_floating_point_cancel(factor):
    np.testing.assert_allclose(
        Scaling.of(X * factor).apply(X * factor), Scaling.of(X).apply(X), rtol=1e-9, atol=1e-12
    )


def test_offsets_cancel():
    np.testing.assert_allclose(Scaling.of(X + 1e9).apply(X + 1e9), Scaling.of(X).apply(X), atol=1e-5)


def test_constant_columns_are_exactly_zero_and_take_the_median_scale():
    rows = np.column_stack([X, np.full(50, 0.1), np.full(50, 1e9 + 0.3)])
    scaling = Scaling.of(rows)
    assert (scaling.apply(rows)[:, 3:] == 0).all()
    np.testing.assert_array_equal(scaling.scale[3:], np.median(scaling.scale[:3]))


def test_equal_rows_are_refused():
    with pytest.raises(InvalidInput, match="All rows are equal"):
        Scaling.of(np.full((5, 2), 3.0))


def test_no_scaling():
    np.testing.assert_array_equal(Scaling.none(3).apply(X), X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ordinary_columns_have_numpys_own_bits(dtype):
    rows = (X * [1e-7, 1.0, 1e9]).astype(dtype)
    spread = ColumnSpread.of(rows)
    np.testing.assert_array_equal(spread.mean, rows.mean(axis=0, dtype=np.float64))
    np.testing.assert_array_equal(spread.deviation, rows.std(axis=0, dtype=np.float64))
    assert spread.mean.dtype == spread.deviation.dtype == np.float64
    assert spread.varies.all()


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9 + 0.3, -1e308, 5e-324])
@pytest.mark.parametrize("n", [1, 3, 499])
def test_equal_numbers_have_no_spread_at_all(value, n):
    spread = ColumnSpread.of(np.full((n, 1), value))
    assert (spread.mean[0], spread.deviation[0], spread.varies[0]) == (value, 0.0, False)


def test_the_ends_of_floating_point_neither_overflow_nor_vanish():
    column = np.array([-1.0, 0.0, 1.0, 1.0])
    for factor in (1.7e308, 1e-300):
        spread = ColumnSpread.of(column[:, None] * factor)
        np.testing.assert_allclose(spread.mean[0], factor / 4, rtol=1e-12)
        np.testing.assert_allclose(spread.deviation[0], factor * column.std(), rtol=1e-12)
    least = ColumnSpread.of(np.array([[0.0], [5e-324]]))  # its spread cannot be told from 0
    assert not least.varies[0]


def test_a_scale_for_constant_columns_may_be_given():
    rows = np.column_stack([X, np.full(50, 0.1)])
    np.testing.assert_array_equal(Scaling.of(rows, constant=1.0).scale, [*Scaling.of(X).scale, 1.0])
    equal = Scaling.of(np.full((5, 2), 0.1), constant=1.0)
    np.testing.assert_array_equal(equal.apply(np.full((1, 2), 0.1)), [[0.0, 0.0]])
