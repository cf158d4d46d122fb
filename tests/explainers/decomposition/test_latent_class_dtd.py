"""Latent-class explanations: sums, context, corrected equation 4, neighbours."""

import numpy as np
import pytest
from sklearn.kernel_approximation import RBFSampler

import tellwhy
from tellwhy.data.graphs import chain, from_edges, grid
from tellwhy.detectors import LCCAD
from tellwhy.explainers import LatentClassDTD

CLASSES = np.repeat([0, 1, 0], 100)


def rows(seed=0):
    X = np.random.default_rng(seed).normal(size=(300, 3))
    X[:, 0] += 3.0 * CLASSES
    X[50] = [3.0, 0.1, 0.0]  # the other class's centre
    X[60] = [0.0, 0.0, 9.0]  # odd in any class
    return X


@pytest.fixture(scope="module")
def model():
    return LCCAD(2, theta=0.15, gamma=1.0, prior="mrf", random_state=0).fit(rows(), chain(300))


def test_values_sum_to_the_score(model):
    e = LatentClassDTD(model).explain()
    np.testing.assert_allclose(e.scores, model.outlierness())
    np.testing.assert_allclose(e.residual, 0, atol=1e-9)
    np.testing.assert_array_equal(e.extras["class"], model.labels_)
    np.testing.assert_allclose(e.extras["intrinsic"] + e.extras["context"], e.scores)
    assert (e.extras["context"] >= 0).all()
    assert ((e.extras["context_share"] >= 0) & (e.extras["context_share"] <= 1)).all()


def test_value_and_context_are_told_apart(model):
    e = LatentClassDTD(model).explain()
    assert e.extras["context_share"][50] > 0.9
    assert e.extras["context_share"][60] < 0.1
    assert e.values[50].argmax() == 0
    assert e.values[60].argmax() == 2
    assert e.extras["other_class"][50] != e.extras["class"][50]
    assert e.extras["feature_contrast"][50].argmax() == 0
    np.testing.assert_allclose(
        e.extras["feature_contrast"].sum(axis=1), e.scores - e.extras["intrinsic"], atol=1e-9
    )
    assert e.extras["neighbour_pull"][50] > 1.0
    assert (e.extras["neighbour_pull"][e.extras["class"] == e.extras["other_class"]] == 0).all()


def test_pull_by_neighbour_sums_to_the_whole(model):
    explainer = LatentClassDTD(model)
    whole = explainer.explain().extras["neighbour_pull"][50]
    pulls = explainer.pulls(50)
    assert [j for j, _ in pulls] == [49, 51]
    assert sum(pull for _, pull in pulls) == pytest.approx(whole, rel=1e-3)
    assert all(pull > 0 for _, pull in pulls)
    listed = LCCAD(2, theta=0.15, gamma=1.0, prior="mrf", random_state=0).fit(
        rows(), from_edges(chain(300).edges())
    )
    np.testing.assert_allclose(LatentClassDTD(listed).pulls(50), pulls, rtol=1e-6)


def test_neighbours_of_an_ordinary_node_pull_it_from_the_next_best_class(model):
    explainer = LatentClassDTD(model)
    found = explainer.explain().extras
    ordinary = int(np.flatnonzero(found["class"] == found["other_class"])[5])
    arriving = model.received_from(ordinary)[1]
    own = found["class"][ordinary]
    pulls = [pull for _, pull in explainer.pulls(ordinary)]
    np.testing.assert_allclose(pulls, arriving[:, 1 - own] - arriving[:, own])
    assert max(np.abs(pulls)) > 0


def test_pulls_of_a_masked_grid():
    X = rows()[:296].reshape(8, 37, 3)
    mask = np.ones((8, 37), bool)
    mask[3, 6] = False
    fitted = LCCAD(2, theta=0.3, prior="mrf", random_state=0, n_init=1).fit(X, grid((8, 37), 8, mask=mask))
    node = 3 * 37 + 5
    neighbours = {j for j, _ in LatentClassDTD(fitted).pulls(node)}
    expected = {(3 + a) * 37 + 5 + b for a in (-1, 0, 1) for b in (-1, 0, 1)} - {node, 3 * 37 + 6}
    assert neighbours == expected
    e = LatentClassDTD(fitted).explain()
    assert len(e) == 295
    assert 3 * 37 + 6 not in e.extras["row"]


def kernel_relevance(x, points, sigma, *, printed=False):
    """Equation 4 by plain loops; as printed, without the half."""
    delta = (x - points) / sigma
    squares = (delta**2).sum(axis=1)
    k = np.exp(-squares / 2) / len(points)
    o = -np.log(k.sum())
    return sum(
        d**2 / s * (w / k.sum()) * min(o, s if printed else s / 2)
        for d, s, w in zip(delta, squares, k, strict=True)
    ), o


def test_equation_4_with_a_kernel():
    X = rows()
    sampler = RBFSampler(gamma=0.125, n_components=100, random_state=0)  # σ = 2
    fitted = LCCAD(2, 0.9, features=sampler, gamma=1.0, prior="mrf", random_state=0, n_init=1).fit(
        X, chain(300)
    )
    e = LatentClassDTD(fitted, neighbour_pull=False).explain()
    np.testing.assert_allclose(e.scores, fitted.outlierness())
    assert "neighbour_pull" not in e.extras
    for i in (7, 60, 250):
        others = X[(fitted.labels_ == fitted.labels_[i]) & (np.arange(300) != i)]
        expected, o = kernel_relevance(X[i], others, 2.0)
        assert e.scores[i] == pytest.approx(o)
        np.testing.assert_allclose(e.values[i], expected, rtol=1e-9)
    printed = kernel_relevance(
        X[7], X[(fitted.labels_ == fitted.labels_[7]) & (np.arange(300) != 7)], 2.0, printed=True
    )
    assert printed[0].sum() > 1.1 * e.values[7].sum()
    assert (e.residual >= -1e-12).all()
    new = LatentClassDTD(fitted).explain(X[:20] + 0.01, chain(20))
    assert new.values.shape == (20, 3)


def test_some_nodes_and_new_graphs(model):
    explainer = LatentClassDTD(model)
    whole, some = explainer.explain(), explainer.explain(nodes=[60, 50])
    np.testing.assert_array_equal(some.values, whole.values[[60, 50]])
    np.testing.assert_array_equal(some.extras["row"], [60, 50])
    np.testing.assert_array_equal(some.top(1).extras["row"], [60 if some.scores[0] > some.scores[1] else 50])
    again = explainer.explain(rows(), chain(300))
    np.testing.assert_allclose(again.values, whole.values)
    np.testing.assert_allclose(again.extras["context_share"], whole.extras["context_share"])


def test_explanations_can_be_saved(model, tmp_path):
    e = LatentClassDTD(model).explain(nodes=[1, 50])
    again = type(e).load(e.save(tmp_path / "e"))
    np.testing.assert_array_equal(again.extras["feature_contrast"], e.extras["feature_contrast"])
    np.testing.assert_array_equal(again.extras["class"], e.extras["class"])


def test_the_one_liner_takes_a_model_of_nodes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) + np.repeat([[0.0, 0.0], [4.0, 0.0]], 100, axis=0)
    model = LCCAD(2, random_state=0).fit(X)
    told = tellwhy.explain(model, X)
    assert told.method == "LatentClassDTD"
    np.testing.assert_array_equal(told.values, LatentClassDTD(model).explain().values)
    new = tellwhy.explain(model, X[:50] + 0.01)
    assert new.values.shape == (50, 2)
