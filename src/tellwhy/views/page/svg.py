"""Marks, axes.

Small marks drawn as inline SVG: bars, range strips, the pieces that charts are made of.

Lengths along x are percentages, so that a mark follows the width of its place and its text and dots keep
their shape. Styles are classes: the page's security policy forbids style attributes.

What charts with axes share: their size, round numbers for ticks, words beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from markupsafe import Markup, escape

STRIP_HEIGHT = 24
BAR_HEIGHT = 14
_GUTTER = 9.0  # per cent of a strip kept for a value that lies far outside
_MARGIN = 2.0  # per cent kept otherwise, so that a mark at the end is whole


class Quantiles(NamedTuple):
    """What is usual in a column: from its least value to its most, with the middle between."""

    least: float
    q5: float
    q25: float
    middle: float
    q75: float
    q95: float
    most: float


def element(name: str, *children: str, **attributes: object) -> Markup:
    """Return an element with everything escaped; 'class_' and 'text_anchor' become 'class' and 'text-anchor'.

    Examples
    --------
    >>> print(element("text", "a < b", x=3, text_anchor="end"))
    <text x="3" text-anchor="end">a &lt; b</text>
    """
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items()
    )
    return Markup(f"<{name}{words}>{''.join(escape(child) for child in children)}</{name}>")


def draw_picture(label: str, height: int, *children: str, class_: str) -> Markup:
    """Return an SVG as wide as its place, which screen readers announce as `label`."""
    title = element("title", label)
    return element("svg", title, *children, class_=class_, role="img", width="100%", height=height)


def draw_plot(
    width: float,
    height: float,
    label: str,
    marks: Sequence[Markup],
    *,
    class_: str = "node-plot",
    **more: object,
) -> Markup:
    """Return an SVG with places in units of its own, which screen readers announce as `label`."""
    view = f"0 0 {width:.0f} {height:.0f}"
    return element("svg", element("title", label), *marks, class_=class_, role="img", viewBox=view, **more)


def write_percent(position: float) -> str:
    """Write a length along x."""
    return f"{position:.2f}%"


def bar(
    value: float, low: float, high: float, label: str, *, class_: str, error: float | None = None
) -> Markup:
    """Draw a bar from zero to `value` on an axis from `low` (at most 0) to `high` (at least 0)."""
    scale = max(abs(low), abs(high), abs(value)) or 1.0  # 1e300 − (−1e300) must not overflow
    span = (high / scale - low / scale) or 1.0
    zero = 100 * -(low / scale) / span
    end = zero + 100 * (value / scale) / span
    left = min(zero, end)
    width = max(abs(end - zero), 0.4)  # nothing is still seen as a line
    size = {
        "x": write_percent(left),
        "y": 1,
        "width": write_percent(width),
        "height": BAR_HEIGHT - 2,
        "rx": 2,
    }
    marks = [
        element("rect", class_="track", x="0", y=BAR_HEIGHT / 2 - 0.5, width="100%", height=1),
        element("rect", class_=class_, **size),
    ]
    if low < 0:
        marks.append(element("rect", class_="zero", x=write_percent(zero), y=0, width=1, height=BAR_HEIGHT))
    if error:
        reach = 100 * error / scale / span
        start = max(0.0, end - reach)
        width = min(100.0, end + reach) - start
        y = BAR_HEIGHT / 2 - 1
        marks.append(
            element(
                "rect", class_="whisker", x=write_percent(start), y=y, width=write_percent(width), height=2
            )
        )
    return draw_picture(label, BAR_HEIGHT, *marks, class_="bar")


@dataclass(frozen=True)
class StripAxis:
    """Where numbers lie on a strip, in per cent of its width; numbers far outside lie beyond a break."""

    low: float
    high: float
    scale: float
    break_low: bool
    break_high: bool

    def position(self, value: float) -> float:
        """Return the place of a number."""
        left = _GUTTER if self.break_low else _MARGIN
        right = 100 - (_GUTTER if self.break_high else _MARGIN)
        x = value / self.scale
        if x < self.low:
            return 3.0 if self.break_low else left
        if x > self.high:
            return 97.0 if self.break_high else right
        return float(left + (right - left) * (x - self.low) / ((self.high - self.low) or 1.0))


def strip_axis(quantiles: Quantiles, marked: Sequence[float]) -> StripAxis:
    """Fit an axis on which the usual range stays readable, however far away a marked value is."""
    scale = float(np.abs([*quantiles, *marked]).max()) or 1.0  # 1e300 − (−1e300) must not overflow
    usual = Quantiles(*(q / scale for q in quantiles))
    values = [x / scale for x in marked]
    width = (usual.q95 - usual.q5) or (usual.most - usual.least) or abs(usual.middle) or 1.0
    # As wide again on each side as the range of nine rows in ten; values that are nearly there stretch it.
    low = max(usual.least, usual.q5 - width)
    high = min(usual.most, usual.q95 + width)
    near = [x for x in values if low - width <= x <= high + width]
    low = min([low, *near])
    high = max([high, *near])
    if high == low:
        low -= width
        high += width
    outside = [usual.least, usual.most, *values]
    return StripAxis(low, high, scale, min(outside) < low, max(outside) > high)


def draw_range(quantiles: Quantiles, value: float | None, normal: float | None, label: str) -> Markup:
    """Draw what is usual, the row's value (a dot) and its nearest normal value (a diamond).

    A thin line reaches over all rows, a bar over 90 % of them, a box over half; a stroke is the median.
    """
    axis = strip_axis(quantiles, [x for x in (value, normal) if x is not None])
    at = Quantiles(*(axis.position(q) for q in quantiles))
    marks = [
        _draw_band("range-all", at.least, at.most, 2),
        _draw_band("range-most", at.q5, at.q95, 8),
        _draw_band("range-half", at.q25, at.q75, 14),
        element("rect", class_="median", x=write_percent(at.middle), y=3, width=2, height=STRIP_HEIGHT - 6),
    ]
    if axis.break_low:
        marks.append(_mark("break", _GUTTER - 2.5, "M-3 5 1-5M1 5 5-5"))
    if axis.break_high:
        marks.append(_mark("break", 100 - _GUTTER + 2.5, "M-5 5-1-5M-1 5 3-5"))
    if normal is not None:
        marks.append(_mark("normal-mark", axis.position(normal), "M0-6 6 0 0 6-6 0z"))
    if value is not None:  # last, so that it lies on top
        x = write_percent(axis.position(value))
        marks.append(element("circle", class_="value-mark", cx=x, cy=STRIP_HEIGHT // 2, r=6))
    return draw_picture(label, STRIP_HEIGHT, *marks, class_="strip")


def _draw_band(class_: str, start: float, end: float, height: int) -> Markup:
    y = (STRIP_HEIGHT - height) / 2
    width = write_percent(max(end - start, 0.5))
    return element(
        "rect", class_=class_, x=write_percent(start), y=y, width=width, height=height, rx=min(height / 2, 3)
    )


def _mark(class_: str, position: float, outline: str) -> Markup:
    """A shape in pixels at a place in per cent: an inner picture is the only way to mix the two."""
    path = element("path", class_=class_, d=outline)
    return element("svg", path, x=write_percent(position), y=STRIP_HEIGHT // 2, overflow="visible")


PLOT_HEIGHT = 200
LEFT = 10.0  # per cent of the width kept for the labels of the y axis

Axis = Callable[[float], float]  # a number to its place or height


def write_axis_text(x: float, y: float, words: str, anchor: str, class_: str = "tick") -> Markup:
    """Write a word at a place on a chart."""
    return element("text", words, class_=class_, x=write_percent(x), y=f"{y:.1f}", text_anchor=anchor)


def choose_ticks(low: float, high: float, n: int) -> list[float]:
    """Return round numbers between two ends, about n of them.

    Examples
    --------
    >>> choose_ticks(0.3, 9.7, 5)
    [2.0, 4.0, 6.0, 8.0]
    """
    span = high - low
    if not np.isfinite(span) or span <= 0:
        return [low] if np.isfinite(low) else []
    rough = span / n
    unit = 10.0 ** np.floor(np.log10(rough))
    step = next(unit * k for k in (1, 2, 2.5, 5, 10) if unit * k >= rough * 0.999)
    first = np.ceil(low / step - 1e-9)  # an end that is round up to rounding errors has a tick
    return [float(k * step) for k in np.arange(first, np.floor(high / step + 1e-9) + 1)]


def round_ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten between two positive ends, only powers where they would be many.

    Examples
    --------
    >>> round_ticks(0.9, 25.0)
    [1.0, 2.0, 5.0, 10.0, 20.0]
    """
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    steps = (1, 2, 5) if np.log10(high / low) < 2.5 else (1,)
    every = max(1, len(powers) // 6)
    ticks = [step * 10.0**power for power in list(powers)[::every] for step in steps]
    return [tick for tick in ticks if low <= tick <= high]


def draw_gridline(y: float, words: str) -> list[Markup]:
    """Draw a horizontal line with its label."""
    line = element(
        "rect", class_="grid", x=write_percent(LEFT), y=f"{y:.1f}", width=write_percent(100 - LEFT), height=1
    )
    return [line, write_axis_text(LEFT - 1.5, y + 4, words, "end")]
