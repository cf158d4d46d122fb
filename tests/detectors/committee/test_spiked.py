"""Columns in which most rows have one value: the others are judged among themselves."""

import numpy as np
import pytest
from scipy.special import ndtri

from tellwhy.detectors import Committee, load
from tellwhy.detectors.committee.column_law import ColumnLaw, SpikedLaw, Straight, law_of


def spiked_column(rng, share, n=3_000, draw=None):
    """A column with this share of zeros, the others log-normal unless drawn otherwise."""
    column = np.zeros(n)
    rows = rng.choice(n, round((1 - share) * n), replace=False)
    column[rows] = np.exp(rng.normal(6, 1, len(rows))) if draw is None else draw(len(rows))
    return column


@pytest.mark.parametrize("share", [0.85, 0.95, 0.99])
def test_values_beside_a_spike_are_as_surprising_as_they_are_rare(share):
    column = spiked_column(np.random.default_rng(0), share, 20_000)
    surprise = law_of(column).surprise(column)
    assert (surprise[column == 0] == 0).all()
    for level in (2 * (1 - share) * 0.5, 2 * (1 - share) * 0.1):
        beyond = 2 * (surprise > -np.log(level)).mean()  # as if there were as many on the other side
        assert beyond == pytest.approx(level, rel=0.3), level


def test_a_value_far_from_the_others_beside_a_spike_is_odd_and_they_are_not():
    rng = np.random.default_rng(1)
    column = spiked_column(rng, 0.95, draw=lambda m: rng.normal(1_900, 300, m))
    law = law_of(column)
    assert isinstance(law, SpikedLaw)
    assert law.surprise(column).max() < np.log(len(column)) + 2
    assert law.surprise(np.array([10 * column.max()]))[0] > 20


def test_both_sides_of_a_spike_have_laws_of_their_own():
    rng = np.random.default_rng(2)
    column = spiked_column(rng, 0.9, draw=lambda m: rng.normal(5, 1, m))
    column[column > 0] *= np.where(rng.random((column > 0).sum()) < 0.1, -100.0, 1.0)
    law = law_of(column)
    low, high = law.surprise(np.array([-500.0, 500.0]))
    assert low < 6 < 20 < high  # −500 is usual below the spike, where 1 % of the rows are
    assert law.surprise(np.array([0.0]))[0] == 0


def test_no_law_beside_a_spike_where_the_tails_tell_enough():
    rng = np.random.default_rng(3)
    assert SpikedLaw.learn(rng.normal(size=500)) is None
    assert SpikedLaw.learn(np.zeros(500)) is None
    assert SpikedLaw.learn(spiked_column(rng, 0.6)) is None  # the last fifth holds no spike


def test_a_dozen_amounts_among_zeros_are_measured_and_few_codes_are_not():
    rng = np.random.default_rng(4)
    assert isinstance(law_of(spiked_column(rng, 0.99, 1_500)), SpikedLaw)
    codes = spiked_column(rng, 0.95, draw=lambda m: rng.choice([1.0, 2.0, 5.0], m))
    assert isinstance(law_of(codes), ColumnLaw)


def test_a_spike_is_as_far_from_the_others_as_they_are_rare():
    rng = np.random.default_rng(5)
    amounts = spiked_column(rng, 0.95)
    codes = spiked_column(rng, 0.95, draw=lambda m: rng.choice([1.0, 2.0, 5.0], m))
    X = np.column_stack([amounts, codes, -amounts])
    Z = Straight.learn(X, [law_of(column) for column in X.T]).of(X)
    assert (Z[X == 0] == 0).all()
    assert np.abs(Z[:, 0][amounts > 0]).min() == pytest.approx(-ndtri(0.05), abs=0.05)
    assert np.abs(Z).max() < 5
    assert np.allclose(Z[:, 0], -Z[:, 2])
    order = np.argsort(amounts)
    assert (np.diff(Z[order, 0]) >= 0).all()


@pytest.mark.parametrize("share", [0.9, 0.95, 0.99])
def test_a_committee_finds_nothing_odd_in_being_no_zero(share):
    rng = np.random.default_rng(6)
    plain = rng.normal(size=(1_500, 4))
    spiked = np.column_stack([spiked_column(rng, share, 1_500) for _ in range(3)])
    X = np.column_stack([plain, spiked])
    p_values = np.exp(-Committee().fit(X).training_scores_)
    assert p_values.min() > 0.1 / len(X)
    is_beside = (spiked > 0).any(axis=1)
    assert (p_values[is_beside] < 0.1 * (1 - share)).mean() < 0.15


def test_an_impossible_value_comes_before_all_values_beside_a_spike():
    rng = np.random.default_rng(7)
    X = np.column_stack([rng.gamma(9, 4.3, 1_500), spiked_column(rng, 0.95, 1_500)])
    X[10, 0] = 370.0
    X[20, 1] = 30 * X[:, 1].max()
    scores = Committee().fit(X).training_scores_
    assert set(np.argsort(-scores)[:2]) == {10, 20}


def test_columns_that_are_odd_together_are_not_counted_twice():
    rng = np.random.default_rng(8)
    on = rng.random(3_000) < 0.02
    X = np.column_stack([np.where(on, np.exp(rng.normal(size=3_000)), 0.0) for _ in range(6)])
    together = Committee(members={"tails": 1.0}).fit(X).panel_.members[0]
    apart = Committee(members={"tails": 1.0}).fit(np.column_stack([rng.permutation(c) for c in X.T]))
    row = X[on][:50]
    assert together.score(row).mean() < 0.5 * apart.panel_.members[0].score(row).mean()


def test_a_committee_with_a_spiked_column_is_saved_and_loaded(tmp_path):
    rng = np.random.default_rng(9)
    X = np.column_stack([rng.normal(size=400), spiked_column(rng, 0.9, 400)])
    committee = Committee().fit(X)
    assert any(isinstance(law, SpikedLaw) for law in committee.panel_.members[0].laws)
    again = load(committee.save(tmp_path / "committee"))
    assert (again.outlierness(X) == committee.outlierness(X)).all()
