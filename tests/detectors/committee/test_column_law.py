"""Laws of columns: tails of any weight, long ones straightened, and columns in which most rows have one value."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

from tellwhy.detectors import Committee, load
from tellwhy.detectors.committee.column_law import (
    ColumnLaw,
    PointMassLaw,
    TailShortening,
    count_reaching,
    learn_law,
)
from tellwhy.detectors.committee.members import Tails
from tellwhy.scoring.surprise import compute_growth, find_level_above

SHAPES = (-0.5, -0.2, 0.0, 0.3, 0.6)


@pytest.mark.parametrize("shape", SHAPES)
def test_growth_and_level_are_inverse_to_each_other(shape):
    above = np.linspace(0.0, 40.0, 50)
    np.testing.assert_allclose(
        find_level_above(compute_growth(above, shape, 1.6), shape, 1.6), above, rtol=1e-9
    )
    rising = compute_growth(above, shape, 1.6)
    assert (np.diff(rising) > 0).all()
    assert (rising[1] - rising[0]) / (above[1] - above[0]) == pytest.approx(
        1.0, rel=0.35
    )  # starts with slope 1


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("normal", stats.norm()),
        ("exponential", stats.expon()),
        ("logistic", stats.logistic()),
        ("log-normal", stats.lognorm(0.8)),
        ("t with 4 degrees", stats.t(4)),
    ],
)
def test_one_value_in_ten_thousand_is_as_surprising_as_it_is_rare(name, law):
    """The median over draws, since the tail of one draw of 3,000 values is uncertain."""
    at = np.array([law.isf(1e-4)])
    found = [
        ColumnLaw.learn(law.rvs(size=3_000, random_state=seed)).surprise(at)[0] for seed in range(100, 120)
    ]
    assert np.median(found) == pytest.approx(-np.log(2e-4), abs=1.5), name


def test_eight_deviations_are_a_matter_of_the_columns_shape():
    rng = np.random.default_rng(7)
    bell = rng.normal(size=3_000)
    long = np.exp(1.2 * rng.normal(size=3_000))
    surprises = [
        ColumnLaw.learn(column).surprise(column.mean() + 8 * column.std(keepdims=True))[0]
        for column in (bell, long)
    ]
    assert surprises[0] > 20
    assert surprises[1] < 10


def test_values_behind_a_gap_do_not_make_the_tail_longer():
    column = np.random.default_rng(3).normal(size=1_000)
    clean = ColumnLaw.learn(column).surprise(np.array([8.0]))[0]
    column[:30] = 60.0
    assert ColumnLaw.learn(column).surprise(np.array([8.0]))[0] > 0.6 * clean


def test_steps_of_whole_numbers_do_not_pass_for_a_tail():
    found = [
        ColumnLaw.learn(np.random.default_rng(seed).poisson(13, size=2_000).astype(float)).shapes[1]
        for seed in range(10)
    ]
    assert np.median(found) < 0.0


def test_of_few_values_a_rare_one_is_odder_the_farther_it_is_from_the_common_ones():
    column = np.repeat([0.0, 1.0, 2.0], [1_500, 450, 47])
    near, far = (ColumnLaw.learn(np.append(column, [3.0, 3.0, value])) for value in (3.0, 6.0))
    assert near.surprise(np.array([3.0]))[0] == pytest.approx(-np.log(3 / 2_000))
    assert far.surprise(np.array([6.0]))[0] == pytest.approx(-np.log(1 / 2_000) + 3.0)
    assert far.surprise(np.array([9.0]))[0] > far.surprise(np.array([6.0]))[0]


def test_a_rare_level_beside_a_single_common_one_is_only_rare():
    law = ColumnLaw.learn(np.repeat([0.0, 1.0], [1_999, 1]))
    assert law.surprise(np.array([1.0]))[0] == pytest.approx(-np.log(1 / 2_000))


def test_columns_that_cannot_be_as_surprising_are_not_asked():
    rng = np.random.default_rng(0)
    labels = [ColumnLaw.learn((rng.random(1_000) < 0.5).astype(float)) for _ in range(30)]
    numbers = [ColumnLaw.learn(rng.normal(size=1_000)) for _ in range(2)]
    laws = (*labels, *numbers)
    np.testing.assert_array_equal(count_reaching(laws, np.array([[0.1, 5.0]])), [[32.0, 2.0]])


def test_straightened_columns_keep_their_middle_and_their_order():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=4_000), np.exp(rng.normal(size=4_000)), rng.random(4_000) < 0.2])
    Z = TailShortening.learn(X, [ColumnLaw.learn(column) for column in X.T]).of(X)
    for x, z in zip(X.T, Z.T, strict=True):
        low, high = np.quantile(x, [0.21, 0.79])
        middle = (x >= low) & (x <= high)
        np.testing.assert_array_equal(x[middle], z[middle])
        order = np.argsort(x, kind="stable")
        assert (np.diff(z[order]) >= 0).all()
        assert (np.abs(z - np.median(x)) <= np.abs(x - np.median(x)) + 1e-12).all()
    np.testing.assert_array_equal(X[:, 2], Z[:, 2])


def test_long_tails_become_those_of_a_normal_distribution():
    rng = np.random.default_rng(2)
    long = np.exp(1.3 * rng.normal(size=5_000))
    bell = rng.normal(size=5_000)
    found = []
    for column in (long, bell):
        z = TailShortening.learn(column[:, None], [ColumnLaw.learn(column)]).of(column[:, None])[:, 0]
        found.append(np.diff(np.quantile(z, [0.8, 0.95, 0.999])))
    ratios = [steps[1] / steps[0] for steps in found]
    raw = np.diff(np.quantile(long, [0.8, 0.95, 0.999]))
    assert raw[1] / raw[0] > 6
    assert ratios[0] == pytest.approx(ratios[1], rel=0.35)


def test_columns_that_go_together_are_counted_once():
    rng = np.random.default_rng(4)
    base = rng.normal(size=2_000)
    apart = np.column_stack([base, rng.normal(size=2_000)])
    together = np.column_stack([base, base + 0.01 * rng.normal(size=2_000)])
    odd = np.array([[7.0, 7.0]])
    one = Tails.learn(apart).score(np.array([[7.0, 0.0]]))[0]
    assert Tails.learn(apart).score(odd)[0] > 1.8 * one
    assert Tails.learn(together).score(odd)[0] == pytest.approx(one, rel=0.15)


def spiked_column(rng, share, n=3_000, draw=None):
    """A column with this share of zeros, the others log-normal unless drawn otherwise."""
    column = np.zeros(n)
    rows = rng.choice(n, round((1 - share) * n), replace=False)
    column[rows] = np.exp(rng.normal(6, 1, len(rows))) if draw is None else draw(len(rows))
    return column


@pytest.mark.parametrize("share", [0.85, 0.95, 0.99])
def test_values_beside_a_spike_are_as_surprising_as_they_are_rare(share):
    column = spiked_column(np.random.default_rng(0), share, 20_000)
    surprise = learn_law(column).surprise(column)
    assert (surprise[column == 0] == 0).all()
    for level in (2 * (1 - share) * 0.5, 2 * (1 - share) * 0.1):
        beyond = 2 * (surprise > -np.log(level)).mean()  # as if there were as many on the other side
        assert beyond == pytest.approx(level, rel=0.3), level


def test_a_value_far_from_the_others_beside_a_spike_is_odd_and_they_are_not():
    rng = np.random.default_rng(1)
    column = spiked_column(rng, 0.95, draw=lambda m: rng.normal(1_900, 300, m))
    law = learn_law(column)
    assert isinstance(law, PointMassLaw)
    assert law.surprise(column).max() < np.log(len(column)) + 2
    assert law.surprise(np.array([10 * column.max()]))[0] > 20


def test_both_sides_of_a_spike_have_laws_of_their_own():
    rng = np.random.default_rng(2)
    column = spiked_column(rng, 0.9, draw=lambda m: rng.normal(5, 1, m))
    column[column > 0] *= np.where(rng.random((column > 0).sum()) < 0.1, -100.0, 1.0)
    law = learn_law(column)
    low, high = law.surprise(np.array([-500.0, 500.0]))
    assert low < 6 < 20 < high  # −500 is usual below the spike, where 1 % of the rows are
    assert law.surprise(np.array([0.0]))[0] == 0


def test_no_law_beside_a_spike_where_the_tails_tell_enough():
    rng = np.random.default_rng(3)
    assert PointMassLaw.learn(rng.normal(size=500)) is None
    assert PointMassLaw.learn(np.zeros(500)) is None
    assert PointMassLaw.learn(spiked_column(rng, 0.6)) is None  # the last fifth holds no spike


def test_a_dozen_amounts_among_zeros_are_measured_and_few_codes_are_not():
    rng = np.random.default_rng(4)
    assert isinstance(learn_law(spiked_column(rng, 0.99, 1_500)), PointMassLaw)
    codes = spiked_column(rng, 0.95, draw=lambda m: rng.choice([1.0, 2.0, 5.0], m))
    assert isinstance(learn_law(codes), ColumnLaw)


def test_a_spike_is_as_far_from_the_others_as_they_are_rare():
    rng = np.random.default_rng(5)
    amounts = spiked_column(rng, 0.95)
    codes = spiked_column(rng, 0.95, draw=lambda m: rng.choice([1.0, 2.0, 5.0], m))
    X = np.column_stack([amounts, codes, -amounts])
    Z = TailShortening.learn(X, [learn_law(column) for column in X.T]).of(X)
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
    assert any(isinstance(law, PointMassLaw) for law in committee.panel_.members[0].laws)
    again = load(committee.save(tmp_path / "committee"))
    assert (again.outlierness(X) == committee.outlierness(X)).all()
