"""Figures of many rows of a classifier: of two classes in terms of one, of more with a colour for each."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import tellwhy
from tellwhy.views import plots

X = np.random.default_rng(0).normal(size=(80, 3))
LABELS = np.where(X[:, 0] > 0, "up", "down")
TWO = tellwhy.explain(LogisticRegression().fit(X, LABELS), X, background=X, target="predicted")
THREE = tellwhy.explain(LogisticRegression().fit(X, np.digitize(X[:, 0], [-0.5, 0.5])), X, background=X)


def test_high_cells_speak_for_one_class_and_low_ones_against_it():
    swarm = plots.beeswarm(TWO)
    # the main feature is drawn last; its contribution rises with its cell in all rows
    drawn = next(trace for trace in swarm.data if trace.name == "x0")
    assert np.corrcoef(np.asarray(drawn.x, float), X[:, 0])[0, 1] > 0.999
    assert swarm.layout.xaxis.title.text == "contribution to the output for 'up'"
    points = plots.scatter(TWO, 0, color=None)
    order = np.argsort(np.asarray(points.data[0].x))
    assert (np.diff(np.asarray(points.data[0].y)[order]) > 0).all()
    assert "class 'up'" in points.layout.title.subtitle.text
    ends = [trace.x[-1] for trace in plots.decision(TWO).data]
    np.testing.assert_allclose(sorted(ends), np.sort(TWO.of_class("up").scores))
    np.testing.assert_allclose(np.sort(plots.scores(TWO).data[0].x), np.sort(TWO.of_class("up").scores))
    shown = np.sort(np.asarray(plots.heatmap(TWO, max_rows=80).data[0].z), axis=None)
    np.testing.assert_allclose(shown, np.sort(TWO.of_class("up").values, axis=None))


@pytest.mark.parametrize("draw", [plots.waterfall, plots.force])
def test_a_single_row_is_told_with_its_own_class(draw):
    row = int(np.argmin(X[:, 0]))
    figure = draw(TWO, row)
    assert "class 'down'" in figure.layout.title.subtitle.text


def test_bars_of_several_classes_are_stacked_and_add_up_to_the_mean():
    figure = plots.bar(THREE)
    assert [trace.name for trace in figure.data[:3]] == ["0", "1", "2"]
    totals = np.sum([trace.x for trace in figure.data[:3]], axis=0)
    means = np.abs(THREE.values).mean(axis=0)
    np.testing.assert_allclose(totals, np.sort(means))
    rows = THREE.extras["explained"] == 1
    expected = np.abs(THREE.values[rows]).sum(axis=0) / len(X)
    np.testing.assert_allclose(figure.data[1].x, expected[np.argsort(means)])
    assert figure.layout.barmode == "stack"
    assert "each row's predicted class (of 3)" in figure.layout.title.subtitle.text


def test_bars_of_two_classes_are_not():
    figure = plots.bar(TWO)
    assert len(figure.data) == 1
    np.testing.assert_allclose(sorted(figure.data[0].x), np.sort(np.abs(TWO.values).mean(axis=0)))
