"""Cells moved in rows held out."""

import numpy as np
import pytest

from tellwhy.scoring.moved_columns import MovedCells


@pytest.mark.parametrize(("n", "n_moved"), [(3, 400), (1000, 1000), (20_000, 4000)])
def test_cells_are_moved_by_one_to_two_deviations_in_few_rows_and_in_many(n, n_moved):
    cells = MovedCells.drawn(n, 5, np.random.default_rng(0))
    assert len(cells.rows) == len(cells.columns) == len(cells.shifts) == n_moved
    assert set(cells.columns) == set(range(5))
    assert set(cells.rows) == set(range(min(n, n_moved)))
    assert 1.0 <= np.abs(cells.shifts).min() < np.abs(cells.shifts).max() <= 2.0
    assert abs(np.sign(cells.shifts).mean()) < 0.2


def test_one_cell_of_each_row_is_moved_and_the_table_is_not():
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(30, 4))
    before, cells = Z.copy(), MovedCells.drawn(30, 4, rng)
    gaps = cells.applied(Z) - Z[cells.rows]
    assert (np.count_nonzero(gaps, axis=1) == 1).all()
    np.testing.assert_allclose(gaps[np.arange(400), cells.columns], cells.shifts)
    np.testing.assert_array_equal(Z, before)


def test_surprise_is_the_mean_logarithm_of_the_share():
    cells = MovedCells(np.array([0, 1]), np.array([1, 0]), np.array([1.0, 1.0]))
    terms = np.array([[1.0, 3.0], [0.5, 0.0]])
    assert cells.surprise(terms) == pytest.approx(-(np.log(0.75) + np.log(1.0)) / 2)
    assert np.isfinite(cells.surprise(np.zeros((2, 2))))
