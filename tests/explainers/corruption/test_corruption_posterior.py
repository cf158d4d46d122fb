"""Probabilities that cells are wrong equal sums over all sets of cells, and come true."""

import numpy as np
import pandas as pd
import pytest
from oracles.corruption_oracles import wrong_cells
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import tellwhy
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.explainers import CorruptionPosterior
from tellwhy.explainers.corruption.corruption_posterior import TriedValues, find_likeliest_rate, probabilities
from tellwhy.explainers.corruption.mixture_cells import MixtureCells, Slab, WeighedSets
from tellwhy.scoring.mixture_scores import Mixture


def some_mixture(d, seed=0):
    rng = np.random.default_rng(seed)
    spread = rng.normal(size=(3, d, d))
    return Mixture(
        np.array([0.5, 0.3, 0.2]), rng.normal(size=(3, d)) * 3, spread @ spread.swapaxes(1, 2) + np.eye(d)
    )


def drawn(mixture, n, seed=0):
    rng = np.random.default_rng(seed)
    component = rng.choice(len(mixture.weights), size=n, p=mixture.weights)
    return np.stack([rng.multivariate_normal(mixture.means[k], mixture.covariances[k]) for k in component])


@pytest.mark.parametrize("most", [1, 2, 3])
def test_equals_the_sum_over_all_sets(most):
    mixture = some_mixture(5)
    X = drawn(mixture, 4)
    X[0, 2] += 20
    X[1, [0, 3]] -= 25
    slab = Slab.around(mixture, 3.0)
    found = MixtureCells(mixture, slab).weighed(X, np.arange(5), most=most, n_kept=20)
    values, n_wrong = probabilities(found, 0.07)
    for x, value, sizes in zip(X, values, n_wrong, strict=True):
        right = wrong_cells(
            x,
            mixture.weights,
            mixture.means,
            mixture.covariances,
            (slab.centre, slab.scale),
            rate=0.07,
            most=most,
        )
        np.testing.assert_allclose(value, right[0], atol=1e-12)
        np.testing.assert_allclose(sizes, right[1], atol=1e-12)


def test_columns_of_one_owner_are_wrong_if_any_of_them_is():
    mixture = some_mixture(5, seed=1)
    X = drawn(mixture, 3, seed=1)
    X[0, [1, 2]] += 12
    owner = np.array([0, 1, 1, 2, 0])
    slab = Slab.around(mixture, 3.0)
    found = MixtureCells(mixture, slab).weighed(X, owner, most=3, n_kept=20)
    values, _ = probabilities(found, 0.1)
    for x, value in zip(X, values, strict=True):
        right, _ = wrong_cells(
            x,
            mixture.weights,
            mixture.means,
            mixture.covariances,
            (slab.centre, slab.scale),
            rate=0.1,
            most=3,
            owner=owner,
        )
        np.testing.assert_allclose(value, right, atol=1e-12)


def test_few_kept_sets_find_the_cells_of_all():
    mixture = some_mixture(9, seed=2)
    X = drawn(mixture, 20, seed=2)
    X[:, [1, 4, 6]] += 30
    cells = MixtureCells(mixture, Slab.around(mixture, 3.0))
    every, _ = probabilities(cells.weighed(X, np.arange(9), most=3, n_kept=200), 0.1)
    few, _ = probabilities(cells.weighed(X, np.arange(9), most=3, n_kept=4), 0.1)
    np.testing.assert_allclose(few, every, atol=1e-3)
    assert (every[:, [1, 4, 6]] > 0.99).all()


def test_probabilities_come_true():
    """Cells are corrupted as the model says: of those with P about p, a share of p is wrong."""
    mixture = some_mixture(6, seed=3)
    rng = np.random.default_rng(3)
    X = drawn(mixture, 6000, seed=4)
    slab = Slab.around(mixture, 3.0)
    is_wrong = rng.random(X.shape) < 0.05
    X = np.where(is_wrong, rng.normal(slab.centre, slab.scale, size=X.shape), X)
    weighed = MixtureCells(mixture, slab).weighed(X, np.arange(6), most=3, n_kept=64)
    values, _ = probabilities(weighed, 0.05)
    for low, high in [(0.0, 0.02), (0.02, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1.01)]:
        inside = (values >= low) & (values < high)
        assert is_wrong[inside].mean() == pytest.approx(values[inside].mean(), abs=0.03)
    assert find_likeliest_rate(weighed, 6) == pytest.approx(0.05, rel=0.15)


def test_clean_rows_have_a_rate_of_almost_nothing():
    mixture = some_mixture(4, seed=5)
    cells = MixtureCells(mixture, Slab.around(mixture, 3.0))
    weighed = cells.weighed(drawn(mixture, 3000, seed=6), np.arange(4), most=2, n_kept=64)
    assert find_likeliest_rate(weighed, 4) < 0.002


def test_units_and_order_of_columns_change_nothing():
    mixture = some_mixture(4, seed=7)
    X = drawn(mixture, 5, seed=7)
    X[0, 2] += 30.0
    scale = np.array([1e-3, 1.0, 50.0, 7.0])
    order = [2, 0, 3, 1]
    other = Mixture(
        mixture.weights,
        (mixture.means * scale)[:, order],
        (mixture.covariances * scale * scale[:, None])[:, order][:, :, order],
    )
    found, again = (
        MixtureCells(law, Slab.around(law, 3.0)).weighed(rows, np.arange(4), most=2, n_kept=64)
        for law, rows in [(mixture, X), (other, (X * scale)[:, order])]
    )
    np.testing.assert_allclose(
        probabilities(again, 0.1)[0], probabilities(found, 0.1)[0][:, order], atol=1e-10
    )


def test_any_score_names_the_cell():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 5))
    rows = X[:8].copy()
    rows[np.arange(8), np.arange(8) % 5] = 7.0
    explainer = CorruptionPosterior(IsolationForest(random_state=0).fit(X)).fit(X)
    found = explainer.explain(rows)
    assert (found.values.argmax(axis=1) == np.arange(8) % 5).all()
    assert found.kind == "probability"
    assert found.residual is None
    assert found.stderr.max() < 0.2
    np.testing.assert_allclose(found.extras["n_wrong"].sum(axis=1), 1.0)


def test_a_score_that_is_a_log_density_is_weighed_as_the_mixture_is():
    """−log p of independent normal columns, as a function: the guilty cell stands out as in closed form."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 3))
    rows = np.array([[0.2, 6.0, -0.4], [0.3, -0.5, 0.8]])
    found = CorruptionPosterior(lambda Z: 0.5 * (Z**2).sum(axis=1)).fit(X).explain(rows).values
    assert found[0, 1] > 0.95
    assert found[0, [0, 2]].max() < 0.4
    assert found[1].max() < 0.5


def test_pipelines_are_told_in_the_users_columns():
    rng = np.random.default_rng(2)
    numbers = rng.normal(size=(300, 2))
    words = rng.choice(["a", "b", "c"], size=(300, 1), p=[0.6, 0.3, 0.1])
    frame = pd.DataFrame({"x": numbers[:, 0], "y": numbers[:, 1], "word": words[:, 0]})
    encoder = ColumnTransformer(
        [("n", StandardScaler(), ["x", "y"]), ("w", OneHotEncoder(sparse_output=False), ["word"])]
    )
    model = make_pipeline(encoder, IsolationForest(random_state=0)).fit(frame)
    rows = frame[frame["word"] == "a"].head(2).reset_index(drop=True)
    rows.loc[0, "y"] = 9.0
    found = CorruptionPosterior(model).fit(frame).explain(rows)
    assert found.feature_names == ["x", "y", "word"]
    assert found.values[0].argmax() == 1
    assert found.values[0, 1] > 2 * found.values[1, 1]


def test_widths_add_up_to_the_range():
    X = np.random.default_rng(0).normal(size=(400, 1))
    tried = TriedValues.of(X, np.array([0]), 3.0)
    ends = tried.values[[0, -1], 0]
    assert np.exp(tried.log_widths).sum() == pytest.approx(ends[1] - ends[0])
    fewer = tried.kept(tried.spread(7))
    assert len(fewer.values) == 7
    assert np.exp(fewer.log_widths).sum() == pytest.approx(ends[1] - ends[0])


def test_the_one_liner_finds_it():
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = GaussianMixture(1).fit(X)
    found = tellwhy.explain(model, np.array([[0.0, 8.0, 0.3]]), method="CorruptionPosterior")
    assert found.values.argmax() == 1


def test_what_cannot_be_is_refused():
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = GaussianMixture(1).fit(X)
    with pytest.raises(InvalidInput, match="not fitted"):
        CorruptionPosterior(model, rate="auto").explain(X[:2])
    with pytest.raises(InvalidInput, match="not fitted"):
        CorruptionPosterior(lambda Z: Z.sum(axis=1)).explain(X[:2])
    with pytest.raises(InvalidParameter, match="rate"):
        CorruptionPosterior(model, rate=0.9).explain(X[:2])
    with pytest.raises(UnsupportedModel):
        from sklearn.linear_model import LogisticRegression

        classes = LogisticRegression().fit(X, X[:, 0] > 0)
        CorruptionPosterior(classes).fit(X).explain(X[:2])


def test_even_weights():
    even = WeighedSets(np.zeros((1, 2)), np.array([[[0.75, 0.25]]]))
    assert probabilities(even, 0.25)[1].tolist() == [[0.75, 0.25]]
