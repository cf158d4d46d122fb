"""Curves of how fast scores fall as columns are set back to usual values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup

from tellwhy.core.tables import evenly_spread
from tellwhy.views.report.axes import LEFT, PLOT_HEIGHT, Axis, axis_text, gridline, nice_ticks
from tellwhy.views.report.svg import element, percent, picture
from tellwhy.views.wording import number

MOST_CURVES = 5
MOST_CURVE_POINTS = 120


def curves(named: Mapping[str, Sequence[float]], classes: Sequence[str], x_title: str, label: str) -> Markup:
    """Draw curves that start at 1 over the number of columns reset, on one pair of axes."""
    highest = max([1.0, *(float(np.max(c)) for c in named.values() if len(c))])
    lowest = min([0.0, *(float(np.min(c)) for c in named.values() if len(c))])
    steps = max([1, *(len(c) - 1 for c in named.values())])

    def height(y: float) -> float:
        return (PLOT_HEIGHT - 28) * (y - lowest) / (highest - lowest)

    marks = [axis_text(LEFT - 1.5, 11, "score", "end")]
    for tick in nice_ticks(lowest, highest, 4):
        marks += gridline(PLOT_HEIGHT - height(tick), number(tick, 2))
    for tick in nice_ticks(0, steps, 6):
        if tick.is_integer():
            x = LEFT + (100 - LEFT) * tick / steps
            marks.append(axis_text(x, PLOT_HEIGHT + 18, number(tick), "end" if x > 97 else "middle"))
    lines = [_curve(c, steps, height, class_) for c, class_ in zip(named.values(), classes, strict=True)]
    box = {"viewBox": f"0 0 100 {PLOT_HEIGHT}", "preserveAspectRatio": "none"}
    size = {"x": percent(LEFT), "y": 0, "width": percent(100 - LEFT), "height": PLOT_HEIGHT}
    marks.append(element("svg", *lines, **size, **box, overflow="visible"))
    marks.append(axis_text(LEFT, PLOT_HEIGHT + 38, x_title, "start", class_="axis-title"))
    return picture(label, PLOT_HEIGHT + 44, *marks, class_="chart")


def _curve(curve: Sequence[float], steps: int, height: Axis, class_: str) -> Markup:
    index = evenly_spread(len(curve), MOST_CURVE_POINTS)
    points = [f"{100 * i / steps:.2f},{PLOT_HEIGHT - height(float(curve[i])):.2f}" for i in index]
    return element(
        "polyline", class_=f"curve {class_}", points=" ".join(points), vector_effect="non-scaling-stroke"
    )
