"""The gallery of patterns shows what the insights hold, with their intervals."""

from dataclasses import replace

import numpy as np
import pytest

from tellwhy import plot
from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.explainers import DMMMEN
from tellwhy.explainers.surrogate.insight import Insight
from tellwhy.views.plots.colors import INK, ODD, USUAL

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


def pattern(**changes):
    made = Insight(
        target="<cat>",
        component=0,
        share=0.4,
        share_interval=(0.3, 0.52),
        coefficients=np.array([2.0, -1.0, 0.5]),
        interval=np.array([[1.0, 3.0], [-1.5, -0.5], [-0.5, 1.5]]),
        effects=np.array([4.0, -3.0, 0.5]),
        top=np.array([0, 1, 2]),
        names=("a", "b", "c"),
        centre=np.zeros(3),
        rows=np.arange(4),
        applies=(("b", -1.0, 2.0),),
        credibility=0.9,
        examples=np.zeros((1, 3)),
        others=np.zeros((1, 3)),
    )
    return replace(made, **changes)


@pytest.mark.parametrize(
    ("changes", "title"),
    [
        ({}, "&lt;cat&gt;: 40 % of its rows (30–52)"),
        ({"share_interval": (0.385, 0.415)}, "&lt;cat&gt;: 40 % of its rows (38–42)"),
        ({"share_interval": (0.399, 0.401)}, "&lt;cat&gt;: 40 % of its rows"),
        ({"component": -1}, "&lt;cat&gt;: all rows"),
    ],
)
def test_titles_tell_how_many_rows_a_pattern_describes(changes, title):
    assert plot.insights([pattern(**changes, applies=())]).layout.annotations[0].text == title


def test_bars_are_effects_in_the_colour_of_their_direction_with_intervals_of_effects():
    figure = plot.insights([pattern()], max_features=2)
    trace = figure.data[0]
    assert list(trace.y) == ["b", "a"]
    assert list(trace.x) == [-3.0, 4.0]
    assert list(trace.marker.color) == [USUAL, ODD]
    np.testing.assert_allclose(np.asarray(trace.x) - trace.error_x.arrayminus, [-4.5, 2.0])
    np.testing.assert_allclose(np.asarray(trace.x) + trace.error_x.array, [-1.5, 6.0])
    assert figure.layout.annotations[0].text.endswith("where b is −1 to 2</span>")
    assert "90 % probability" in figure.layout.title.subtitle.text


def test_words_have_the_colour_of_their_direction_and_lists_one_length():
    short = pattern(top=np.array([1]), names=("b",))
    cells = plot.insights([pattern(), short], style="words").data[0].cells
    assert list(cells.values[0]) == [
        "<b>a</b>  2 [1, 3]",
        "<b>b</b>  −1 [−1.5, −0.5]",
        "<b>c</b>  0.5 [−0.5, 1.5]",
    ]
    assert list(cells.values[1]) == ["<b>b</b>  −1 [−1.5, −0.5]", "", ""]
    assert [list(column) for column in cells.font.color] == [[ODD, USUAL, ODD], [USUAL, INK, INK]]


def test_each_heat_map_has_its_own_scale_centred_at_zero():
    image = {
        "coefficients": np.array([[1.0, -2.0], [0.1, 0.2]]),
        "effects": np.array([[1.0, -4.0], [0.1, 0.2]]),
    }
    image |= {"interval": np.zeros((2, 2, 2)), "top": np.array([1, 0]), "names": ("x0_1", "x0_0")}
    figure = plot.insights([pattern(**image), pattern(**image, share=0.1)])
    drawn = figure.data[0]
    assert (drawn.zmin, drawn.zmax) == (-4.0, 4.0)
    np.testing.assert_array_equal(drawn.z, [[1.0, -4.0], [np.nan, np.nan]])
    assert "The 2 main pixels of each pattern" in figure.layout.title.subtitle.text
    assert (
        "The 1 main pixel of" in plot.insights([pattern(**image)], max_features=1).layout.title.subtitle.text
    )
