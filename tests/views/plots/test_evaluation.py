"""Figures of region flipping and parameter randomisation show the numbers of the results."""

from __future__ import annotations

import numpy as np
import pytest

from tellwhy.core.errors import InvalidParameter
from tellwhy.evaluation import Flipping, Randomisation, RegionFlipping
from tellwhy.views import plots
from tellwhy.views.plots.colors import CURVES, NEUTRAL


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


def test_two_results_of_one_method_are_not_drawn_as_one() -> None:
    result = Flipping(curves=np.array([[2.0, 1.0, 0.0]]), areas=np.array([0.5]), method="OneClassDTD")
    with pytest.raises(InvalidParameter, match="several results of one method"):
        plots.flipping([result, result])


def test_random_order_takes_no_colour_from_the_methods() -> None:
    names = ["a", "RandomAttribution", "b", "c", "d", "e", "f"]
    figure = plots.flipping({name: [1.0, k / 10, 0.0] for k, name in enumerate(names)})
    styles = {trace.name: (trace.line.color, trace.line.dash) for trace in figure.data}
    assert styles.pop("random order") == (NEUTRAL, "dot")
    assert list(styles.values()) == [*CURVES, CURVES[0]]
    assert [trace.y[1] for trace in figure.data] == [k / 10 for k in range(7)]


def test_features_are_counted_in_whole_numbers() -> None:
    figure = plots.flipping({"short": [1.0, 0.0], "long": np.linspace(1, 0, 31)})
    assert list(figure.data[1].x) == list(range(31))
    assert figure.layout.xaxis.dtick == 3


def test_random_regions_are_dotted_and_what_they_are_painted_with_is_told() -> None:
    figure = plots.region_flipping(flipped())
    assert figure.data[-1].line.dash == "dot"
    assert figure.data[0].line.dash == "solid"
    assert "painted over with the input's mean." in figure.layout.title.subtitle.text
    assert figure.layout.title.subtitle.text.startswith("The faster a curve falls")
    assert len(plots.region_flipping(flipped(chance=False)).data) == 1


def test_what_is_compared_and_layers_without_a_name_are_told() -> None:
    found = Randomisation((("",), ("b", "c", "d")), np.ones((2, 1)), "LRP", "cascading", "ssim")
    figure = plots.randomisation(found)
    assert figure.layout.yaxis.title.text == "structural similarity"
    assert list(figure.layout.xaxis.ticktext) == ["as it is", "(own)", "b … d"]
    assert list(figure.layout.xaxis.tickvals) == [0, 1, 2]
