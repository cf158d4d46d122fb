"""Heat maps show the numbers of the explanation in their place."""

from __future__ import annotations

import numpy as np
import pytest

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.views import plots


def table(n: int, d: int, **changes: object) -> Explanation:
    values = np.random.default_rng(0).normal(size=(n, d))
    settings = {"values": values, "scores": values.sum(axis=1), "method": "Shapley"}
    return Explanation(**(settings | {"feature_names": [f"column {j}" for j in range(d)]} | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "values", [np.eye(3), -np.eye(3), np.array([[1.0, 0.0, 0.0], [0.0, -5.0, 0.0], [0.0, 0.0, 2.0]])]
)
def test_the_colour_scale_is_centred_at_zero(values: np.ndarray) -> None:
    axis = plots.heatmap(Explanation(values=values, scores=np.ones(3), method="Example")).layout.coloraxis
    assert axis.cmin == -np.abs(values).max()
    assert axis.cmax == np.abs(values).max()
    assert axis.cmid == 0


def test_heatmap_of_a_table_keeps_the_main_features_in_order() -> None:
    e = table(60, 30)
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


def test_images_with_channels_first_are_drawn_upright() -> None:
    values = np.arange(2 * 3 * 4 * 5, dtype=float).reshape(2, 3, 4, 5)
    explanation = Explanation(values=values, scores=np.ones(2), method="m")
    np.testing.assert_array_equal(plots.heatmap(explanation).data[0].z, values[0].sum(axis=0))


def test_rows_are_read_from_the_top_down_under_their_numbers() -> None:
    e = table(50, 3).top(45)
    figure = plots.heatmap(e)
    assert list(figure.data[0].y) == [f"row {row}" for row in e.extras["row"][:40]]
    assert figure.layout.yaxis.autorange == "reversed"
    assert figure.layout.title.text == "Values of 40 of 45 rows"
    assert plots.heatmap(table(5, 3)).layout.title.text == "Values by row"


def test_images_are_titled_with_their_row_and_score() -> None:
    values = np.zeros((15, 2, 2))
    values[:, 0, 1] = np.arange(15)
    figure = plots.heatmap(Explanation(values=values, scores=np.arange(15.0), method="LRP").top(13))
    titles = [note.text for note in figure.layout.annotations]
    assert titles[:2] == ["row 14, score 14", "row 13, score 13"]
    assert len(figure.data) == 12
    assert figure.data[1].z[0][1] == 13
    assert figure.layout.title.text == "Where each score comes from"


def test_images_that_are_no_parts_of_a_score_are_not_titled_as_such() -> None:
    e = Explanation(values=np.ones((1, 2, 2)), scores=[1.0], method="Gradient", kind="sensitivity")
    assert plots.heatmap(e).layout.title.text == "Where each score is sensitive"


def test_the_asked_number_of_images_is_drawn() -> None:
    e = Explanation(values=np.ones((9, 2, 2)), scores=np.ones(9), method="LRP")
    assert len(plots.heatmap(e, max_rows=3).data) == 3
