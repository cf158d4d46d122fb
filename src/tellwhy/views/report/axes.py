"""What charts with axes share: their size, round numbers for ticks, words beside them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from markupsafe import Markup

from tellwhy.views.report.svg import element, percent

PLOT_HEIGHT = 200
LEFT = 10.0  # per cent of the width kept for the labels of the y axis

Axis = Callable[[float], float]  # a number to its place or height


def axis_text(x: float, y: float, words: str, anchor: str, class_: str = "tick") -> Markup:
    """Write a word at a place on a chart."""
    return element("text", words, class_=class_, x=percent(x), y=f"{y:.1f}", text_anchor=anchor)


def nice_ticks(low: float, high: float, n: int) -> list[float]:
    """Return round numbers between two ends, about n of them.

    Examples
    --------
    >>> nice_ticks(0.3, 9.7, 5)
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


def gridline(y: float, words: str) -> list[Markup]:
    """Draw a horizontal line with its label."""
    line = element("rect", class_="grid", x=percent(LEFT), y=f"{y:.1f}", width=percent(100 - LEFT), height=1)
    return [line, axis_text(LEFT - 1.5, y + 4, words, "end")]
