"""Figures show the numbers of the explanation, and say what they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

import tellwhy
from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.explanation import Explanation
from tellwhy.evaluation import Flipping
from tellwhy.views import plots


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
    assert sum(trace.x) == pytest.approx(e.scores[2], abs=1e-12)
    assert list(trace.y[:3]) == ["not attributed", "base value", "9 other features"]
    largest = int(np.argmax(np.abs(e.values[2])))
    assert trace.y[-1] == f"column {largest}"
    assert trace.x[-1] == e.values[2, largest]


def test_bars_that_lower_a_score_have_another_colour() -> None:
    trace = plots.bar(
        explanation(
            values=[[1.0, -2.0]], scores=[0.5], base_values=[0.0], feature_names=["up", "down"], data=None
        )
    ).data[0]
    colors = dict(zip(trace.y, trace.marker.color, strict=True))
    assert colors["up"] == plots.style.ODD
    assert colors["down"] == plots.style.USUAL
    assert colors["not attributed"] == plots.style.NEUTRAL


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
    assert max(plots.bar(e).data[0].error_x.array) == 0.25
    assert plots.bar(explanation()).data[0].error_x.array is None


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
    assert len(figure.data[0].x) == plots.explanations.MOST_POINTS
    assert "2000 of them drawn" in figure.layout.title.text
    assert "drawn" not in plots.beeswarm(explanation(n=10)).layout.title.text


def test_beeswarm_of_categories_has_one_colour() -> None:
    frame = pd.DataFrame({"column 0": list("abcde"), "column 1": range(5), "column 2": 1.0, "column 3": 2.0})
    colors = [trace.marker.color for trace in plots.beeswarm(explanation(data=frame)).data]
    assert sum(isinstance(color, str) for color in colors) == 1


@pytest.mark.parametrize(
    "values", [np.eye(3), -np.eye(3), np.array([[1.0, 0.0, 0.0], [0.0, -5.0, 0.0], [0.0, 0.0, 2.0]])]
)
def test_the_colour_scale_is_centred_at_zero(values: np.ndarray) -> None:
    axis = plots.heatmap(Explanation(values=values, scores=np.ones(3), method="Example")).layout.coloraxis
    assert axis.cmin == -np.abs(values).max()
    assert axis.cmax == np.abs(values).max()
    assert axis.cmid == 0


def test_heatmap_of_a_table_keeps_the_main_features_in_order() -> None:
    e = explanation(n=60, d=30)
    trace = plots.heatmap(e, max_rows=10, max_features=5).data[0]
    chosen = np.argsort(-np.abs(e.values[:10]).mean(axis=0), kind="stable")[:5]
    np.testing.assert_array_equal(trace.z, e.values[:10][:, chosen])
    assert list(trace.x) == [f"column {j}" for j in chosen]


def test_images_are_drawn_one_per_row_with_channels_summed() -> None:
    values = np.random.default_rng(1).normal(size=(5, 6, 7, 3))
    e = Explanation(values=values, scores=np.ones(5), method="LRP")
    figure = plots.heatmap(e)
    assert len(figure.data) == 5
    np.testing.assert_allclose(figure.data[3].z, values[3].sum(axis=-1), rtol=0, atol=1e-12)
    assert figure.layout.yaxis2.scaleanchor == "x2"
    with pytest.raises(InvalidInput, match=r"features of shape"):
        plots.heatmap(Explanation(values=np.zeros((1, 2, 2, 2, 2)), scores=[1.0], method="Example"))


def test_flipping_takes_results_lists_and_mappings() -> None:
    curves = np.array([[2.0, 1.0, 0.0], [4.0, 1.0, 0.0]])
    result = Flipping(curves=curves, areas=np.array([0.5, 0.4]), method="OneClassDTD")
    mean = result.mean_curve()
    for given in (result, [result], {"OneClassDTD": result}, {"OneClassDTD": mean}):
        trace = plots.flipping(given).data[0]
        assert trace.name == "OneClassDTD"
        np.testing.assert_array_equal(trace.y, mean)
    both = plots.flipping({"Sensitivity": mean, "RandomAttribution": mean})
    assert [t.name for t in both.data] == ["Sensitivity", "random order"]
    assert both.data[1].line.dash == "dot"


@pytest.mark.parametrize("wrong", [5, [], {}, {"a": 3.0}])
def test_flipping_says_what_it_takes(wrong: object) -> None:
    with pytest.raises(InvalidParameter, match=r"'results' parameter of plot\.flipping must be"):
        plots.flipping(wrong)


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
