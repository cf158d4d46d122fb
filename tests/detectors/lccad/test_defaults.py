"""What a user meets: the defaults find what only its neighbours give away, at every distance between classes."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.ensemble import IsolationForest
from sklearn.metrics import adjusted_rand_score, roc_auc_score

from tellwhy.core.errors import DataNotice, NotConverged
from tellwhy.data.graphs import chain, from_edges, grid
from tellwhy.detectors import LCCAD, load, suggest_lccad
from tellwhy.detectors.lccad.costs import (
    LEAST,
    estimate_variance_of_costs,
    find_least_size,
    find_too_small,
    is_ordinary,
    restrain,
)
from tellwhy.workflow import explain_graph


def halves(shape, gap, seed):
    """Two halves of a grid, with two nodes that are swapped and one that is odd anywhere."""
    rng = np.random.default_rng(seed)
    classes = np.repeat([[0, 1]], shape[0], axis=0).repeat(shape[1] // 2, axis=1)
    X = rng.normal(size=(*shape, 2))
    X[..., 0] += gap * classes
    X[6, 5] = [gap, 0.2]
    X[12, shape[1] - 6] = [0.1, -0.3]
    X[15, 7, 1] = 16.0
    planted = {6 * shape[1] + 5, 12 * shape[1] + shape[1] - 6, 15 * shape[1] + 7}
    return X, planted


@pytest.mark.parametrize("gap", [5, 7, 10, 14, 20])
@pytest.mark.parametrize("seed", [0, 1])
def test_swapped_nodes_of_a_grid(gap, seed):
    X, planted = halves((20, 30), gap, seed)
    model = LCCAD(2, random_state=0).fit(X, grid((20, 30)))
    assert set(np.argsort(-model.outlierness())[:3]) == planted


@pytest.mark.parametrize("gap", [5, 7, 10, 14, 20])
def test_swapped_rows_of_a_series(gap):
    rng = np.random.default_rng(gap)
    season = np.repeat([0, 1, 0, 1], 100)
    X = rng.normal(size=(400, 2))
    X[:, 0] += gap * season
    X[250] = [gap, 0.1]
    X[40] = [0.0, -9.0]
    model = LCCAD(2, random_state=0).fit(X, chain(400))
    assert set(np.argsort(-model.outlierness())[:2]) == {40, 250}
    listed = LCCAD(2, random_state=0).fit(X, from_edges(chain(400).edges(), 400))
    assert set(np.argsort(-listed.outlierness())[:2]) == {40, 250}


@pytest.mark.parametrize("n_columns", [3, 6, 12])
@pytest.mark.parametrize("kind", ["grid", "series"])
def test_swapped_nodes_that_many_columns_tell(kind, n_columns):
    """All columns but one differ between the classes: a node says no more about its class for that."""
    rng = np.random.default_rng(n_columns)
    classes = np.repeat([0, 1, 0, 1], 150)
    if kind == "grid":
        classes = np.repeat([[0, 1]], 20, axis=0).repeat(15, axis=1).ravel()
    centre = np.append(np.full(n_columns - 1, 10 / np.sqrt(n_columns - 1)), 0.0)
    X = rng.normal(size=(600, n_columns)) + np.outer(classes, centre)
    for node in (70, 200):
        X[node] = rng.normal(size=n_columns) + (1 - classes[node]) * centre
    X[310, -1] = 16.0
    model = LCCAD(2, random_state=0).fit(X, grid((20, 30)) if kind == "grid" else chain(600))
    assert set(np.argsort(-model.outlierness())[:3]) == {70, 200, 310}


@pytest.mark.parametrize("gap", [6, 12])
def test_where_the_number_of_classes_is_found_nodes_do_not_make_classes(gap, tmp_path):
    X, planted = halves((20, 30), gap, 3)
    np.savez(tmp_path / "cube.npz", a=X[..., 0], b=X[..., 1])
    run = explain_graph(tmp_path / "cube.npz", top=3).run
    assert run.settings["n_classes"] == 2
    assert {a.row for a in run.anomalies[:3]} == planted


def test_many_swapped_nodes():
    rng = np.random.default_rng(1)
    classes = np.repeat([[0, 1]], 60, axis=0).repeat(30, axis=1).ravel()
    swapped = np.zeros(3600, dtype=bool)
    swapped[rng.choice(3600, 120, replace=False)] = True
    X = rng.normal(size=(3600, 2))
    X[:, 0] += 6 * (classes ^ swapped)
    model = LCCAD(2, random_state=0).fit(X, grid((60, 60)))
    assert roc_auc_score(swapped, model.outlierness()) >= 0.97
    assert roc_auc_score(swapped, -IsolationForest(random_state=0).fit(X).score_samples(X)) < 0.6


def test_theta_is_what_a_gaussian_model_would_have():
    rng = np.random.default_rng(0)
    for spread in (0.5, 1.0, 2.0):
        X = spread * rng.normal(size=(1200, 3))
        X[:, 0] += 8 * spread * np.repeat([0, 1, 0], 400)
        X[5] = 1000.0  # one node does not move it
        model = LCCAD(2, random_state=0).fit(X, chain(1200))
        assert model.theta_ == pytest.approx(1 / (1 + 2 * spread**2), rel=0.1)
    assert LCCAD(2, 0.25, random_state=0).fit(X, chain(1200)).theta_ == 0.25


def test_theta_is_kept_with_the_model(tmp_path):
    X, _ = halves((20, 30), 6, 0)
    model = LCCAD(2, random_state=0).fit(X, grid((20, 30)))
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.theta_ == model.theta_
    np.testing.assert_array_equal(again.predict(X, grid((20, 30))), model.predict(X, grid((20, 30))))


@pytest.mark.parametrize("seed", range(5))
def test_without_the_graph_it_is_k_means(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(500, 3)) + 3 * rng.integers(0, 3, size=500)[:, None]
    start = X[rng.choice(500, 3, replace=False)]
    ours = LCCAD(3, 1.0, 1.0, init=start).fit(X, chain(500))
    theirs = KMeans(3, init=start, n_init=1).fit_predict(X)
    assert adjusted_rand_score(ours.labels_, theirs) >= 0.98


def test_a_single_node_is_no_class():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    X[100] = 400.0
    model = LCCAD(2, random_state=0).fit(X, chain(300))
    assert int(model.outlierness().argmax()) == 100
    assert model.outlierness()[100] > 1e5
    assert (model.labels_ == model.labels_[100]).sum() > 50
    alone = LCCAD(2, 0.3, init=[[0.0, 0.0], [400.0, 400.0]])
    with pytest.warns(NotConverged, match="Only 1 of 2 classes"):
        alone.fit(X, chain(300))
    # A class that no node was in is no class for new nodes either.
    assert len(set(alone.predict(X, chain(300)))) == 1
    assert suggest_lccad(X, chain(300), max_classes=3).n_classes == 1


@pytest.mark.parametrize("seed", range(4))
def test_a_column_that_is_wide_in_all_classes_does_not_split_one(seed):
    """Columns of equal spread over all nodes: within the classes, the one that tells them apart is narrow."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(240, 2)) + np.outer(np.repeat([0, 12, 0, 12], 60), [1, 0])
    assert suggest_lccad(X / X.std(axis=0), chain(240), max_classes=3).n_classes == 2


@pytest.mark.parametrize("seed", range(3))
def test_columns_that_go_together_do_not_split_a_class(seed):
    """A class that is long in one direction is one class; two of them are two."""
    rng = np.random.default_rng(seed)
    together = rng.normal(size=(600, 1)) * [1.0, -1.0, 1.0, 1.0] + 0.5 * rng.normal(size=(600, 4))
    assert suggest_lccad(together, grid((20, 30)), max_classes=3).n_classes == 1
    halves_of_it = np.repeat([[0, 1]], 20, axis=0).repeat(15, axis=1).ravel()
    both = together + np.outer(halves_of_it, [6.0, 6.0, 0.0, 0.0])
    assert suggest_lccad(both, grid((20, 30)), max_classes=3).n_classes == 2


def test_a_small_class_is_not_one_with_another():
    """A twelfth of the nodes, far from all others and beside each other, are a class."""
    rng = np.random.default_rng(0)
    classes = np.repeat([[0, 1, 2]], 30, axis=0).repeat([20, 24, 4], axis=1).ravel()
    centres = np.array([[12, 10, -2, -5, 0], [-8, -9, 4, 4, 0], [-8, 3, -12, 0, -14]])
    X = rng.normal(size=(1440, 5)) + centres[classes]
    found = suggest_lccad(X / X.std(axis=0), grid((30, 48)), max_classes=4)
    assert found.n_classes == 3


def test_columns_that_repeat_each_other_are_no_class():
    X = np.random.default_rng(0).normal(size=(400, 1)).repeat(3, axis=1)
    assert suggest_lccad(X, chain(400), max_classes=3).n_classes == 1


def test_a_few_rows_in_a_row_are_no_class():
    """Five of a thousand agree with each other; they are odd, and not a class of their own."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1000, 2))
    X[500:505] = 30.0
    with pytest.warns(NotConverged, match="Only 1 of 2 classes"):
        model = LCCAD(2, 0.3, init=[[0.0, 0.0], [30.0, 30.0]]).fit(X, chain(1000))
    assert set(np.argsort(-model.outlierness())[:5]) == set(range(500, 505))
    assert np.abs(model.centres_[model.labels_[0]]).max() < 0.3


def test_classes_that_the_graph_does_not_show_are_left_as_they_are():
    """Neighbours do not share their class here: none may be talked into another one's."""
    rng = np.random.default_rng(2)
    classes = rng.integers(0, 2, size=1000)
    X = rng.normal(size=(1000, 2))
    X[:, 0] += 6 * classes
    model = LCCAD(2, random_state=0).fit(X, grid((25, 40)))
    assert adjusted_rand_score(classes, model.labels_) > 0.95


@pytest.mark.parametrize("length", [3, 10, 30])
def test_short_visits_of_another_class_stay_visits(length):
    rng = np.random.default_rng(length)
    classes = np.cumsum(rng.random(2000) < 1 / length) % 2
    X = rng.normal(size=(2000, 2))
    X[:, 0] += 5 * classes
    assert adjusted_rand_score(classes, LCCAD(2, random_state=0).fit(X, chain(2000)).labels_) > 0.94


def test_the_paper_s_model_is_there_with_a_notice():
    X, _ = halves((20, 30), 4, 0)
    with pytest.warns(DataNotice, match="prior='crf' learns linear scores"):
        LCCAD(2, 0.3, prior="crf", gamma="auto", random_state=0).fit(X, grid((20, 30)))


def test_restraint():
    costs = np.array([[0.0, 100.0], [1.0, 1.5], [90.0, 1.0], [1.0, 1.0]])
    limit = LEAST / (2 * np.log(2))  # the median of the least costs is 1
    held = costs.copy()
    restrain(held, None, np.array([2, 2, 2, 2], dtype=np.int8), 0.5, n_columns=2)
    np.testing.assert_allclose(held, [[0.0, limit], [1.0, 1.5], [1 + limit, 1.0], [1.0, 1.0]])
    strong = costs.copy()
    degrees = np.array([2, 2, 4, 0], dtype=np.int8)
    restrain(strong, np.array([[20.0, -20.0], [-20.0, 20.0]]), degrees, 0.5, n_columns=2)
    # 0.6 of what two neighbours say, (1 − θ) · 40 each, and 0.45 of what four do.
    np.testing.assert_allclose(strong[0], [0.0, 24.0], rtol=1e-6)
    np.testing.assert_allclose(strong[2], [37.0, 1.0], rtol=1e-6)
    ordinary = is_ordinary(costs, np.array([1, 0, 1, 0]), 1 / (2 * np.log(2)), n_columns=2)
    assert ordinary.tolist() == [False, True, True, True]


@pytest.mark.parametrize("n_columns", [1, 2, 5, 40])
def test_the_spread_of_a_column_does_not_depend_on_their_number(n_columns):
    """Squared distances of normal variables are told in the units of one of them."""
    squares = np.random.default_rng(0).normal(size=(20_000, n_columns)) ** 2
    costs = np.column_stack([9.0 * squares.sum(axis=1), np.full(20_000, np.inf)])
    assert estimate_variance_of_costs(costs, n_columns) == pytest.approx(9.0, rel=0.05)


def test_how_small_a_class_may_be():
    assert find_least_size(10) == 1
    assert find_least_size(50) == 2
    assert find_least_size(10_000) == 100
    assert find_too_small(np.array([0, 1, 5, 94]), 100).tolist() == [False, True, False, False]
