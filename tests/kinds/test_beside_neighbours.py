"""What nodes should have by their class or by their neighbours."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.ndimage import gaussian_filter
from sklearn.metrics import roc_auc_score

import tellwhy
from tellwhy.data.graphs import chain, from_edges, grid, knn_graph
from tellwhy.kinds.beside_neighbours import find_middle_of_neighbours, learn_law
from tellwhy.kinds.graph import explain_graph
from tellwhy.kinds.node_reasons import verify_reasons
from tellwhy.results.result import Reason


def slow_middle(values, graph):
    found = np.full(len(values), np.nan)
    beside = [[] for _ in values]
    for one, other in graph.edges().tolist():
        beside[one].append(values[other])
        beside[other].append(values[one])
    for i, each in enumerate(beside):
        if each and (graph.mask is None or graph.mask[i]):
            found[i] = np.median(each)
    return found


def graphs():
    rng = np.random.default_rng(0)
    mask = rng.random(60) > 0.2
    yield chain(60)
    yield chain([20, 1, 39])
    yield grid((6, 10))
    yield grid((6, 10), 8, mask=mask)
    yield grid((3, 4, 5), 6, mask=mask)
    yield grid((3, 4, 5), 26)
    yield knn_graph(rng.random((60, 2)), 5)
    yield knn_graph(rng.random((60, 2)), 3, mask=mask)


@pytest.mark.parametrize("graph", list(graphs()), ids=str)
def test_the_middle_of_neighbours_is_the_median(graph):
    values = np.random.default_rng(1).normal(size=60)
    found = find_middle_of_neighbours(values, graph)
    there = np.ones(60, bool) if graph.mask is None else graph.mask
    np.testing.assert_allclose(found[there], slow_middle(values, graph)[there])


def field(noise=0.05, seed=0):
    """A smooth field with ten nodes that are off, the values of which are ordinary elsewhere."""
    rng = np.random.default_rng(seed)
    smooth = gaussian_filter(rng.normal(size=(30, 40)), 4)
    smooth /= smooth.std()
    values = smooth.ravel() + noise * rng.normal(size=1200)
    odd = rng.choice(1200, 10, replace=False)
    values[odd] += np.where(values[odd] > 0, -1, 1) * 8 * noise
    return np.column_stack([values, rng.normal(size=1200)]), odd


def classes_of(X, labels):
    centres = np.array([X[labels == k].mean(axis=0) for k in np.unique(labels)])
    return SimpleNamespace(labels_=labels, centres_=centres)


def test_each_column_goes_the_way_that_tells_most_of_it():
    X, _ = field()
    smooth = learn_law(X, grid((30, 40)), classes_of(X, np.zeros(1200, int)))
    assert smooth.ways[0] != "class"
    assert smooth.ways[1] == "class"
    assert smooth.spreads[0] < 0.15
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 0], 400)
    noise = rng.normal(size=(1200, 2))
    assert (
        learn_law(noise + 6.0 * labels[:, None], chain(1200), classes_of(noise + 6 * labels[:, None], labels))
        is None
    )
    drift = np.cumsum(rng.normal(size=1200)) * 0.2
    both = np.column_stack([drift - drift.mean() + 40.0 * labels, noise[:, 0]])
    found = learn_law(both, chain(1200), classes_of(both, labels))
    assert found.ways[0] in ("both", "neighbours")
    codes = np.column_stack([labels, X[:, 1]]).astype(float)
    assert learn_law(codes, chain(1200), classes_of(codes, np.zeros(1200, int))) is None


def test_nodes_without_neighbours_are_judged_by_their_class():
    X, _ = field()
    edges = grid((30, 40)).edges()
    graph = from_edges(edges[(edges != 5).all(axis=1)], 1200)
    classes = classes_of(X, np.zeros(1200, int))
    law = learn_law(X, graph, classes)
    parts = law.measure(X, graph, classes.labels_, classes.centres_)
    assert parts[5, 0] == pytest.approx(((X[5, 0] - classes.centres_[0, 0]) / law.spreads[0]) ** 2)
    beside = slow_middle(X[:, 0], graph)
    assert parts[77, 0] == pytest.approx(((X[77, 0] - beside[77]) / law.spreads[0]) ** 2)


def test_a_smooth_field_is_judged_beside_its_neighbours(tmp_path):
    """Where classes cut a field into steps, a local median is better: no longer."""
    X, odd = field()
    path = tmp_path / "field.npz"
    np.savez(path, height=X[:, 0].reshape(30, 40), other=X[:, 1].reshape(30, 40))
    model = tellwhy.fit(path, kind="graph")
    result = tellwhy.judge(model, path)
    is_odd = np.isin(np.arange(1200), odd)
    beside = slow_middle(X[:, 0], grid((30, 40)))
    assert roc_auc_score(is_odd, result.scores) > roc_auc_score(is_odd, np.abs(X[:, 0] - beside)) - 0.02
    first = next(anomaly for anomaly in result.anomalies if anomaly.row in odd)
    reason = first.reasons[0]
    assert (reason.feature, reason.holds) == ("height", True)
    assert reason.facts["beside"] == pytest.approx(beside[first.row])
    assert "beside it" in reason.text
    np.testing.assert_allclose(result.explanation.values.sum(axis=1), result.explanation.scores)
    assert any("Neighbours tell more of height" in notice.text for notice in result.notices)
    again = tellwhy.judge(tellwhy.load(tellwhy.save(model, tmp_path / "m.tellwhy")), path)
    np.testing.assert_array_equal(again.scores, result.scores)
    np.savez(tmp_path / "more.npz", height=X[:, 0].reshape(30, 40) + 0, other=X[::-1, 1].reshape(30, 40))
    other = tellwhy.judge(model, tmp_path / "more.npz")
    assert np.corrcoef(other.explanation.values[:, 0], other.explanation.values[:, 0])[0, 1] > 0.99
    assert set(odd) & {anomaly.row for anomaly in other.anomalies[:5]}


def told(values, line):
    frame = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "b", "c"])
    found = tellwhy.Explanation(
        values=np.array([values]), scores=np.array([sum(values)]), base_values=np.zeros(1), data=frame,
        feature_names=["a", "b", "c"], method="x", kind="attribution",
    )  # fmt: skip
    reasons = [Reason(name, 1.0, [0.0, 1.0], 0.3) for name in "abc"]
    return {reason.feature for reason in verify_reasons(reasons, found, line) if reason.holds}


def test_a_reason_holds_if_it_is_needed_and_enough():
    assert told([50.0, 2.0, 1.0], 20.0) == {"a"}
    assert told([15.0, 14.0, 1.0], 20.0) == {"a", "b"}  # without a it is ordinary, but a alone is, too
    assert told([30.0, 25.0, 1.0], 20.0) == {"a", "b"}
    assert told([8.0, 7.0, 6.0], 20.0) == {"a", "b", "c"}
    assert told([5.0, 2.0, 1.0], 20.0) == set()


def test_a_table_of_places_with_edges_is_judged_alike(tmp_path):
    rng = np.random.default_rng(3)
    places = rng.random((400, 2))
    rent = 500 + 400 * places[:, 0] + 10 * rng.normal(size=400)
    rent[17] += 150
    pd.DataFrame({"id": np.arange(400), "rent": rent}).to_csv(tmp_path / "flats.csv", index=False)
    pd.DataFrame(knn_graph(places, 6).edges(), columns=["from", "to"]).to_csv(
        tmp_path / "edges.csv", index=False
    )
    found = explain_graph(tmp_path / "flats.csv", edges=tmp_path / "edges.csv", id_column="id").run
    assert found.anomalies[0].row == 17
    assert found.anomalies[0].reasons[0].holds
