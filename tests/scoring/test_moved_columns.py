"""Rows with one column moved: what changes, what never does, and the places of the moved columns."""

import numpy as np
import pytest

from tellwhy.scoring.moved_columns import LEAST_MOVED, MovedCells, MovedColumns, Naming, reciprocal_ranks


def drawn(X, owner=None, n=400, seed=0, known=None):
    owner = np.arange(X.shape[1]) if owner is None else np.asarray(owner)
    rng = np.random.default_rng(seed)
    return MovedColumns.drawn(X, owner, n, rng, known=X if known is None else known)


def test_one_column_of_each_row_moves_by_one_to_two_deviations():
    X = np.random.default_rng(0).normal(size=(50, 4)) * [1.0, 10.0, 0.1, 3.0]
    moved = drawn(X)
    change = moved.X - X[moved.origin]
    assert ((change != 0).sum(axis=1) == 1).all()
    assert (np.abs(change).argmax(axis=1) == moved.columns).all()
    steps = np.abs(change[np.arange(400), moved.columns]) / X.std(axis=0)[moved.columns]
    assert steps.min() >= 1
    assert steps.max() <= 2
    assert set(moved.columns) == {0, 1, 2, 3}
    assert (np.bincount(moved.origin) == 8).all()


def test_two_values_are_exchanged_and_constants_left_alone():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.where(rng.random(60) < 0.2, -1.5, 7.0), np.full(60, 3.0), rng.normal(size=60)])
    moved = drawn(X)
    pair = moved.columns == 0
    assert pair.any()
    assert set(moved.columns) == {0, 2}
    np.testing.assert_array_equal(moved.X[pair, 0] + X[moved.origin[pair], 0], 5.5)


def test_a_rare_one_of_two_values_is_not_taken():
    X = np.column_stack([np.r_[np.zeros(199), 1.0], np.random.default_rng(0).normal(size=200)])
    moved = drawn(X)
    first = moved.columns == 0
    assert first.any()
    assert np.abs(moved.X[first, 0] - X[moved.origin[first], 0]).max() <= 2 * X[:, 0].std()


def test_a_column_of_several_takes_what_another_row_has():
    rng = np.random.default_rng(0)
    levels = np.eye(3)[rng.integers(0, 3, 80)]
    X = np.column_stack([levels, rng.normal(size=80)])
    moved = drawn(X, owner=[0, 0, 0, 1])
    block = moved.columns == 0
    assert block.any()
    np.testing.assert_array_equal(moved.X[block, :3].sum(axis=1), 1.0)  # still one level each
    assert (moved.X[block, :3] != X[moved.origin[block], :3]).any(axis=1).all()
    np.testing.assert_array_equal(moved.X[block, 3], X[moved.origin[block], 3])


def test_all_known_rows_tell_how_much_a_column_changes():
    known = np.column_stack([np.r_[np.zeros(95), np.full(5, 10.0)], np.arange(100.0)])
    known[99, 0] = 4.0
    moved = drawn(known[:10], known=known)  # the first column never changes in these ten
    first = moved.columns == 0
    assert first.any()
    steps = np.abs(moved.X[first, 0]) / known[:, 0].std()
    assert steps.min() >= 1
    assert steps.max() <= 2


def test_nothing_to_move_gives_no_rows():
    assert len(drawn(np.ones((30, 2))).X) == 0


def test_the_order_of_the_columns_does_not_matter():
    X = np.random.default_rng(0).normal(size=(40, 5)) * np.arange(1, 6)
    order = np.array([3, 0, 4, 1, 2])
    one, other = drawn(X), drawn(X[:, order])
    np.testing.assert_allclose(one.X[:, order], other.X, rtol=1e-9)
    np.testing.assert_array_equal(one.columns, order[other.columns])


def test_equal_values_share_places():
    values = np.array([[5.0, 1, 1, 1], [5.0, 4, 3, 2], [1.0, 1, 1, 1], [1.0, 1.0, 0.0, 0.0]])
    np.testing.assert_allclose(reciprocal_ranks(values, np.array([0, 1, 3, 0])), [1.0, 0.5, 0.4, 1 / 1.5])


@pytest.mark.parametrize(("gain", "n", "expected"), [(1.0, 40, True), (0.0, 40, False), (1.0, 10, False)])
def test_relative_is_preferred_only_where_it_names_better_and_rows_are_enough(gain, n, expected):
    moved = MovedColumns(np.zeros((n, 2)), np.arange(n), np.zeros(n, dtype=int))
    values = np.tile([1.0, 2.0], (n, 1))  # the second column always has more
    usual = np.array([1.0, 1.0 + 4.0 * gain])
    assert LEAST_MOVED == 20
    assert Naming.of(moved, values, usual).prefers_relative is expected


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
