"""The two charts with axes: the histogram of scores and the flipping curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from tellwhy.core.score_function import Floats, Integers
from tellwhy.views.report.svg import element, percent, picture
from tellwhy.views.wording import count, number

N_BINS = 48
PLOT_HEIGHT = 200
LEFT = 10.0  # per cent of the width kept for the labels of the y axis
MOST_CURVES = 5
MOST_CURVE_POINTS = 120

Axis = Callable[[float], float]  # a number to its place or height


@dataclass(frozen=True)
class Bins:
    """Counts of scores between edges (right edge included); `beyond` scores lie above the last edge."""

    edges: Floats
    counts: Integers
    beyond: int
    threshold: float
    is_log: bool


def bin_scores(scores: Floats, threshold: float) -> Bins:
    """Count scores in bins of equal width, one edge of which is the threshold."""
    scores = scores[np.isfinite(scores)]
    low, high = _limits(scores, threshold)
    width = (high - low) / N_BINS
    width = width if width > np.finfo(float).tiny else 1.0
    anchor = threshold if low <= threshold <= high else low
    first = -int(np.ceil((anchor - low) / width - 1e-9)) - (1 if anchor == low else 0)
    edges: Floats = anchor + width * np.arange(first, first + N_BINS + 3, dtype=np.float64)
    edges = edges[: max(2, int(np.searchsorted(edges, high - 1e-9 * width)) + 1)]
    where = np.searchsorted(edges, scores, side="left")
    counts = np.bincount(np.clip(where - 1, 0, len(edges) - 1), minlength=len(edges))
    return Bins(edges, counts[:-1], int(counts[-1]), threshold, _needs_log(edges, counts[:-1], threshold))


def _limits(scores: Floats, threshold: float) -> tuple[float, float]:
    if not len(scores):
        return 0.0, 1.0
    low, most = float(scores.min()), float(scores.max())
    if np.isfinite(threshold):
        low, most = min(low, threshold), max(most, threshold)
    reach = 6 * (float(np.quantile(scores, 0.99)) - low) or most - low
    high = min(most, low + reach)
    if np.isfinite(threshold):
        high = max(high, min(most, threshold + 0.5 * (threshold - low)))
    return low, high


def _needs_log(edges: Floats, counts: Integers, threshold: float) -> bool:
    tail = counts[edges[:-1] >= threshold]
    tallest = int(counts.max(initial=0))
    return tallest > 100 and 0 < tail.max(initial=0) < 0.04 * tallest


def histogram(bins: Bins, label: str) -> Markup:
    """Draw counts of scores, those above the threshold in the colour of oddness."""
    tallest = max(int(bins.counts.max(initial=0)), bins.beyond, 1)

    def height(n: float) -> float:
        part = np.log10(n + 1) / np.log10(tallest + 1) if bins.is_log else n / tallest
        return float((PLOT_HEIGHT - 22) * part)

    low, high = float(bins.edges[0]), float(bins.edges[-1])
    slots = len(bins.counts) + (2 if bins.beyond else 0)
    right = 100 - (100 - LEFT) * (2 / slots if bins.beyond else 0)

    def place(score: float) -> float:
        return LEFT + (right - LEFT) * (score - low) / ((high - low) or 1.0)

    marks = [*_count_axis(tallest, bins.is_log, height), _axis_text(LEFT - 1.5, 11, "rows", "end")]
    for start, end, n in zip(bins.edges[:-1], bins.edges[1:], bins.counts, strict=True):
        is_odd = start >= bins.threshold - 1e-9 * abs(end - start)
        words = f"score {number(start)} to {number(end)}: {count(int(n), 'row')}"
        marks.append(_column(place(start), place(end), height(n), words, is_odd=is_odd))
    if bins.beyond:
        words = f"score above {number(high)}: {count(bins.beyond, 'row')}"
        marks.append(_column(100 - (100 - right) / 2, 100, height(bins.beyond), words, is_odd=high >= bins.threshold))
        marks.append(_axis_text(100, PLOT_HEIGHT + 18, f">{number(high, 3)}", "end"))
    marks += _score_axis(low, high, place, last=right - (8 if bins.beyond else 0))
    marks += _threshold_line(bins.threshold, low, high, place)
    return picture(label, PLOT_HEIGHT + 44, *marks, class_="chart")


def _column(start: float, end: float, height: float, words: str, *, is_odd: bool) -> Markup:
    if height <= 0:
        return Markup("")
    gap = 0.12 * (end - start)
    width = percent(end - start - gap)
    shape = {
        "x": percent(start + gap / 2),
        "y": f"{PLOT_HEIGHT - height:.1f}",
        "width": width,
        "height": f"{height:.1f}",
    }
    return element("rect", element("title", words), class_="odd" if is_odd else "usual", rx=1, **shape)


def _count_axis(tallest: int, is_log: bool, height: Axis) -> list[Markup]:
    marks = []
    ticks = _decades(tallest) if is_log else [t for t in nice_ticks(0, tallest, 4) if float(t).is_integer()]
    for tick in ticks:
        y = PLOT_HEIGHT - height(tick)
        marks.append(element("rect", class_="grid", x=percent(LEFT), y=f"{y:.1f}", width=percent(100 - LEFT), height=1))
        marks.append(_axis_text(LEFT - 1.5, y + 4, number(tick), "end"))
    return marks


def _decades(tallest: int) -> list[float]:
    return [0.0, *(10.0**k for k in range(int(np.log10(max(tallest, 1))) + 1))]


def _score_axis(low: float, high: float, place: Axis, last: float) -> list[Markup]:
    ticks = [(t, place(t)) for t in nice_ticks(low, high, 5)]
    marks = [_axis_text(x, PLOT_HEIGHT + 18, number(t, 3), "middle") for t, x in ticks if LEFT + 1 <= x <= last - 3]
    marks.append(_axis_text(LEFT, PLOT_HEIGHT + 38, "score: the higher, the odder →", "start", class_="axis-title"))
    return marks


def _threshold_line(threshold: float, low: float, high: float, place: Axis) -> list[Markup]:
    if not low <= threshold <= high:
        return []
    x = place(threshold)
    anchor, shift = ("end", -1) if x > 60 else ("start", 1)
    line = element("rect", class_="threshold", x=percent(x), y=0, width=2, height=PLOT_HEIGHT)
    words = f"threshold {number(threshold)}"
    return [line, _axis_text(x + shift, 11, words, anchor, class_="threshold-text")]


def _axis_text(x: float, y: float, words: str, anchor: str, class_: str = "tick") -> Markup:
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
    first = np.ceil(low / step - 1e-9)
    return [float(k * step) for k in np.arange(first, np.floor(high / step + 1e-9) + 1)]


def curves(named: Mapping[str, Sequence[float]], classes: Sequence[str], x_title: str, label: str) -> Markup:
    """Draw curves that start at 1 over the number of columns reset, on one pair of axes."""
    highest = max([1.0, *(float(np.max(c)) for c in named.values() if len(c))])
    lowest = min([0.0, *(float(np.min(c)) for c in named.values() if len(c))])
    steps = max([1, *(len(c) - 1 for c in named.values())])

    def height(y: float) -> float:
        return (PLOT_HEIGHT - 28) * (y - lowest) / (highest - lowest)

    marks = [_axis_text(LEFT - 1.5, 11, "score", "end")]
    for tick in nice_ticks(lowest, highest, 4):
        y = PLOT_HEIGHT - height(tick)
        marks.append(element("rect", class_="grid", x=percent(LEFT), y=f"{y:.1f}", width=percent(100 - LEFT), height=1))
        marks.append(_axis_text(LEFT - 1.5, y + 4, number(tick, 2), "end"))
    for tick in nice_ticks(0, steps, 6):
        if tick.is_integer():
            x = LEFT + (100 - LEFT) * tick / steps
            marks.append(_axis_text(x, PLOT_HEIGHT + 18, number(tick), "end" if x > 97 else "middle"))
    lines = [_curve(c, steps, height, class_) for c, class_ in zip(named.values(), classes, strict=True)]
    box = {"viewBox": f"0 0 100 {PLOT_HEIGHT}", "preserveAspectRatio": "none"}
    size = {"x": percent(LEFT), "y": 0, "width": percent(100 - LEFT), "height": PLOT_HEIGHT}
    marks.append(element("svg", *lines, **size, **box, overflow="visible"))
    marks.append(_axis_text(LEFT, PLOT_HEIGHT + 38, x_title, "start", class_="axis-title"))
    return picture(label, PLOT_HEIGHT + 44, *marks, class_="chart")


def _curve(curve: Sequence[float], steps: int, height: Axis, class_: str) -> Markup:
    index = np.unique(np.linspace(0, len(curve) - 1, min(len(curve), MOST_CURVE_POINTS)).round().astype(int))
    points = [f"{100 * i / steps:.2f},{PLOT_HEIGHT - height(float(curve[i])):.2f}" for i in index]
    return element("polyline", class_=f"curve {class_}", points=" ".join(points), vector_effect="non-scaling-stroke")
