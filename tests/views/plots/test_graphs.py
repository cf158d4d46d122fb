"""Maps, cross-plots and time lines of explained nodes."""

import numpy as np
import pytest

import tellwhy
from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.data.graphs import chain, grid
from tellwhy.detectors import LCCAD
from tellwhy.explainers import LatentClassDTD

SHAPE = (6, 8)


def explained(graph, n_features=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(graph.n_nodes, n_features))
    X[: graph.n_nodes // 2] += 6.0
    return LatentClassDTD(LCCAD(2, 0.5, n_init=1, random_state=0).fit(X, graph)).explain()


def test_maps_hold_the_numbers():
    mask = np.ones(SHAPE, bool)
    mask[2, 3] = False
    graph = grid(SHAPE, mask=mask)
    e = explained(graph)
    other = np.arange(48.0)
    figure = tellwhy.plot.node_maps(e, graph, others={"isolation <b>forest": other})
    titles = [a.text for a in figure.layout.annotations]
    assert titles[:3] == ["class", "score", "context"]
    assert titles[-1] == "isolation &lt;b&gt;forest"
    score = np.asarray(figure.data[1].z)
    assert np.isnan(score[2, 3])
    np.testing.assert_allclose(score.ravel()[e.extras["row"]], e.scores)
    np.testing.assert_allclose(np.asarray(figure.data[3].z).ravel()[e.extras["row"]], e.values[:, 0])
    np.testing.assert_allclose(np.asarray(figure.data[-1].z).ravel(), other)
    assert set(np.asarray(figure.data[0].z)[mask]) == {0, 1}


def test_slices_of_volumes():
    graph = grid((3, 4, 5), 6)
    e = explained(graph)
    oddest = int(e.extras["row"][e.scores.argmax()]) // 20
    figure = tellwhy.plot.node_maps(e, graph)
    assert f"slice {oddest} of 3" in figure.layout.title.text
    np.testing.assert_allclose(np.asarray(figure.data[1].z).ravel(), e.scores[20 * oddest : 20 * oddest + 20])
    np.testing.assert_allclose(tellwhy.plot.node_maps(e, graph, at=2).data[1].z.ravel(), e.scores[40:])


def test_cross_plot_colours_classes():
    e = explained(grid(SHAPE))
    figure = tellwhy.plot.cross_plot(e, odd=0.05)
    assert sum(len(trace.x) for trace in figure.data[:2]) == 48
    ringed = figure.data[2].customdata
    assert set(ringed) == set(np.argsort(-e.scores)[:2])
    assert len({trace.marker.color for trace in figure.data}) == 3


def test_time_line():
    e = explained(chain(60), n_features=3)
    figure = tellwhy.plot.time_line(e, max_features=2)
    lines = [trace for trace in figure.data if "lines" in trace.mode]
    assert len(lines) == 6
    first = np.column_stack([lines[0].y, lines[1].y])
    assert (np.isfinite(first).sum(axis=1) == 1).all()
    dated = tellwhy.plot.time_line(e, times=[f"2024-01-{1 + k // 24:02d}" for k in range(60)])
    assert dated.data[0].x[0] == "2024-01-01"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda e, plain: tellwhy.plot.node_maps(e, chain(48)), "plot.time_line"),
        (lambda e, plain: tellwhy.plot.node_maps(plain, grid(SHAPE)), "no classes"),
        (lambda e, plain: tellwhy.plot.node_maps(e, grid((2, 2))), "the grid has 4"),
        (lambda e, plain: tellwhy.plot.node_maps(e, grid(SHAPE), others={"a": [1.0]}), "has 1 scores"),
        (lambda e, plain: tellwhy.plot.node_maps(e, grid((2, 4, 6), 6), at=2), "'at' parameter"),
        (lambda e, plain: tellwhy.plot.cross_plot(e, 0, 2), "'y' parameter"),
        (lambda e, plain: tellwhy.plot.cross_plot(e, odd=2.0), "'odd' parameter"),
        (lambda e, plain: tellwhy.plot.time_line(e, times=[1, 2]), "2 entries for 48"),
        (lambda e, plain: tellwhy.plot.time_line(plain), "no classes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_is_refused(call, words):
    plain = Explanation(values=np.ones((2, 2)), scores=np.ones(2), method="Example")
    with pytest.raises(InvalidInput, match=words):
        call(explained(grid(SHAPE)), plain)
