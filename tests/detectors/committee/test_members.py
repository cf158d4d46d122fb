"""Members: shares add up to scores, formulas agree with slow ones, each finds what it is there for."""

import numpy as np
import pytest
from oracles.committee_oracles import neighbour_shares, pair_surprise, rarity, rest_of_column

from tellwhy.detectors.committee.column_law import ColumnLaw
from tellwhy.detectors.committee.committee import MEMBERS, Training
from tellwhy.detectors.committee.members import (
    ColumnScales,
    Dependence,
    Gaussian,
    Neighbours,
    RarePairs,
    Tails,
    Units,
    _judge_odd_together,
    excess,
)


def mixed_rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n, 3))
    numbers[:, 1] += 2 * numbers[:, 0]
    labels = np.eye(3)[rng.choice(3, n, p=[0.6, 0.3, 0.1])]
    flags = (rng.random((n, 1)) < 0.3).astype(float)
    return np.column_stack([numbers, labels, flags])


@pytest.mark.parametrize("name", list(MEMBERS))
def test_shares_add_up_to_scores(name):
    X = mixed_rows()
    rows = np.arange(len(X))
    member = MEMBERS[name](Training(X, rows, rows))
    odd = X[:50] + 5 * np.random.default_rng(1).normal(size=(50, X.shape[1]))
    for given, points in ((X, rows), (odd, None)):
        np.testing.assert_allclose(
            member.shares(given, points).sum(axis=1), member.score(given, points), rtol=1e-9
        )


@pytest.mark.parametrize("name", list(MEMBERS))
def test_rows_are_judged_one_by_one(name):
    X = mixed_rows()
    rows = np.arange(len(X))
    member = MEMBERS[name](Training(X, rows, rows))
    alone = np.concatenate([member.score(row[None]) for row in X[:7]])
    np.testing.assert_allclose(member.score(X)[:7], alone, rtol=1e-9)


@pytest.mark.parametrize("squeezed", [False, True])
def test_neighbours_agree_with_the_slow_version(squeezed):
    X = np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 10.0, 0.1]
    member = Neighbours.learn(X, np.arange(40), 4, squeezed=squeezed)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    Z = np.sign(Z) * np.log1p(np.abs(Z)) if squeezed else Z
    everyone = np.arange(len(X))
    np.testing.assert_allclose(member.shares(X, everyone), neighbour_shares(Z, Z, 4, everyone), rtol=1e-9)
    np.testing.assert_allclose(member.shares(X), neighbour_shares(Z, Z, 4), rtol=1e-6, atol=1e-9)


def test_dependence_is_the_residual_given_the_others():
    X = np.random.default_rng(0).normal(size=(500, 4)) @ np.random.default_rng(1).normal(size=(4, 4))
    member = Dependence.learn(X, np.arange(500))
    Z = member.units.of(X)
    for j in range(4):
        rest = rest_of_column(Z, j, 0.01 + 0.1 * 4 / 500)
        np.testing.assert_allclose(Z @ member.weights[:, j], rest, rtol=1e-8, atol=1e-10)


def test_gaussian_is_the_mahalanobis_distance():
    X = np.random.default_rng(0).normal(size=(5000, 3)) @ [[1, 0.5, 0], [0, 1, 0], [0, 0, 4]]
    member = Gaussian.learn(X, np.arange(len(X)))
    D = X[:9] - X.mean(axis=0)
    expected = [np.sqrt(d @ np.linalg.solve(np.cov(X.T), d)) for d in D]
    np.testing.assert_allclose(member.score(X[:9]), expected, rtol=5e-3)


def test_pairs_agree_with_the_slow_version():
    rng = np.random.default_rng(3)
    present = rng.random((60, 4)) < 0.5
    present[:, 1] &= ~present[:, 0] | (rng.random(60) < 0.05)  # hardly ever with column 0
    member = RarePairs.learn(present.astype(float))
    expected = excess(np.array([[pair_surprise(present, 0, 1)]]), 6)[0, 0]
    count = sum(row[0] and row[1] for row in present)
    assert count <= 3
    assert member.surprises[0, 1] == pytest.approx(expected)
    assert member.surprises[1, 0] == member.surprises[0, 1]
    assert (np.diag(member.surprises) == 0).all()


def test_a_pair_that_many_rows_have_makes_none_of_them_odd():
    """Labels that depend on each other: 20 of 2,000 rows have a pair that chance would give 500."""
    first = np.arange(2000) < 1000
    second = ~first
    second[:20] = True
    score = RarePairs.learn(np.column_stack([first, second]).astype(float)).score(np.ones((1, 2)))[0]
    assert score == pytest.approx(np.log(2000 / 20))


def test_a_rare_label_is_not_a_rare_pair():
    rng = np.random.default_rng(0)
    present = np.column_stack([rng.random(2000) < 0.5, np.arange(2000) < 3]).astype(float)
    assert RarePairs.learn(present).score(np.array([[1.0, 1.0]]))[0] < 0.01


def test_few_values_are_judged_by_how_rare_they_are():
    column = [1.0] * 600 + [2.0] * 300 + [3.0] * 90 + [4.0] * 10
    law = ColumnLaw.learn(np.array(column))
    for value in (1.0, 2.0, 3.0, 4.0):
        assert law.surprise(np.array([value]))[0] == pytest.approx(rarity(column, value), abs=1e-12)


def test_values_that_no_row_had_are_odder_than_any_and_stay_in_order():
    law = ColumnLaw.learn(np.array([0.0] * 500 + [1.0] * 400 + [2.0] * 100))
    inside, near, far = law.surprise(np.array([1.5, 3.0, 999.0]))
    assert law.surprise(np.array([2.0]))[0] < inside <= near < far


def test_numbers_far_out_are_as_surprising_as_their_tail_says():
    rng = np.random.default_rng(0)
    law = ColumnLaw.learn(rng.exponential(size=20_000))
    # Two-sided: half of the surprise's probability is left for the other side.
    for level in (0.9, 0.99, 0.999):
        at = -np.log1p(-level)
        assert law.surprise(np.array([at]))[0] == pytest.approx(at - np.log(2), abs=0.25)


def test_sides_of_a_symmetric_column_are_alike():
    column = np.random.default_rng(0).normal(size=10_001)
    column = np.concatenate([column, -column])
    law = ColumnLaw.learn(column)
    at = np.array([0.1, 1.0, 2.0, 5.0])
    np.testing.assert_allclose(law.surprise(at), law.surprise(-at), rtol=1e-6, atol=1e-3)


def test_four_per_cent_of_equal_anomalies_do_not_hide_themselves():
    column = np.random.default_rng(0).normal(size=1000)
    column[:40] = -999.0
    tails = Tails.learn(np.column_stack([column, np.random.default_rng(1).normal(size=1000)]))
    shares = tails.shares(np.column_stack([column, np.zeros(1000)]))
    assert shares[:40, 0].min() > 8
    assert np.median(shares[40:, 0]) < 0.01


def test_units_of_two_values_follow_their_rarity():
    X = np.zeros((1000, 1))
    X[:1] = 5.0
    units = Units.learn(X, np.arange(1, 1000))
    assert 3.0 < (units.of(np.array([[5.0]])) - units.of(np.array([[0.0]]))).item() < 4.0


def test_scales_take_away_offsets_and_powers_of_ten():
    X = np.random.default_rng(0).normal(size=(500, 2))
    plain = ColumnScales.learn(X).of(X)
    far = X * [1e-200, 1e200] + [0.0, 3e201]
    np.testing.assert_allclose(ColumnScales.learn(far).of(far), plain, rtol=1e-6, atol=1e-9)
    assert np.isfinite(ColumnScales.learn(X).of(np.array([[1e308, -1e308]]))).all()


def test_very_wide_tables_are_judged_column_by_column():
    """Correlations of more columns than can be learned are left out; the cost stays that of the columns."""
    X = np.random.default_rng(0).normal(size=(80, 600))
    everyone = np.arange(80)
    gaussian = Gaussian.learn(X, everyone)
    expected = np.sqrt((((X - X.mean(axis=0)) / X.std(axis=0)) ** 2).sum(axis=1))
    np.testing.assert_allclose(gaussian.score(X), expected, rtol=1e-5)
    dependence = Dependence.learn(X, everyone)
    assert len(dependence.judged) == 0
    assert (dependence.score(X) == 0).all()
    assert (dependence.shares(X) == 0).all()


def test_labels_and_columns_of_zeros_are_no_broken_dependence():
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [rng.normal(size=300), rng.random(300) < 0.1, np.where(rng.random(300) < 0.7, 0, 5.5)]
    )
    X[:, 2] += (X[:, 2] > 0) * rng.normal(size=300)
    assert Dependence.learn(X, np.arange(300)).judged.tolist() == [0]


def test_errors_of_a_line_that_grow_with_a_product_are_not_odd():
    """total = price × quantity: the linear prediction is far off for large totals, which is no anomaly."""
    rng = np.random.default_rng(0)
    price = rng.lognormal(3, 1, 4_000)
    quantity = rng.integers(1, 20, 4_000).astype(float)
    X = np.column_stack([price, quantity, price * quantity])
    member = Dependence.learn(X, np.arange(4_000))
    assert member.score(X).max() < 10


def test_columns_that_are_odd_in_the_same_rows_tell_each_other_as_far_as_that_is_sure():
    """Of nine rows that are odd in both columns of 1,000, six are sure: one standard error is taken off."""
    surprises = np.zeros((1000, 3))
    surprises[:9, :2] = 5.0
    surprises[100:108, 2] = 5.0
    told = _judge_odd_together(surprises)
    assert told[0, 1] == told[1, 0] == pytest.approx(1 - np.log(6 / 9) / np.log(9 / 1000))
    assert told[0, 2] == told[2, 1] == 0.0
