"""How the numbers of a column are distributed, with the value of one row marked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from tellwhy.views.page.svg import choose_ticks, draw_picture, element, write_axis_text, write_percent
from tellwhy.words import wording

HEIGHT = 90
MARGIN = 6.0  # per cent of the width on each side, where rows beyond the axis are gathered


def draw_distribution(
    ends: tuple[float, float],
    counts: Sequence[int],
    value: float | None,
    name: str,
    write: Callable[[float], str] = wording.number,
) -> Markup:
    """Draw a histogram whose first and last bar gather what lies beyond the ends, and mark a value.

    Parameters
    ----------
    ends
        Of the axis.
    counts
        Of rows: below the axis, in each interval of equal width, above it.
    value
        The value to mark; None marks none.
    name
        Of the column.
    write
        Writes a number of the axis: dates are numbers too.
    """
    low, high = ends
    tallest = max([1, *counts])
    n_bins = len(counts) - 2
    width = (100 - 2 * MARGIN) / n_bins
    edges = [0.0, *(MARGIN + k * width for k in range(n_bins + 1)), 100.0]
    marks = []
    for k, n in enumerate(counts):
        start = edges[k]
        end = edges[k + 1]
        height = (HEIGHT - 8) * (n / tallest) ** 0.5  # square root: few rows are seen beside many
        size = {"x": write_percent(start), "width": write_percent(max(end - start - 0.25, 0.1))}
        upward = {"y": f"{HEIGHT - height:.1f}", "height": f"{height:.1f}"}
        is_beyond = k in (0, len(counts) - 1)
        title = element("title", f"{wording.count(n, 'row')}{' beyond the axis' if is_beyond else ''}")
        color = "rest" if is_beyond else "usual"
        marks.append(element("rect", title, class_=color, **size, **upward))
    for tick in choose_ticks(low, high, 4):
        place = MARGIN + (100 - 2 * MARGIN) * (tick - low) / (high - low)
        marks.append(write_axis_text(place, HEIGHT + 16, write(tick), "middle"))
    words = f"Distribution of {wording.shorten(name, 60)} over all rows"
    if value is not None:
        place = MARGIN + (100 - 2 * MARGIN) * (value - low) / (high - low)
        x = write_percent(min(98.5, max(1.5, place)))
        marks.append(element("rect", class_="threshold", x=x, y=0, width=2, height=HEIGHT))
        marks.append(element("circle", class_="value-mark", cx=x, cy=8, r=6))
        words += f"; this row: {write(value)}"
    return draw_picture(words, HEIGHT + 22, *marks, class_="chart")
