"""How odd the rows are, and which columns make them so: a histogram, bars and curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from markupsafe import Markup

from tellwhy.core.arrays import spread_evenly
from tellwhy.core.score import Floats, Integers
from tellwhy.results.result import Result
from tellwhy.views.page.overview import KIND_WORDS, count_above, sort_by_share
from tellwhy.views.page.shell import Limits, Panel, Text, clip, make_panel
from tellwhy.views.page.svg import (
    LEFT,
    PLOT_HEIGHT,
    Axis,
    bar,
    choose_ticks,
    draw_gridline,
    draw_picture,
    element,
    round_ticks,
    write_axis_text,
    write_percent,
)
from tellwhy.words import wording
from tellwhy.words.wording import count, number

N_BINS = 48
FEW = 0.04  # of the tallest bar: lower ones cannot be seen
HEAVY_TAIL = 10.0  # the highest score in thresholds, from which the axis of scores is logarithmic


def show_scores(run: Result, limits: Limits) -> Panel:
    """Return the panel of the histogram, and that of columns beside it."""
    return make_panel(
        "scores",
        ("scores", "Scores"),
        ("columns", "Columns"),
        scores=scores(run),
        columns=make_columns(run, limits),
        n_anomalies=len(run.anomalies),
        is_attribution=run.explanation.kind == "attribution",
        kind_words=KIND_WORDS[run.explanation.kind],
    )


@dataclass(frozen=True)
class Scores:
    """The histogram and what to read from it."""

    chart: Markup
    words: str
    notes: list[str]


def scores(run: Result) -> Scores:
    """Return the histogram of all scores."""
    bins = bin_scores(np.asarray(run.scores, dtype=np.float64), run.line)
    n = len(run.scores)
    n_above = count_above(run)
    part = wording.share(n_above / n) if n else wording.NOTHING
    verb = "scores" if n_above == 1 else "score"
    words = (
        f"{wording.number(n_above)} of {wording.count(n, 'row')} ({part}) {verb} above the threshold of "
        f"{wording.number(run.line)}."
    )
    notes = []
    if bins.log_counts:
        notes.append(
            "Counts are on a logarithmic scale, so that the few odd rows can be seen beside the many usual "
            "ones."
        )
    if bins.beyond:
        notes.append(
            f"The last bar gathers the {wording.count(bins.beyond, 'row')} beyond the end of the axis."
        )
    return Scores(draw_histogram(bins, f"Histogram of scores. {words}"), words, notes)


@dataclass(frozen=True)
class ColumnBar:
    """One column's part over all explained rows."""

    name: Text
    bar: Markup
    share: str
    is_rest: bool = False
    role: Text = ""  # what the column was taken for


def make_columns(run: Result, limits: Limits) -> list[ColumnBar]:
    """Return which columns make rows odd, the small ones together, and what no column received."""
    ranked = sort_by_share(run.column_shares)
    left_over = float(np.mean([anomaly.unattributed for anomaly in run.anomalies])) if run.anomalies else 0.0
    left_over = float(np.clip(left_over, 0.0, 1.0))
    ranked = [(name, part * (1.0 - left_over)) for name, part in ranked]
    shown = ranked[: limits.columns]
    others = ranked[limits.columns :]
    rest = sum(part for _, part in others)
    # Many small columns together may be longer than the largest: they set the axis then.
    longest = max([rest, left_over, *(part for _, part in ranked)]) or 1.0
    is_attribution = run.explanation.kind == "attribution"
    made = [
        replace(_make_column_bar(name, part, longest, is_attribution), role=clip(run.roles.get(name, ""), 48))
        for name, part in shown
    ]
    if others:
        words = wording.count(len(others), "other column")
        made.append(_make_column_bar(words, rest, longest, is_attribution, is_rest=True))
    if left_over > 0:
        made.append(_make_column_bar("not attributed", left_over, longest, is_attribution, is_rest=True))
    return made


def _make_column_bar(
    name: str, part: float, longest: float, is_attribution: bool, *, is_rest: bool = False
) -> ColumnBar:
    words = wording.share(part) if is_attribution else ""  # strengths of other kinds are no shares
    label = f"{wording.shorten(name)} {words}"
    drawn = bar(part, 0.0, longest, label, class_="rest" if is_rest else "odd")
    return ColumnBar(clip(name, 40), drawn, words, is_rest)


@dataclass(frozen=True)
class Bins:
    """Counts of scores between edges (right edge included); `beyond` scores lie above the last edge.

    Edges and threshold are on the axis that is drawn: scores, or their logarithms to base 10.
    """

    edges: Floats
    counts: Integers
    beyond: int
    threshold: float
    log_scores: bool
    log_counts: bool

    def score(self, position: float) -> float:
        """Return the score at a position on the axis."""
        return float(10.0**position) if self.log_scores else float(position)


def bin_scores(scores: Floats, threshold: float) -> Bins:
    """Count scores in bins of equal width, one edge of which is the threshold."""
    scores = scores[np.isfinite(scores)]
    floor = float(np.quantile(scores, 0.01)) if len(scores) else 0.0
    log_scores = bool(floor > 0 and 0 < threshold < np.inf and scores.max() > HEAVY_TAIL * threshold)
    if log_scores:  # the lowest hundredth joins the first bin: a score near 0 would stretch the axis
        scores = np.log10(np.maximum(scores, min(floor, threshold)))
        threshold = float(np.log10(threshold))
    edges = _find_edges(*_find_limits(scores, threshold), threshold)
    where = np.searchsorted(edges, scores, side="left")
    counts = np.bincount(np.clip(where - 1, 0, len(edges) - 1), minlength=len(edges))  # the last: beyond
    log_counts = _has_few_odd(edges, counts[:-1], threshold)
    return Bins(edges, counts[:-1], int(counts[-1]), threshold, log_scores, log_counts)


def _find_limits(scores: Floats, threshold: float) -> tuple[float, float]:
    """Where the axis starts and ends; scores far beyond the others are left to the last bar."""
    if not len(scores):
        return 0.0, 1.0
    low = float(scores.min())
    most = float(scores.max())
    if np.isfinite(threshold):
        low = min(low, threshold)
        most = max(most, threshold)
    # Six times as far as 99 rows in 100 reach: beyond that, a few rows would squeeze all the others.
    reach = 6 * (float(np.quantile(scores, 0.99)) - low) or most - low
    high = min(most, low + reach)
    if np.isfinite(threshold):  # some room to the right of the threshold, whatever the scores
        high = max(high, min(most, threshold + 0.5 * (threshold - low)))
    return low, high


def _find_edges(low: float, high: float, threshold: float) -> Floats:
    width = (high - low) / N_BINS
    width = width if width > np.finfo(float).tiny else 1.0
    # No bar may hold both usual and odd rows: the threshold is an edge, and bins are counted from it.
    anchor = threshold if low <= threshold <= high else low
    first = -int(np.ceil((anchor - low) / width - 1e-9)) - (1 if anchor == low else 0)
    edges: Floats = anchor + width * np.arange(first, first + N_BINS + 3, dtype=np.float64)
    return edges[: max(2, int(np.searchsorted(edges, high - 1e-9 * width)) + 1)]


def _has_few_odd(edges: Floats, counts: Integers, threshold: float) -> bool:
    """Tell whether bars above the threshold would be too low to see."""
    tail = counts[edges[:-1] >= threshold]
    tallest = int(counts.max(initial=0))
    return tallest > 100 and 0 < tail.max(initial=0) < FEW * tallest


def draw_histogram(bins: Bins, label: str) -> Markup:
    """Draw counts of scores, those above the threshold in the colour of oddness."""
    tallest = max(int(bins.counts.max(initial=0)), bins.beyond, 1)
    low = float(bins.edges[0])
    high = float(bins.edges[-1])
    # The bar of scores beyond the axis takes the room of two bins at the right.
    right = 100 - (100 - LEFT) * 2 / (len(bins.counts) + 2) if bins.beyond else 100.0

    def height(n: float) -> float:
        # n + 1: a bar of one row is seen, a bar of none has no height.
        part = np.log10(n + 1) / np.log10(tallest + 1) if bins.log_counts else n / tallest
        return float((PLOT_HEIGHT - 22) * part)

    def place(position: float) -> float:
        return LEFT + (right - LEFT) * (position - low) / ((high - low) or 1.0)

    marks = [write_axis_text(LEFT - 1.5, 11, "rows", "end")]
    for tick in _count_ticks(tallest, bins.log_counts):
        marks += draw_gridline(PLOT_HEIGHT - height(tick), number(tick))
    marks += _draw_columns(bins, place, height)
    if bins.beyond:
        words = f"score above {number(bins.score(high))}: {count(bins.beyond, 'row')}"
        is_odd = high >= bins.threshold
        marks.append(_draw_column((100 + right) / 2, 100, height(bins.beyond), words, is_odd=is_odd))
        marks.append(write_axis_text(100, PLOT_HEIGHT + 18, f">{number(bins.score(high), 3)}", "end"))
    marks += _score_axis(bins, place, last=right - (11 if bins.beyond else 3))
    marks += _draw_threshold(bins, place)
    return draw_picture(label, PLOT_HEIGHT + 44, *marks, class_="chart")


def _draw_columns(bins: Bins, place: Axis, height: Axis) -> list[Markup]:
    drawn = []
    for start, end, n in zip(bins.edges[:-1], bins.edges[1:], bins.counts, strict=True):
        is_odd = start >= bins.threshold - 1e-9 * abs(end - start)
        words = f"score {number(bins.score(start))} to {number(bins.score(end))}: {count(int(n), 'row')}"
        drawn.append(_draw_column(place(start), place(end), height(n), words, is_odd=is_odd))
    return drawn


def _draw_column(start: float, end: float, height: float, words: str, *, is_odd: bool) -> Markup:
    if height <= 0:
        return Markup("")
    gap = 0.12 * (end - start)
    across = {"x": write_percent(start + gap / 2), "width": write_percent(end - start - gap)}
    upward = {"y": f"{PLOT_HEIGHT - height:.1f}", "height": f"{height:.1f}"}
    color = "odd" if is_odd else "usual"
    return element("rect", element("title", words), class_=color, rx=1, **across, **upward)


def _count_ticks(tallest: int, log_counts: bool) -> list[float]:
    if log_counts:
        return [0.0, *(10.0**k for k in range(int(np.log10(tallest)) + 1))]
    return [tick for tick in choose_ticks(0, tallest, 4) if tick.is_integer()]


def _score_axis(bins: Bins, place: Axis, last: float) -> list[Markup]:
    low = float(bins.edges[0])
    high = float(bins.edges[-1])
    words = "score: the higher, the odder"
    ticks = [(tick, place(tick)) for tick in choose_ticks(low, high, 5)]
    if bins.log_scores:
        words = "score, on a logarithmic scale: the higher, the odder"
        rounds = round_ticks(bins.score(low), bins.score(high))
        ticks = [(tick, place(float(np.log10(tick)))) for tick in rounds]
    marks = [
        write_axis_text(x, PLOT_HEIGHT + 18, number(tick, 3), "middle")
        for tick, x in ticks
        if LEFT + 1 <= x <= last
    ]
    return [*marks, write_axis_text(LEFT, PLOT_HEIGHT + 38, f"{words} →", "start", class_="axis-title")]


def _draw_threshold(bins: Bins, place: Axis) -> list[Markup]:
    if not bins.edges[0] <= bins.threshold <= bins.edges[-1]:
        return []
    x = place(bins.threshold)
    anchor, shift = ("end", -1) if x > 60 else ("start", 1)  # on the side with more room
    line = element("rect", class_="threshold", x=write_percent(x), y=0, width=2, height=PLOT_HEIGHT)
    words = f"threshold {number(bins.score(bins.threshold))}"
    return [line, write_axis_text(x + shift, 11, words, anchor, class_="threshold-text")]


MOST_CURVES = 5
MOST_CURVE_POINTS = 120


def draw_curves(
    named: Mapping[str, Sequence[float]], classes: Sequence[str], x_title: str, label: str
) -> Markup:
    """Draw curves that start at 1 over the number of columns reset, on one pair of axes."""
    highest = max([1.0, *(float(np.max(c)) for c in named.values() if len(c))])
    lowest = min([0.0, *(float(np.min(c)) for c in named.values() if len(c))])
    steps = max([1, *(len(c) - 1 for c in named.values())])

    def height(y: float) -> float:
        return (PLOT_HEIGHT - 28) * (y - lowest) / (highest - lowest)

    marks = [write_axis_text(LEFT - 1.5, 11, "score", "end")]
    for tick in choose_ticks(lowest, highest, 4):
        marks += draw_gridline(PLOT_HEIGHT - height(tick), number(tick, 2))
    for tick in choose_ticks(0, steps, 6):
        if tick.is_integer():
            x = LEFT + (100 - LEFT) * tick / steps
            marks.append(write_axis_text(x, PLOT_HEIGHT + 18, number(tick), "end" if x > 97 else "middle"))
    lines = [_draw_curve(c, steps, height, class_) for c, class_ in zip(named.values(), classes, strict=True)]
    box = {"viewBox": f"0 0 100 {PLOT_HEIGHT}", "preserveAspectRatio": "none"}
    size = {"x": write_percent(LEFT), "y": 0, "width": write_percent(100 - LEFT), "height": PLOT_HEIGHT}
    marks.append(element("svg", *lines, **size, **box, overflow="visible"))
    marks.append(write_axis_text(LEFT, PLOT_HEIGHT + 38, x_title, "start", class_="axis-title"))
    return draw_picture(label, PLOT_HEIGHT + 44, *marks, class_="chart")


def _draw_curve(curve: Sequence[float], steps: int, height: Axis, class_: str) -> Markup:
    index = spread_evenly(len(curve), MOST_CURVE_POINTS)
    points = [f"{100 * i / steps:.2f},{PLOT_HEIGHT - height(float(curve[i])):.2f}" for i in index]
    return element(
        "polyline", class_=f"curve {class_}", points=" ".join(points), vector_effect="non-scaling-stroke"
    )


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
