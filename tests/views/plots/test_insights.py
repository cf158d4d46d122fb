"""The gallery of patterns shows what the insights hold, with their intervals."""

from dataclasses import replace

import numpy as np
import pytest

from tellwhy import plot
from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.explanation import Explanation
from tellwhy.explainers import DMMMEN

QUICK = {"n_components": 1, "n_sweeps": 60, "n_burn": 30}


@pytest.fixture(scope="module")
def of_columns():
    X = np.random.default_rng(0).normal(size=(150, 4))
    return DMMMEN(lambda rows: 2 * rows[:, 0] - rows[:, 3], **QUICK).fit(X).insights(3)


@pytest.fixture(scope="module")
def of_images():
    X = np.random.default_rng(0).random((150, 1, 5, 6))
    return (
        DMMMEN(lambda rows: 3 * rows[:, 0, 1, 2] - 2 * rows[:, 0, 4, 5], scale="common", **QUICK)
        .fit(X)
        .insights(2)
    )


def test_bars_have_intervals(of_columns):
    trace = plot.insights(of_columns).data[0]
    insight = of_columns[0]
    assert list(trace.y)[::-1] == list(insight.names)
    np.testing.assert_allclose(trace.x[::-1], insight.effects[insight.top])
    deviations = insight.effects[insight.top] / insight.coefficients[insight.top]
    low, high = insight.interval[insight.top].T * deviations
    np.testing.assert_allclose(np.array(trace.x) - trace.error_x.arrayminus, low[::-1])
    np.testing.assert_allclose(np.array(trace.x) + trace.error_x.array, high[::-1])


def test_bars_that_may_be_zero_are_pale(of_columns):
    trace = plot.insights(of_columns).data[0]
    sure = np.sign(trace.x - np.array(trace.error_x.arrayminus)) == np.sign(
        trace.x + np.array(trace.error_x.array)
    )
    np.testing.assert_array_equal(np.array(trace.marker.opacity) == 1.0, sure)
    assert sure.tolist() == [False, True, True]


def test_panels_make_room_for_long_names(of_columns):
    long = [
        replace(i, names=tuple(f"a name of a column that is long {n}" for n in i.names)) for i in of_columns
    ]
    short, wide = (plot.insights(found * 3) for found in (of_columns, long))
    assert [len({ax.domain for ax in f.select_xaxes()}) for f in (short, wide)] == [3, 2]
    assert wide.layout.xaxis2.domain[0] - wide.layout.xaxis.domain[1] > 0.2


def test_bars_say_where_they_apply():
    X = np.random.default_rng(0).normal(size=(200, 2))
    found = (
        DMMMEN(lambda rows: np.where(rows[:, 0] > 0, 9 + rows[:, 1], -9), n_components=3).fit(X).insights(2)
    )
    assert "where x0 is" in plot.insights(found).layout.annotations[0].text


def test_heat_maps_show_the_main_pixels_only(of_images):
    trace = plot.insights(of_images).data[0]
    shown = np.array(trace.z, dtype=float)
    assert shown.shape == (5, 6)
    assert np.isfinite(shown).sum() == 2
    assert shown[1, 2] > 0 > shown[4, 5]
    np.testing.assert_allclose(trace.customdata[1, 2], of_images[0].interval[0, 1, 2])
    assert np.isfinite(np.array(plot.insights(of_images, max_features=1).data[0].z, dtype=float)).sum() == 1


def test_words_are_listed_with_intervals_and_shown_as_they_are():
    import pandas as pd

    X = pd.DataFrame(np.random.default_rng(0).normal(size=(100, 2)), columns=["<b>mac</b>", "dos"])
    found = DMMMEN(lambda rows: rows[:, 0] - 2 * rows[:, 1], **QUICK).fit(X).insights(2)
    cells = plot.insights(found, style="words").data[0].cells.values[0]
    assert "dos" in cells[0]
    assert "[" in cells[0]
    assert "&lt;b&gt;mac" in cells[1]


def test_panels_are_titled_with_class_and_share(of_columns):
    titles = [a.text for a in plot.insights(of_columns * 5, columns=2).layout.annotations]
    assert len(titles) == 5
    assert titles[0].startswith("score: 100 %")


def test_what_cannot_be_drawn_is_said(of_columns):
    with pytest.raises(InvalidInput, match="images"):
        plot.insights(of_columns, style="heatmap")
    with pytest.raises(InvalidInput, match="empty"):
        plot.insights([])
    with pytest.raises(InvalidParameter, match="style"):
        plot.insights(of_columns, style="pie")


def test_images_with_channels_first_are_drawn_upright():
    values = np.arange(2 * 3 * 4 * 5, dtype=float).reshape(2, 3, 4, 5)
    explanation = Explanation(values=values, scores=np.ones(2), method="m")
    np.testing.assert_array_equal(plot.heatmap(explanation).data[0].z, values[0].sum(axis=0))


def test_bars_of_an_explanation_show_its_interval():
    interval = np.array([[[0.5, 1.2], [-3.0, -1.0]]])
    explanation = Explanation(values=[[1.0, -2.0]], scores=[-1.0], method="m", extras={"interval": interval})
    trace = plot.bar(explanation).data[0]
    at = [str(name) for name in trace.y].index("x1")
    assert (trace.x[at] - trace.error_x.arrayminus[at], trace.x[at] + trace.error_x.array[at]) == (-3.0, -1.0)
