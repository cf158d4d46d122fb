"""Bars and strips: lengths and places say what the numbers say."""

from __future__ import annotations

import numpy as np
import pytest
from views.report.drawn import mark, marks

from tellwhy.views.page.svg import bar, draw_range, element, strip_axis


@pytest.mark.parametrize(
    ("value", "ends", "start", "stop"),
    [
        (3.0, (0.0, 6.0), 0, 50),
        (6.0, (0.0, 6.0), 0, 100),
        (3.0, (-6.0, 6.0), 50, 75),
        (-3.0, (-6.0, 6.0), 25, 50),
        (-6.0, (-6.0, 0.0), 0, 100),
        (0.0, (0.0, 0.0), 0, 0.4),  # nothing is still seen as a line
        (1e300, (-1e300, 1e300), 50, 100),
    ],
)
def test_bars_reach_from_zero_to_their_value(
    value: float, ends: tuple[float, float], start: float, stop: float
) -> None:
    drawn = mark(bar(value, *ends, "label", class_="odd"), "odd")
    assert (drawn.at("x"), drawn.end) == pytest.approx((start, stop))


def test_zero_is_marked_where_values_lie_on_both_sides() -> None:
    assert mark(bar(1.0, -1.0, 3.0, "", class_="odd"), "zero").at("x") == 25
    assert not marks(bar(1.0, 0.0, 3.0, "", class_="odd"), "zero")


def test_whiskers_reach_one_error_to_each_side_and_stay_inside() -> None:
    whisker = mark(bar(5.0, 0.0, 10.0, "", class_="odd", error=2.0), "whisker")
    assert (whisker.at("x"), whisker.end) == pytest.approx((30, 70))
    whisker = mark(bar(9.0, 0.0, 10.0, "", class_="odd", error=20.0), "whisker")
    assert (whisker.at("x"), whisker.end) == pytest.approx((0, 100))
    assert not marks(bar(9.0, 0.0, 10.0, "", class_="odd"), "whisker")


def test_what_is_drawn_is_said_to_those_who_do_not_see_it() -> None:
    drawn = marks(bar(1.0, 0.0, 2.0, "TSH <71 %>", class_="odd"))[0]
    assert (drawn.words, drawn.attributes["role"]) == ("TSH <71 %>", "img")


def test_everything_in_an_element_is_escaped() -> None:
    assert element("p", "<b>", class_='a"b', data_x="1") == '<p class="a&#34;b" data-x="1">&lt;b&gt;</p>'


QUANTILES = [0.0, 0.9, 1.2, 1.6, 2.2, 4.1, 6.0]


@pytest.mark.parametrize(("value", "at_break"), [(145.0, [93.5]), (-145.0, [6.5]), (3.0, [])])
def test_a_break_is_drawn_on_the_side_of_the_far_value(value: float, at_break: list[float]) -> None:
    drawn = draw_range(QUANTILES, value, None, "label")
    signs = [m.at("x") for m in marks(drawn) if m.tag == "svg" and "x" in m.attributes]
    assert signs == at_break
    place = mark(drawn, "value-mark").at("cx")
    assert (place > 93.5) == (value > 100)
    assert (place < 6.5) == (value < -100)


@pytest.mark.parametrize("marked", [[], [3.0], [145.0], [-145.0], [145.0, -145.0], [1e300]])
def test_places_keep_the_order_of_values(marked: list[float]) -> None:
    axis = strip_axis(QUANTILES, marked)
    values = np.sort([*QUANTILES, *marked])
    places = [axis.position(value) for value in values]
    assert places == sorted(places)
    assert places[0] >= 0
    assert places[-1] <= 100


def test_a_constant_column_has_room_on_both_sides() -> None:
    assert strip_axis([5.0] * 7, []).position(5.0) == pytest.approx(50)
    assert strip_axis([5.0] * 7, [7.0]).position(7.0) > 50 > strip_axis([5.0] * 7, [3.0]).position(3.0)
