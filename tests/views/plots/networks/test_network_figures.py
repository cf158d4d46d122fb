"""Figures of explained networks show what they are given, in its place."""

import numpy as np
import pytest

from tellwhy import plot
from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.explanation import Explanation
from tellwhy.evaluation import BoxRatios, strategies
from tellwhy.kinds.networks.grids import ExplanationGrid
from tellwhy.views.plots.visualisations import visualise


def cell(values, method="LRP"):
    return Explanation(values=np.asarray(values, dtype=float)[None], scores=[1.0], method=method)


@pytest.fixture
def made():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, 2, 5, 5))
    cells = [[cell(values[0, 0]), cell(values[0, 1], "PatternNet")], [None, cell(values[1, 1])]]
    pictures = [rng.random((1, 5, 5)) for _ in range(2)]
    return values, ExplanationGrid(
        "Test", ["<b>one</b>", "two"], ["A", "B"], cells, ["0.9", ""], pictures, {(1, 0): "it is no chain"}
    )


def test_cells_are_where_they_belong(made):
    values, grid = made
    figure = plot.grid(grid)
    assert len(figure.data) == 6  # two inputs, three cells, and a blank one
    places = {(trace.xaxis, trace.yaxis): np.asarray(trace.z) for trace in figure.data}
    np.testing.assert_array_equal(places["x2", "y2"], visualise(values[0, 0], how="heatmap"))
    np.testing.assert_array_equal(places["x3", "y3"], visualise(values[0, 1], how="projection"))
    np.testing.assert_array_equal(places["x6", "y6"], visualise(values[1, 1], how="heatmap"))
    refused = next(note for note in figure.layout.annotations if note.text == "refused")
    assert (refused.xref, refused.yref) == ("x5 domain", "y5 domain")
    texts = [note.text for note in figure.layout.annotations]
    assert "&lt;b&gt;one&lt;/b&gt;" in texts
    assert "Refused" in figure.layout.title.subtitle.text


def test_roots_and_other_views(made):
    values, grid = made
    shown = np.asarray(plot.grid(grid, how="graymap", root=True).data[1].z)
    np.testing.assert_array_equal(shown, visualise(values[0, 0], how="graymap", root=True))
    with pytest.raises(InvalidParameter, match="'how'"):
        plot.grid(grid, how="loud")


def test_what_is_not_defined_is_said():
    e = Explanation(
        values=np.zeros((1, 5, 5)), scores=[-1.0], method="DeepTaylor", extras={"undefined": np.array([True])}
    )
    figure = plot.grid(ExplanationGrid("Test", ["one"], ["A"], [[e]], [""], [np.ones((5, 5))]))
    assert "not defined" in [note.text for note in figure.layout.annotations]


def test_texts_are_refused():
    grid = ExplanationGrid("Test", ["one"], ["A"], [[cell(np.ones(3))]], [""], [np.ones(3)])
    with pytest.raises(InvalidInput, match=r"draws pictures.*\(3,\)"):
        plot.grid(grid)


def test_odd_groups_are_drawn_with_their_words():
    rng = np.random.default_rng(0)
    values = np.zeros((60, 14, 14))
    values[:, 5:9, 5:9] = rng.random((60, 4, 4))
    values[:20, :2, :2] = 3.0
    data = 0.1 * rng.random((60, 14, 14))
    data[:20, :2, :2] = 1.0
    e = Explanation(values=values, scores=np.ones(60), method="LRP", data=data)
    found = strategies(e, np.repeat([0, 1], 30))
    figure = plot.strategies(found, e)
    assert figure.layout.title.text == "Groups of explanations that look where others do not"
    assert figure.layout.title.subtitle.text == found.odd[0].words()
    assert len(figure.data) == 7
    with pytest.raises(InvalidInput, match="holds no data"):
        plot.strategies(found, Explanation(values=values, scores=np.ones(60), method="LRP"))


def test_classes_below_an_even_spread_are_marked():
    ratios = BoxRatios(np.array([0.1, 0.1, 0.8, 0.9]), np.full(4, 0.3), np.array([1, 1, 0, 0]))
    bars = plot.box_ratios(ratios, names=["shirt", "bag"]).data[0]
    assert list(bars.y) == ["bag", "shirt"]
    assert bars.marker.color[0] != bars.marker.color[1]
    np.testing.assert_allclose(bars.x, [0.1, 0.85])
