"""Maps, cross-plots and time lines of explained nodes."""

import numpy as np
import pytest

import tellwhy
from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.data.graphs import chain, grid
from tellwhy.detectors import LCCAD
from tellwhy.explainers import LatentClassDTD
from tellwhy.views.plots.colors import CLASS_COLORS, ODD

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


def by_hand(n=6, **changes):
    values = np.column_stack([np.full(n, 0.1), np.arange(float(n))])
    extras = {"class": np.arange(n) % 3, "context": np.zeros(n)}
    settings = {"values": values, "scores": np.arange(float(n)), "method": "LatentClassDTD", "extras": extras}
    settings |= {
        "data": np.column_stack([10.0 + np.arange(n), 20.0 - np.arange(n)]),
        "feature_names": ["<AI>", "SI"],
    }
    return Explanation(**(settings | changes))


def test_classes_have_the_same_colours_in_every_figure():
    classes = np.array([0, 1, 2, 3, 9, 10])
    e = by_hand(extras={"class": classes})
    plane = tellwhy.plot.node_maps(e, grid((2, 3))).data[0]
    stops = [(edge * 10, color) for edge, color in plane.colorscale]
    for k, z in zip(classes, np.asarray(plane.z).ravel(), strict=True):
        (color,) = {
            c for (a, c), (b, d) in zip(stops[::2], stops[1::2], strict=True) if a <= z + 0.5 <= b and c == d
        }
        assert color == CLASS_COLORS[k % 10]
    points = {t.name: t.marker.color for t in tellwhy.plot.cross_plot(e).data}
    lines = {t.name: t.line.color for t in tellwhy.plot.time_line(e).data if t.name != "oddest"}
    for k in classes:
        assert points[f"class {k}"] == lines[f"class {k}"] == CLASS_COLORS[k % 10]


def test_one_absurd_node_is_not_the_scale_of_a_map():
    scores = np.append(np.arange(399.0) + 5, 1e6)
    e = by_hand(n=400, scores=scores)
    drawn = tellwhy.plot.node_maps(e, grid((20, 20))).data[1]
    assert (drawn.zmin, drawn.zmax) == (0, pytest.approx(np.quantile(scores, 0.995)))
    negative = tellwhy.plot.node_maps(by_hand(n=400, scores=scores - 50), grid((20, 20))).data[1]
    assert negative.zmin == -45


def test_maps_are_told_by_name_in_order():
    figure = tellwhy.plot.node_maps(by_hand(), grid((2, 3)), others={"forest": np.zeros(6)})
    titles = [note.text for note in figure.layout.annotations]
    assert titles == ["class", "score", "context", "relevance of &lt;AI&gt;", "relevance of SI", "forest"]
    assert figure.layout.title.text == "Classes, scores and reasons of 6 nodes"
    assert figure.layout.yaxis.autorange == "reversed"


def test_cross_plots_name_their_axes_and_ring_the_oddest():
    e = by_hand(n=10)
    figure = tellwhy.plot.cross_plot(e, 1, 0, odd=0.2)
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("SI", "&lt;AI&gt;")
    for trace in figure.data[:-1]:
        np.testing.assert_array_equal(trace.x, e.data[trace.customdata, 1])
        np.testing.assert_array_equal(trace.y, e.data[trace.customdata, 0])
        assert {f"class {k}" for k in e.extras["class"][trace.customdata]} == {trace.name}
    rings = figure.data[-1]
    assert (rings.name, rings.marker.color, list(rings.customdata)) == ("oddest 20 %", ODD, [9, 8])


def test_time_lines_show_the_most_relevant_features_first_and_the_score_last():
    e = by_hand()
    figure = tellwhy.plot.time_line(e, odd=0.3)
    assert [axis.title.text for axis in figure.select_yaxes()] == ["SI", "&lt;AI&gt;", "score"]
    marked = [trace for trace in figure.data if trace.name == "oddest"]
    for trace, values in zip(marked, (e.data[:, 1], e.data[:, 0], e.scores), strict=True):
        assert list(trace.x) == [5, 4]
        np.testing.assert_array_equal(trace.y, values[[5, 4]])
    for line, values in enumerate((e.data[:, 1], e.data[:, 0], e.scores)):
        for k, trace in enumerate(figure.data[4 * line : 4 * line + 3]):
            np.testing.assert_array_equal(np.flatnonzero(np.isfinite(trace.y)), [k, k + 3])
            np.testing.assert_array_equal(np.asarray(trace.y)[[k, k + 3]], values[[k, k + 3]])


def test_times_are_those_of_the_explained_nodes():
    extras = {"class": np.zeros(6, int), "row": np.array([3, 5, 7, 9, 11, 13])}
    assert list(tellwhy.plot.time_line(by_hand(extras=extras)).data[0].x) == [3, 5, 7, 9, 11, 13]
