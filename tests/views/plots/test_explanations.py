"""Figures show the numbers of the explanation, and say what they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

import tellwhy
from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.explanation import Explanation
from tellwhy.views import plots
from tellwhy.views.plots.colors import NEUTRAL, ODD, USUAL
from tellwhy.views.plots.rows import MOST_POINTS
from tellwhy.words.wording import number


def explanation(n: int = 5, d: int = 4, **changes: object) -> Explanation:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(n, d))
    settings = {
        "values": values,
        "scores": values.sum(axis=1) + 1.5,
        "method": "Shapley",
        "feature_names": [f"column {j}" for j in range(d)],
        "base_values": np.full(n, 0.5),
        "data": rng.normal(size=(n, d)),
    }
    return Explanation(**(settings | changes))  # type: ignore[arg-type]


def every_text(figure: go.Figure) -> str:
    return str(figure.to_json())


def test_plot_is_reached_from_the_package() -> None:
    assert tellwhy.plot is plots


def test_bars_add_up_to_the_score() -> None:
    e = explanation(d=15)
    trace = plots.bar(e, row=2, max_features=6).data[0]
    assert sum(trace.x) + e.base_values[2] == pytest.approx(e.scores[2], abs=1e-12)
    assert list(trace.y[:2]) == ["not attributed", "9 other features"]
    largest = int(np.argmax(np.abs(e.values[2])))
    assert trace.y[-1] == f"column {largest} = {number(e.data[2, largest])}"
    assert trace.x[-1] == e.values[2, largest]


def test_bars_that_lower_a_score_have_another_colour() -> None:
    trace = plots.bar(
        explanation(
            values=[[1.0, -2.0]], scores=[0.5], base_values=[0.0], feature_names=["up", "down"], data=None
        )
    ).data[0]
    colors = dict(zip(trace.y, trace.marker.color, strict=True))
    assert colors["up"] == ODD
    assert colors["down"] == USUAL
    assert colors["not attributed"] == NEUTRAL


@pytest.mark.parametrize("kind", ["sensitivity", "signal", "ranking"])
def test_what_is_no_share_is_not_drawn_as_one(kind: str) -> None:
    figure = plots.bar(explanation(kind=kind))
    assert "not attributed" not in every_text(figure)
    assert figure.layout.xaxis.title.text.startswith(kind)
    assert "contribution" not in every_text(figure)
    assert plots.beeswarm(explanation(kind=kind)).layout.xaxis.title.text.startswith(kind)
    assert plots.heatmap(explanation(kind=kind)).layout.coloraxis.colorbar.title.text.startswith(kind)


def test_standard_errors_are_whiskers() -> None:
    e = explanation(stderr=np.full((5, 4), 0.25))
    assert max(plots.bar(e, row=0).data[0].error_x.array) == 0.25
    assert plots.bar(explanation(), row=0).data[0].error_x.array is None


def test_beeswarm_draws_each_row_once_per_feature_and_colours_by_value() -> None:
    e = explanation(n=50, d=6)
    figure = plots.beeswarm(e, max_features=3)
    assert len(figure.data) == 3
    first = figure.data[-1]  # the top line is the most important feature
    j = int(np.argmax(np.abs(e.values).mean(axis=0)))
    np.testing.assert_array_equal(first.x, e.values[:, j])
    level = np.asarray(first.marker.color)
    assert level.argmin() == e.data[:, j].argmin()
    assert level.max() == 1
    assert np.abs(np.asarray(first.y) - 2).max() <= 0.5


def test_beeswarm_samples_many_rows_and_says_so() -> None:
    figure = plots.beeswarm(explanation(n=5000))
    assert len(figure.data[0].x) == MOST_POINTS
    assert "2000 of them drawn" in figure.layout.title.text
    assert "drawn" not in plots.beeswarm(explanation(n=10)).layout.title.text


def test_empty_cells_are_neither_low_nor_high() -> None:
    e = explanation(data=np.array([[np.nan, 1.0, 2.0, 3.0]] * 5) + np.arange(5.0)[:, None])
    figure = plots.beeswarm(e)
    shades = {trace.name: np.asarray(trace.marker.color, dtype=float) for trace in figure.data}
    assert np.isnan(shades["column 0"]).all()
    np.testing.assert_array_equal(shades["column 1"], [0.0, 0.25, 0.5, 0.75, 1.0])
    assert "black" in figure.layout.coloraxis.colorbar.title.text
    assert "black" not in every_text(plots.beeswarm(explanation()))


def test_beeswarm_of_categories_has_one_colour() -> None:
    frame = pd.DataFrame({"column 0": list("abcde"), "column 1": range(5), "column 2": 1.0, "column 3": 2.0})
    colors = [trace.marker.color for trace in plots.beeswarm(explanation(data=frame)).data]
    assert sum(isinstance(color, str) for color in colors) == 1


def test_scores_count_the_rows_above_the_threshold() -> None:
    e = explanation(n=3, scores=[1.0, 2.0, 9.0])
    assert "1 above the threshold" in plots.scores(e, threshold=5.0).layout.title.text
    assert "threshold" not in every_text(plots.scores(e))
    np.testing.assert_array_equal(plots.scores(e).data[0].x, e.scores)


def test_names_are_shown_as_they_are() -> None:
    hostile = '<a href="javascript:alert(1)">x</a> %{x}'
    e = explanation(
        d=2, feature_names=[hostile, "b"], method="<b>bold</b>", params={"explains": "<i>score</i>"}
    )
    for figure in (plots.bar(e), plots.beeswarm(e), plots.heatmap(e), plots.flipping({hostile: [1.0, 0.0]})):
        text = every_text(figure)
        assert "<a href" not in text
        assert "\\u003ca href" not in text
        assert "<b>bold" not in text


def test_columns_of_the_same_name_stay_apart() -> None:
    trace = plots.bar(explanation(d=2, feature_names=["a", "a"])).data[0]
    assert len(set(trace.y)) == len(trace.y)


def test_rows_keep_their_number_after_top() -> None:
    e = explanation(n=3, scores=[1.0, 2.0, 9.0]).top(1)
    assert "row 2" in plots.bar(e).layout.title.text


def test_rows_are_called_by_their_labels_where_these_are_words() -> None:
    frame = pd.DataFrame(np.ones((3, 4)), index=["<b>", "flat 2", "flat 3"])
    e = explanation(n=3, data=frame, scores=[1.0, 2.0, 9.0])
    assert plots.bar(e.top(1)).layout.title.text == "Why row flat 3 scores 9"
    assert plots.bar(e, row=0).layout.title.text == "Why row &lt;b&gt; scores 1"
    assert list(plots.heatmap(e).data[0].y) == ["row &lt;b&gt;", "row flat 2", "row flat 3"]
    numbered = explanation(n=3, data=frame.set_axis([5, 6, 7]), scores=[1.0, 2.0, 9.0])
    assert plots.bar(numbered, row=1).layout.title.text == "Why row 1 scores 2"


@pytest.mark.parametrize("draw", [plots.beeswarm, plots.heatmap, plots.scores])
def test_nothing_to_draw_is_said(draw: object) -> None:
    empty = Explanation(values=np.zeros((0, 2)), scores=np.zeros(0), method="Example")
    with pytest.raises(InvalidInput, match=r"at least one explained row"):
        draw(empty)  # type: ignore[operator]


def test_wrong_counts_are_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"'max_features' parameter of plot\.bar"):
        plots.bar(explanation(), max_features=0)
    with pytest.raises(IndexError, match=r"row 5"):
        plots.bar(explanation(), row=5)


def test_bars_of_an_explanation_show_its_interval() -> None:
    interval = np.array([[[0.5, 1.2], [-3.0, -1.0]]])
    explanation = Explanation(values=[[1.0, -2.0]], scores=[-1.0], method="m", extras={"interval": interval})
    trace = plots.bar(explanation).data[0]
    low = dict(zip(trace.y, np.asarray(trace.x) - trace.error_x.arrayminus, strict=True))
    high = dict(zip(trace.y, np.asarray(trace.x) + trace.error_x.array, strict=True))
    assert (low["x0"], high["x0"]) == pytest.approx((0.5, 1.2))
    assert (low["x1"], high["x1"]) == pytest.approx((-3.0, -1.0))


def test_each_bar_has_the_amount_of_its_name_largest_on_top() -> None:
    e = explanation(values=[[0.5, -3.0, 1.0, 0.25]], scores=[7.0], base_values=[2.0], data=None, n=1)
    trace = plots.bar(e, max_features=2).data[0]
    drawn = dict(zip(trace.y, trace.x, strict=True))
    assert list(drawn.items())[::-1] == [
        ("column 1", -3.0),
        ("column 2", 1.0),
        ("2 other features", 0.75),
        ("not attributed", 6.25),
    ]
    assert list(trace.text) == ["6.25", "0.75", "1", "−3"]
    assert plots.bar(e).layout.title.text == "Why row 0 scores 7"
    assert "on top of the base value 2" in plots.bar(e).layout.xaxis.title.text
    assert "base value" not in every_text(plots.bar(explanation(base_values=np.zeros(5)), row=0))
    assert "base value" not in every_text(plots.bar(explanation(kind="ranking"), row=0))


def test_bars_of_many_rows_are_means_of_sizes() -> None:
    e = explanation(
        values=[[3.0, -4.0, 0.0], [-1.0, -6.0, 0.5]], n=2, d=3, scores=[0.0, 0.0], base_values=[1.0, 1.0]
    )
    trace = plots.bar(e, max_features=2).data[0]
    assert dict(zip(trace.y, trace.x, strict=True)) == {
        "column 1": 5.0,
        "column 0": 2.0,
        "1 other feature, together": 0.25,
    }
    assert trace.y[-1] == "column 1"
    assert plots.bar(e).layout.title.text == "Main features over 2 rows"
    assert plots.bar(e).layout.xaxis.title.text == "contribution to the score: mean size"
    assert plots.bar(e, row=1).layout.title.text == "Why row 1 scores 0"


@pytest.mark.parametrize(
    ("params", "is_odd"),
    [
        ({}, True),
        (
            {
                "explains": "surprise of a committee: −log of the probability of an ordinary row as odd as this"
            },
            True,
        ),
        ({"explains": "outlierness o(x) = −log f_h(x) of the node's latent class h"}, True),
        ({"explains": "the prediction of LinearRegression"}, False),
        ({"explains": "the probability of class 'yes' by RandomForestClassifier"}, False),
        ({"explains": "the output of Sequential"}, False),
        ({"explains": "the prediction of a forest", "task": "anomaly"}, True),
        ({"explains": "a number", "task": "classification"}, False),
    ],
)
def test_only_anomaly_scores_are_called_odd(params: dict[str, str], is_odd: bool) -> None:
    e = explanation(params=params)
    assert ("odder" in every_text(plots.scores(e))) == is_odd
    assert plots.bar(e, row=0).layout.title.text.startswith(
        "Why row 0 scores" if is_odd else "Why the output"
    )
    assert plots.beeswarm(e).layout.xaxis.title.text.endswith("score" if is_odd else "output")


def test_cells_stand_beside_names() -> None:
    frame = pd.DataFrame(
        {
            "town": ["Ulm"],
            "age": [41],
            "long": ["x" * 99],
            "when": pd.to_datetime(["2020-05-01"]),
            "gap": [np.nan],
        }
    )
    e = explanation(values=[[5.0, 4.0, 3.0, 2.0, 1.0]], scores=[1.0], n=1, d=5, data=frame, base_values=[0.0])
    e = Explanation(values=e.values, scores=[1.0], method="m", feature_names=list(frame.columns), data=frame)
    names = list(plots.bar(e).data[0].y)[::-1]
    assert names[:2] == ["town = Ulm", "age = 41"]
    assert names[2].startswith("long = xxx")
    assert len(names[2]) < 45
    assert names[3:5] == ["when = 2020-05-01", "gap = missing"]


def test_swarms_stand_beside_the_names_of_their_features() -> None:
    e = explanation(n=30, d=5)
    figure = plots.beeswarm(e, max_features=4)
    ticks = dict(zip(figure.layout.yaxis.tickvals, figure.layout.yaxis.ticktext, strict=True))
    for trace in figure.data:
        j = int(trace.name.removeprefix("column "))
        line = round(float(np.mean(trace.y)))
        assert ticks[line] == trace.name
        assert np.abs(np.asarray(trace.y) - line).max() < 0.4
        np.testing.assert_array_equal(trace.x, e.values[:, j])
        np.testing.assert_array_equal(np.argsort(trace.marker.color), np.argsort(e.data[:, j]))
    assert figure.layout.title.text == "Main features over 30 rows"


def test_points_of_equal_value_are_drawn_apart() -> None:
    values = np.ones((40, 1))
    trace = plots.beeswarm(Explanation(values=values, scores=np.ones(40), method="Example")).data[0]
    assert len(set(trace.y)) == 40
    assert np.mean(trace.y) == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize(
    ("n_odd", "kind", "title"),
    [
        (0, None, "rows"),
        (1, "log", "rows (logarithmic scale)"),
        (4, "log", "rows (logarithmic scale)"),
        (5, None, "rows"),
    ],
)
def test_few_scores_above_the_threshold_are_counted_on_a_logarithmic_scale(
    n_odd: int, kind: str | None, title: str
) -> None:
    given = np.concatenate([np.linspace(0, 1, 100 - n_odd), np.full(n_odd, 9.0)])
    e = Explanation(values=np.zeros((100, 1)), scores=given, method="Example")
    figure = plots.scores(e, threshold=5.0)
    assert (figure.layout.yaxis.type, figure.layout.yaxis.title.text) == (kind, title)
    assert figure.layout.title.text == f"Scores of 100 rows, {n_odd} above the threshold"
    assert figure.layout.annotations[0].text == "threshold 5"
    assert (figure.layout.shapes[0].x0, figure.layout.shapes[0].x1) == (5.0, 5.0)


def test_a_score_at_the_threshold_is_not_above_it() -> None:
    e = Explanation(values=np.zeros((2, 1)), scores=[5.0, 6.0], method="Example")
    assert "1 above the threshold" in plots.scores(e, threshold=5.0).layout.title.text


def test_what_was_explained_by_which_method_is_told() -> None:
    e = explanation(params={"explains": "the log-odds of class 3"})
    for figure in (plots.bar(e), plots.beeswarm(e), plots.heatmap(e), plots.scores(e)):
        assert figure.layout.title.subtitle.text == "Shapley explains: the log-odds of class 3"
