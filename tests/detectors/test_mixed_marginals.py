"""Columns with repeated values: point masses, densities beside them, dependence, and shares in closed form."""

from itertools import product

import numpy as np
import pytest
from oracles.shapley_oracles import shapley_by_definition
from scipy.stats import multivariate_normal, norm, t

from tellwhy.core.errors import InvalidInput
from tellwhy.detectors import MixedMarginals, load
from tellwhy.detectors.mixed_marginals import MixedColumns
from tellwhy.explainers import CommitteeShares
from tellwhy.one_liner.explain import explain
from tellwhy.testing import check_detector

RNG = np.random.default_rng(0)


def table(n=300):
    """A smooth column, one that follows it, one that is 0 but for a tenth of the rows, and codes."""
    smooth = RNG.normal(size=n)
    follows = 2.0 * smooth + 0.3 * RNG.normal(size=n)
    spike = np.where(RNG.random(n) < 0.1, RNG.exponential(size=n), 0.0)
    codes = RNG.choice([1.0, 2.0, 5.0], size=n, p=[0.7, 0.25, 0.05])
    return np.column_stack([smooth, follows, spike, codes])


X = table()
DETECTOR = MixedMarginals().fit(X)


def test_a_shared_value_is_as_odd_as_it_is_rare():
    columns = MixedColumns.of(X)
    found = columns.surprises(X)
    for j in (2, 3):
        for value in np.unique(X[:, j]):
            n = (X[:, j] == value).sum()
            if n >= 0.05 * len(X):
                np.testing.assert_allclose(np.exp(-found[X[:, j] == value, j]), n / len(X), rtol=0.02)


def test_the_density_beside_is_a_mean_of_student_kernels():
    columns = MixedColumns.of(X)
    cells = np.array([-3.0, 0.1, 2.5, 40.0])
    rows = np.tile(X[0], (4, 1))
    rows[:, 0] = cells
    gaps = cells[:, None] / X[:, 0].std() - columns.centres[0]
    expected = (t.pdf(gaps / columns.widths[0], df=3) / columns.widths[0]).mean(axis=1)
    np.testing.assert_allclose(np.exp(-columns.surprises(rows)[:, 0]), expected, rtol=1e-9)


def test_a_density_has_the_mass_of_the_rows_beside_the_atoms():
    columns = MixedColumns.of(X)
    cells = np.linspace(-200.0, 200.0, 400_001) + 1e-7  # next to no atom
    rows = np.tile(X[0], (len(cells), 1))
    rows[:, 2] = cells
    density = np.exp(-columns.surprises(rows)[:, 2]) / X[:, 2].std()
    beside = (X[:, 2] != 0).mean()
    assert density.sum() * (cells[1] - cells[0]) == pytest.approx(beside, rel=0.05)


def test_normal_scores_are_those_of_ranks():
    smooth = np.argsort(np.argsort(X[:, 0]))
    scores = MixedColumns.of(X).normal_scores(X)
    np.testing.assert_allclose(norm.cdf(scores[:, 0]), smooth / (len(X) - 1), atol=0.01)
    zeros = X[:, 2] == 0
    np.testing.assert_allclose(norm.cdf(scores[zeros, 2]), 0.5 * zeros.mean(), atol=1e-9)


def test_dependence_is_that_of_a_gaussian_copula():
    detector = MixedMarginals(shrinkage=0.2).fit(X)
    columns = detector.columns_
    Z = columns.normal_scores(X)
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    R = 0.8 * np.corrcoef(Z, rowvar=False) + 0.2 * np.eye(4)
    copula = multivariate_normal(np.zeros(4), R).logpdf(Z) - norm.logpdf(Z).sum(axis=1)
    expected = columns.surprises(X).sum(axis=1) - copula
    np.testing.assert_allclose(detector.outlierness(X), expected, rtol=1e-9)


def test_shares_are_shapley_values_against_all_training_rows():
    rows = X[:40]
    detector = MixedMarginals().fit(rows)
    score = detector.to_score()
    odd = np.array([[0.5, -4.0, 0.2, 2.0], [1.0, 2.0, 0.0, 7.0]])
    for x, found in zip(odd, score.shares(odd), strict=True):

        def worth(S, x=x):
            mixed = rows.copy()
            mixed[:, sorted(S)] = x[sorted(S)]
            return float(score.value(mixed).mean())

        np.testing.assert_allclose(found, shapley_by_definition(worth, 4), atol=1e-9)
    np.testing.assert_allclose(
        score.shares(odd).sum(axis=1), score.value(odd) - score.value(rows).mean(), atol=1e-9
    )


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ([0.1, 0.2, 0.02, 1.0], 2),  # a small number where nearly all rows have 0
        ([0.1, 0.2, 0.0, 3.0], 3),  # a code that no row has
        ([9.0, 18.0, 0.0, 1.0], None),  # far away, and as both columns go together
    ],
)
def test_what_is_odd_is_named(row, column):
    explanation = explain(DETECTOR, np.array([row]))
    assert explanation.method == "CommitteeShares"
    assert explanation.values[0].argmax() in ((0, 1) if column is None else (column,))


def test_values_that_do_not_go_together_are_odder_than_those_that_do():
    together, apart = DETECTOR.outlierness(np.array([[1.0, 2.0, 0.0, 1.0], [1.0, -2.0, 0.0, 1.0]]))
    assert apart > together + 3.0
    assert set(np.argsort(DETECTOR.to_score().shares([[1.0, -2.0, 0.0, 1.0]])[0])[-2:]) == {0, 1}


def test_units_do_not_matter():
    unit, shift = np.array([1e-3, 40.0, 2.0, 1024.0]), np.array([5.0, 0.0, -2.0, 7.0])
    other = MixedMarginals().fit(X * unit + shift)
    np.testing.assert_allclose(other.outlierness(X * unit + shift), DETECTOR.outlierness(X), rtol=1e-6)


def test_training_scores_are_those_of_new_rows():
    new = DETECTOR.outlierness(table(2000))
    assert (new > DETECTOR.threshold_).mean() == pytest.approx(0.1, abs=0.04)


def test_shrinkage():
    assert 0.01 <= DETECTOR.shrinkage_ < 0.2
    assert MixedMarginals(shrinkage=1.0).fit(X).dependence_.excess == pytest.approx(
        np.zeros((4, 4)), abs=1e-12
    )
    few = MixedMarginals().fit(np.random.default_rng(0).normal(size=(20, 30)))
    assert few.shrinkage_ > 0.5
    twice = MixedMarginals(shrinkage=0.0).fit(X[:, [0, 0, 1]])
    assert np.isfinite(twice.outlierness(X[:, [0, 0, 1]])).all()
    assert twice.shrinkage_ == 0.01


def test_saving(tmp_path):
    again = load(DETECTOR.save(tmp_path / "mixed"))
    np.testing.assert_array_equal(again.outlierness(X), DETECTOR.outlierness(X))
    np.testing.assert_array_equal(
        CommitteeShares(again).explain(X[:5]).values, CommitteeShares(DETECTOR).explain(X[:5]).values
    )


@pytest.mark.parametrize("cell", [0.0, 7.0, 1e12, -1e300])
def test_constant_columns_and_cells_far_away(cell):
    rows = np.column_stack([X[:, 0], np.full(len(X), 7.0)])
    detector = MixedMarginals().fit(rows)
    usual, other = detector.outlierness(np.array([[0.0, 7.0], [0.0, cell]]))
    assert np.isfinite(other)
    assert (other > usual + 3.0) == (cell != 7.0)


def test_contract():
    check_detector(MixedMarginals())


def test_all_rows_equal():
    detector = MixedMarginals().fit(np.ones((10, 2)))
    assert detector.predict([[1.0, 1.0]]) == 1
    with pytest.raises(InvalidInput, match="2"):
        detector.outlierness(np.ones((1, 3)))


def test_every_pair_of_small_tables_is_finite():
    for n, d in product((2, 3, 7), (1, 2, 5)):
        rows = np.random.default_rng(n * d).integers(0, 2, size=(n, d)).astype(float)
        assert np.isfinite(MixedMarginals().fit(rows).outlierness(rows)).all()
