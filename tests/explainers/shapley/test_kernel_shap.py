"""Kernel SHAP: against the definition for each kind of reference rows."""

import numpy as np
import pandas as pd
import pytest
from oracles.shapley_oracles import shapley_by_definition
from sklearn.ensemble import RandomForestRegressor
from sklearn.mixture import GaussianMixture

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.explainers import KernelShap, TreeShapley
from tellwhy.scoring import FunctionScore, PredictionScore, as_score

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4)) @ RNG.normal(size=(4, 4))
ODD = X[:3] + np.array([[0.0, 5.0, 0.0, 0.0], [0.0, 0.0, -5.0, 0.0], [0.1, 0.1, 0.1, 0.1]])
MODEL = GaussianMixture(2, random_state=0).fit(X)


def by_definition(x, references, weights):
    def worth(S):
        inside = np.array([i in S for i in range(4)])
        return float(as_score(MODEL).value(np.where(inside, x, references)) @ weights)

    return shapley_by_definition(worth, 4), worth(frozenset())


def test_given_rows():
    found = KernelShap(MODEL, baseline=X[10:15]).explain(ODD)
    for x, values, base in zip(ODD, found.values, found.base_values, strict=True):
        exact, empty = by_definition(x, X[10:15], np.full(5, 0.2))
        np.testing.assert_allclose(values, exact, rtol=1e-8, atol=1e-8)
        assert base == pytest.approx(empty, rel=1e-10)
    np.testing.assert_allclose(found.residual, 0.0, atol=1e-10)
    assert found.params["baseline"] == "given rows"


def test_normal_versions_stay_within_the_given_rows():
    bowl = FunctionScore(lambda Y: (Y**2).sum(axis=1), threshold=30.0)
    rows, far = X[:40], np.array([[0.0, 60.0, 0.0, 0.0]])
    explainer = KernelShap(bowl, baseline=rows)
    points = explainer.explain(far).extras["nearest_normal"]
    assert bowl.value(points)[0] <= 30.0
    changed = points[0] != far[0]
    assert changed.any()
    assert (points <= np.maximum(rows.max(axis=0), far))[0, changed].all()
    assert not hasattr(explainer, "ordinary_rows_")
    low = np.full((5, 4), 1e-3) * np.arange(5)[:, None]
    np.testing.assert_array_less(
        explainer.remember(low).explain(far).extras["nearest_normal"], 0.1
    )  # those count now


def test_centres_are_weighted_and_hold_values_that_occur():
    explainer = KernelShap(MODEL, baseline="kmeans").fit(X)
    assert explainer.centres_.shape == (8, 4)
    assert explainer.weights_.sum() == pytest.approx(1.0)
    for column, values in enumerate(explainer.centres_.T):
        assert np.isin(values, X[:, column]).all()
    found = explainer.explain(ODD)
    for x, values in zip(ODD, found.values, strict=True):
        np.testing.assert_allclose(
            values, by_definition(x, explainer.centres_, explainer.weights_)[0], atol=1e-7
        )


def test_centres_weigh_as_much_as_their_clusters():
    sizes = np.arange(2, 10)
    rng = np.random.default_rng(0)
    rows = np.repeat(100.0 * np.arange(8.0), sizes)[:, None] + rng.normal(size=(sizes.sum(), 2))
    explainer = KernelShap(lambda Y: Y.sum(axis=1), baseline="kmeans").fit(rows)
    order = np.argsort(explainer.centres_[:, 0])
    np.testing.assert_allclose(explainer.weights_[order], sizes / sizes.sum())


def test_the_rows_that_are_given_are_the_rows_that_are_used():
    given = X[:150]
    found = KernelShap(MODEL).fit(given).explain(ODD)
    assert found.params["baseline"] == "sample"
    assert found.params["reference_rows"] == len(given)
    for x, values in zip(ODD, found.values, strict=True):
        np.testing.assert_allclose(
            values, by_definition(x, given, np.full(len(given), 1 / len(given)))[0], rtol=1e-8, atol=1e-7
        )
    centres = KernelShap(MODEL, baseline="kmeans").fit(given).explain(ODD)
    assert centres.params["baseline"].startswith(f"8 of {len(given)} rows: centres")


def test_units_of_the_columns_do_not_move_the_centres():
    units = np.array([1.0, 1024.0, 1.0, 2.0**-10])
    plain = KernelShap(MODEL, baseline="kmeans").fit(X).centres_
    scaled = KernelShap(lambda Y: Y.sum(axis=1), baseline="kmeans").fit(X * units).centres_
    np.testing.assert_allclose(scaled, plain * units, rtol=1e-9)


def test_groups_may_be_named_by_the_columns_of_a_frame():
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    names = KernelShap(lambda Y: (np.asarray(Y) ** 2).sum(axis=1), groups=[["a", "c"]]).fit(frame)
    places = KernelShap(lambda Y: (np.asarray(Y) ** 2).sum(axis=1), groups=[[0, 2]]).fit(X)
    np.testing.assert_array_equal(names.explain(frame[:3]).values, places.explain(X[:3]).values)


def test_neighbours_are_the_nearest_other_rows():
    found = KernelShap(MODEL, baseline="neighbours").fit(X).explain(np.vstack([ODD, X[7]]))
    scales = X.std(axis=0)
    for x, values in zip([*ODD, X[7]], found.values, strict=True):
        distance = np.linalg.norm((X - x) / scales, axis=1)
        nearest = X[np.argsort(np.where(distance == 0, np.inf, distance))[:8]]
        np.testing.assert_allclose(values, by_definition(x, nearest, np.full(8, 1 / 8))[0], atol=1e-7)


def test_few_background_rows():
    one = KernelShap(MODEL).fit(X[:1]).explain(ODD)
    np.testing.assert_allclose(one.base_values, as_score(MODEL).value(X[:1])[0])
    twice = KernelShap(MODEL, baseline="kmeans").fit(np.vstack([X[:2], X[:1]]))
    assert sorted(twice.weights_) == pytest.approx([1 / 3, 2 / 3])
    near = KernelShap(MODEL, baseline="neighbours").fit(X[:3]).explain(ODD)
    assert near.params["reference_rows"] == 3


def test_groups_and_sampling():
    pairs = KernelShap(MODEL, baseline=X[:4], groups=[[0, 1], [2, 3]]).explain(ODD)
    np.testing.assert_allclose(pairs.values[:, 0], pairs.values[:, 1])
    np.testing.assert_allclose(pairs.extras["group_values"].sum(axis=1), pairs.scores - pairs.base_values)
    wide = np.random.default_rng(1).normal(size=(60, 15))
    found = KernelShap(lambda Y: (Y**2).sum(axis=1), baseline=wide[:3]).explain(wide[:2] + 5 * np.eye(15)[:2])
    assert found.params["coalitions"] == "sampled in pairs"
    assert found.values.argmax(axis=1).tolist() == [0, 1]
    np.testing.assert_allclose(found.stderr, 0.0, atol=1e-7)  # an additive score has no sampling error


def bent(X):
    return X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3] * X[:, 4]


@pytest.mark.parametrize(("d", "covers"), [(5, "drawn reference rows"), (13, "drawn sets of columns and dr")])
def test_standard_errors_cover_the_drawn_reference_rows(monkeypatch, d, covers):
    monkeypatch.setattr("tellwhy.explainers.shapley.kernel_shap._MOST_SCORED", 2**10)
    rng = np.random.default_rng(1)
    background = rng.normal(size=(500, d))
    row = 1.5 * rng.normal(size=(1, d))
    score = PredictionScore(bent)
    truth = KernelShap(score, baseline=background[:, :5]).explain(row[:, :5])
    gaps = []
    for seed in range(25):
        found = KernelShap(score, n_coalitions=200, random_state=seed).fit(background).explain(row)
        assert found.params["stderr_covers"].startswith(covers)
        assert found.params["baseline"] == "100 of 500 rows, drawn at random"
        gaps.append((found.values[:, :5] - truth.values)[0] / found.stderr[0, :5])
    spread = np.sqrt(np.mean(np.square(gaps)))
    assert 0.8 < spread < 1.25  # 1 where errors are as large as they are said to be


def test_where_all_rows_serve_nothing_is_drawn():
    background = np.random.default_rng(1).normal(size=(120, 5))
    found = KernelShap(PredictionScore(bent)).fit(background).explain(background[:2])
    assert found.stderr is None
    assert found.params["stderr_covers"] is None


def test_one_column_has_the_error_of_the_mean(monkeypatch):
    monkeypatch.setattr("tellwhy.explainers.shapley.kernel_shap._MOST_SCORED", 2)
    background = np.arange(400.0)[:, None]
    found = KernelShap(PredictionScore(lambda X: X[:, 0])).fit(background).explain(np.array([[7.0]]))
    assert found.params["reference_rows"] == 100
    np.testing.assert_allclose(found.stderr, np.std(np.arange(400.0)) / 10 * np.sqrt(0.75), rtol=0.1)


def test_interactions_are_those_of_trees_and_add_up():
    forest = RandomForestRegressor(5, max_depth=4, random_state=0).fit(X, X[:, 0] * X[:, 1] + X[:, 2])
    ours = KernelShap(PredictionScore(forest.predict), interactions=True).fit(X[:20]).explain(ODD)
    exact = TreeShapley(forest, interactions=True).fit(X[:20]).explain(ODD)
    np.testing.assert_allclose(ours.extras["interactions"], exact.extras["interactions"], atol=1e-9)
    np.testing.assert_allclose(ours.extras["interactions"].sum(axis=2), ours.values, atol=1e-12)


def test_a_product_is_what_two_columns_do_together():
    found = KernelShap(
        PredictionScore(lambda rows: 6.0 * rows[:, 0] * rows[:, 2]),
        baseline=np.zeros((1, 3)),
        interactions=True,
    ).explain(np.ones((1, 3)))
    np.testing.assert_allclose(
        found.extras["interactions"][0], [[0.0, 0.0, 3.0], [0.0, 0.0, 0.0], [3.0, 0.0, 0.0]], atol=1e-12
    )


def test_interactions_of_drawn_sets_are_those_of_the_function_within_their_errors():
    rng = np.random.default_rng(0)
    weights = np.triu(rng.normal(size=(16, 16)), 1) * (rng.random((16, 16)) < 0.2)
    row = rng.normal(size=(1, 16))

    def function(rows):
        pairs = np.einsum("ni,ij,nj->n", rows, weights, rows)
        return rows.sum(axis=1) + pairs + 0.5 * rows[:, 0] * rows[:, 3] * rows[:, 5] * rows[:, 7]

    exact = (weights + weights.T) / 2 * row.T * row
    four = 0.5 * row[0, [0, 3, 5, 7]].prod()
    for i in (0, 3, 5, 7):
        for j in (0, 3, 5, 7):
            exact[i, j] += four / 3 / 2 if i != j else 0.0
    explainer = KernelShap(PredictionScore(function), baseline=np.zeros((1, 16)), interactions=True)
    found = explainer.explain(row)
    pairs, errors = found.extras["interactions"][0], found.extras["interactions_stderr"][0]
    upper = np.triu_indices(16, 1)
    assert np.abs(pairs - exact)[upper].max() < 0.05 * np.abs(exact[upper]).max()
    assert np.mean(np.abs(pairs - exact)[upper] <= 1.96 * errors[upper] + 1e-9) > 0.9
    np.testing.assert_allclose(pairs.sum(axis=1), found.values[0], atol=1e-10)


def test_interactions_are_of_single_columns():
    with pytest.raises(InvalidParameter, match="Leave either out"):
        KernelShap(MODEL, interactions=True, groups=[[0, 1]]).fit(X).explain(ODD)


def chance(rows):
    return 1 / (1 + np.exp(-2 * rows[:, 0] - rows[:, 1] * rows[:, 2]))


@pytest.mark.parametrize("link", ["logit", "log"])
def test_a_link_makes_another_number_of_the_mean(link):
    function = {"logit": lambda p: np.log(p / (1 - p)), "log": np.log}[link]
    background = np.random.default_rng(0).normal(size=(20, 3))
    row = np.array([[1.0, -1.0, 0.5]])

    def worth(S):
        inside = np.array([i in S for i in range(3)])
        return float(function(chance(np.where(inside, row[0], background)).mean()))

    found = KernelShap(PredictionScore(chance), link=link).fit(background).explain(row)
    np.testing.assert_allclose(found.values[0], shapley_by_definition(worth, 3), atol=1e-12)
    assert found.base_values[0] == pytest.approx(worth(frozenset()))
    assert found.scores[0] == pytest.approx(function(chance(row))[0])
    assert found.params["explains"].startswith(f"{link} of the mean")


def test_errors_on_the_scale_of_a_link_cover_drawn_reference_rows(monkeypatch):
    monkeypatch.setattr("tellwhy.explainers.shapley.kernel_shap._MOST_SCORED", 2**8)
    background = np.random.default_rng(1).normal(size=(800, 3))
    row = np.array([[1.0, -1.0, 0.5]])
    truth = KernelShap(PredictionScore(chance), baseline=background, link="logit").explain(row).values
    gaps = []
    for seed in range(40):
        found = (
            KernelShap(PredictionScore(chance), link="logit", random_state=seed).fit(background).explain(row)
        )
        gaps.append((found.values - truth)[0] / found.stderr[0])
    assert 0.75 < np.sqrt(np.mean(np.square(gaps))) < 1.3


def test_a_link_refuses_what_has_no_place_on_its_scale():
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        KernelShap(lambda rows: rows[:, 0], link="logit").fit(X).explain(X[:2])
