"""Figures of region flipping and parameter randomisation show the numbers of the results."""

from __future__ import annotations

import numpy as np
import pytest

from tellwhy.core.errors import InvalidParameter
from tellwhy.evaluation import Randomisation, RegionFlipping
from tellwhy.views import plots


def flipped(
    method: str = "LRP", order: str = "most_relevant_first", *, chance: bool = True
) -> RegionFlipping:
    curves = np.array([[4.0, 2.0, 1.0], [2.0, 1.5, 1.0], [1.0, 2.0, 3.0]])
    areas = np.array([0.4, 0.5, np.nan])
    removed = np.array([0, 1, 4])
    random = (
        RegionFlipping(curves[:, ::1], areas + 0.1, "RandomAttribution", order, removed, "mean")
        if chance
        else None
    )
    return RegionFlipping(curves, areas, method, order, removed, "mean", random)


def randomised(
    method: str = "Gradient", mode: str = "cascading", *, last: str = "features.0"
) -> Randomisation:
    layers = (("head.1", "head.0"), (last,))
    return Randomisation(layers, np.array([[0.5, 0.7], [0.2, np.nan]]), method, mode, "rank")


def test_curves_of_regions() -> None:
    figure = plots.region_flipping([flipped(), flipped("Gradient", chance=False)])
    assert [trace.name for trace in figure.data] == [
        "LRP (area 0.45)",
        "Gradient (area 0.45)",
        "random order (area 0.55)",
    ]
    assert figure.data[0].x == (0.0, 25.0, 100.0)
    assert figure.data[0].y == pytest.approx([1.0, (1 / 3 + 0.5) / 2, 0.0])
    assert "most relevant first" in figure.layout.xaxis.title.text
    reverse = plots.region_flipping({"mine": flipped(order="least_relevant_first")})
    assert "least relevant first" in reverse.layout.xaxis.title.text
    assert reverse.layout.title.subtitle.text.startswith("The longer")


def test_curves_of_random_layers() -> None:
    figure = plots.randomisation({"a <b>": randomised(), "b": randomised("LRP")})
    assert figure.data[0].name == "a &lt;b&gt;"
    assert figure.data[0].y == pytest.approx((1.0, 0.6, 0.2))
    assert list(figure.layout.xaxis.ticktext) == ["as it is", "head.1 … head.0", "features.0"]
    assert "one after the other" in figure.layout.xaxis.title.text
    assert "alone" in plots.randomisation(randomised(mode="independent")).layout.xaxis.title.text


def test_what_cannot_be_drawn() -> None:
    with pytest.raises(InvalidParameter, match=r"plot\.region_flipping must be results"):
        plots.region_flipping([1.0, 2.0])
    with pytest.raises(InvalidParameter, match=r"plot\.randomisation must be results"):
        plots.randomisation([])
    with pytest.raises(InvalidParameter, match="several results of one method"):
        plots.region_flipping([flipped(), flipped()])
    with pytest.raises(InvalidParameter, match="same layers"):
        plots.randomisation([randomised(), randomised("LRP", last="other")])
