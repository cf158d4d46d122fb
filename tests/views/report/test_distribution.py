"""The distribution of a column: every bar as tall as its rows, and the value where it belongs."""

import re

import pytest

from tellwhy.views.page.scores import HEIGHT, MARGIN, draw_distribution


def places(drawn, name):
    return [float(x) for x in re.findall(rf'<{name}[^>]* c?x="([\d.]+)%"', drawn)]


def test_bars_are_as_tall_as_the_root_of_their_rows():
    drawn = str(draw_distribution((0.0, 4.0), [1, 4, 16, 0, 9, 0], None, "size"))
    heights = [float(h) for h in re.findall(r'<rect class="(?:usual|rest)"[^>]* height="([\d.]+)"', drawn)]
    assert heights == pytest.approx([(HEIGHT - 8) * n / 4 for n in (1, 2, 4, 0, 3, 0)], abs=0.06)
    assert drawn.count('class="rest"') == 2
    assert "16 rows" in drawn
    assert "circle" not in drawn


@pytest.mark.parametrize(
    ("value", "place"), [(0.0, MARGIN), (2.0, 50.0), (4.0, 100 - MARGIN), (99.0, 98.5), (-9.0, 1.5)]
)
def test_the_value_of_the_row_is_marked_where_it_lies(value, place):
    drawn = str(draw_distribution((0.0, 4.0), [0, 1, 1, 1, 1, 0], value, "a < b"))
    assert places(drawn, "circle") == [pytest.approx(place, abs=0.01)]
    assert "Distribution of a &lt; b over all rows; this row: " in drawn
