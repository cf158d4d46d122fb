"""Contributions against cells: the right points, and colours that show what two columns do together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.views import plots


def explanation(n: int = 300, **changes: object) -> Explanation:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    frame = pd.DataFrame(X, columns=list("abcd")).assign(town=rng.choice(["Ulm", "Bonn"], n))
    values = np.column_stack(
        [X[:, 0] * X[:, 2], X[:, 1], X[:, 2], X[:, 3], np.where(frame.town == "Ulm", 1.0, -1.0)]
    )
    settings = {
        "values": values,
        "scores": values.sum(axis=1),
        "data": frame,
        "feature_names": list(frame.columns),
        "method": "Shapley",
    }
    return Explanation(**(settings | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("data", ["pandas", "polars"])
def test_points_are_cells_and_contributions(data: str) -> None:
    e = explanation()
    if data == "polars":
        e = explanation(data=pl.DataFrame(e.data))
    trace = plots.scatter(e, "b").data[0]
    np.testing.assert_array_equal(trace.x, np.asarray(e.data["b"]))
    np.testing.assert_array_equal(trace.y, e.values[:, 1])
    assert plots.scatter(e, 1).layout.xaxis.title.text == "b"


def test_the_column_that_works_together_with_it_gives_the_colour() -> None:
    figure = plots.scatter(explanation(), "a")
    assert figure.layout.coloraxis.colorbar.title.text == "c"
    shade = np.asarray(figure.data[0].marker.color)
    np.testing.assert_array_equal(np.argsort(shade), np.argsort(explanation().data["c"]))
    assert plots.scatter(explanation(), "a", color="d").layout.coloraxis.colorbar.title.text == "d"
    assert isinstance(plots.scatter(explanation(), "a", color=None).data[0].marker.color, str)


def test_categories_are_groups_and_colours() -> None:
    figure = plots.scatter(explanation(), "town")
    assert sorted(box.name for box in figure.data) == ["Bonn", "Ulm"]
    for box in figure.data:
        assert set(box.y) == {1.0 if box.name == "Ulm" else -1.0}
    colored = plots.scatter(explanation(), "a", color="town")
    assert sorted(trace.name for trace in colored.data) == ["Bonn", "Ulm"]
    assert sum(len(trace.x) for trace in colored.data) == 300


def test_empty_cells_do_not_hinder() -> None:
    frame = explanation().data.copy()
    frame.loc[:20, "a"] = np.nan
    frame.loc[15:40, "c"] = np.nan
    figure = plots.scatter(explanation(data=frame), "a")
    assert len(figure.data[0].x) == 300
    assert figure.layout.title.text == "What a does in 300 rows, 21 without a value left out"
    assert figure.layout.coloraxis.colorbar.title.text == "c"
    assert plots.scatter(explanation(data=frame), "a", color="c").data


def test_few_rows_have_one_colour() -> None:
    assert isinstance(plots.scatter(explanation(n=12), "a").data[0].marker.color, str)


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(InvalidInput, match="holds no cells"):
        plots.scatter(explanation(data=None), "a")
    with pytest.raises(InvalidInput, match="There are: a, b, c, d, town"):
        plots.scatter(explanation(), "e")
    with pytest.raises(InvalidInput, match="no column 'wage'"):
        plots.scatter(explanation(), "a", color="wage")
    assert "5000 of them drawn" in plots.scatter(explanation(n=6000), "a").layout.title.text.replace(
        "\u202f", ""
    )
