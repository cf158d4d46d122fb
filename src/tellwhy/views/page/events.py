"""The page on what happened in a series: the whole of it with its events marked, then each event."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from markupsafe import Markup

from tellwhy.core.score import Floats
from tellwhy.results.result import Anomaly, Result
from tellwhy.views.page.overview import Overview, shorten_notices, show_overview, show_settings
from tellwhy.views.page.shell import (
    Contents,
    Limits,
    Panel,
    Text,
    clip,
    draw_page,
    fit_page,
    make_panel,
    write_page,
)
from tellwhy.views.page.svg import draw_plot, element
from tellwhy.views.plots.colors import INK, ODD
from tellwhy.words import tell, wording
from tellwhy.words.english.events import name_of, write_how_sure

WIDTH = 900.0
HEIGHT = 120.0
EDGE = 8.0  # free above and below a line
SHORT = ("spike", "dip")
BESIDE = 25.0  # of the dashed lines, before and after an event
LEAST_BAND = 2.0  # of a mark's width


@dataclass(frozen=True)
class Lane:
    """The line of one channel, with its events marked."""

    name: Text
    drawing: Markup


@dataclass(frozen=True)
class Card:
    """One event as the page shows it."""

    rank: int
    when: Text
    kind: str
    words: Text
    sure: str
    is_told: bool
    drawing: Markup
    span: str


def render_events(run: Result) -> str:
    """Return the page on events of a series: at most 8 MB, no request."""
    return fit_page(lambda limits: draw_page(make_contents(run, limits)), n_items=len(run.anomalies))


def write_events_report(run: Result, path: str | Path) -> Path:
    """Write the page to a file, whole or not at all, and return its path."""
    return write_page(render_events(run), path)


def make_contents(run: Result, limits: Limits) -> Contents:
    """Return the panels of the page."""
    source = clip(run.source, 80)
    overview = Overview(
        title=Markup("What happened in {}").format(source),
        headline=_count(run),
        summary=wording.shorten(" ".join(run.headline), 400),
    )
    panels = [
        show_overview(overview),
        _show_lanes(run),
        show_cards(run, limits),
        _show_done(run, limits),
        show_settings({"": run.settings, "Versions": run.versions}),
    ]
    return Contents(overview.title, source, panels)


def _count(run: Result) -> str:
    """How many events are told, in a line."""
    n_told = sum(event.is_alarm for event in run.anomalies)
    if not run.anomalies:
        return "Nothing out of the ordinary happened."
    if not n_told:
        return f"Nothing sure; {wording.count(len(run.anomalies), 'event')} to watch."
    return f"{wording.count(n_told, 'event')} to know of."


def _show_done(run: Result, limits: Limits) -> Panel:
    noted = shorten_notices(run.notes, limits)
    return make_panel("done", ("done", "What was done"), summary=wording.shorten(run.summary, 1200), **noted)


def _show_lanes(run: Result) -> Panel:
    """Return the panel of the whole series."""
    order = np.asarray(run.arrays["order"], dtype=np.int64)
    names = [str(run.columns[k]) for k in order]
    lanes = [Lane(clip(name, 60), _draw_lane(run, k, name)) for k, name in enumerate(names)]
    left_out = max(0, len(run.columns) - len(lanes))
    ticks = [str(time) for time in run.own.get("times", [])]
    return make_panel("lanes", ("series", "The series"), lanes=lanes, ticks=ticks, left_out=left_out)


def _draw_lane(run: Result, at: int, name: str) -> Markup:
    """Lowest and highest readings along time as one band, and a mark for each event."""
    low = np.asarray(run.arrays["low"], dtype=np.float64)[:, at]
    high = np.asarray(run.arrays["high"], dtype=np.float64)[:, at]
    n = max(int(run.own["n"]), 2)
    x = np.asarray(run.arrays["firsts"], dtype=np.float64) / (n - 1) * WIDTH
    bottom, top = float(low.min()), float(high.max())
    y_low, y_high = (_measure_height(values, bottom, top) for values in (low, high))
    points = np.concatenate([np.column_stack([x, y_high]), np.column_stack([x, y_low])[::-1]])
    marks = [_mark(event, rank, name, n) for rank, event in enumerate(run.anomalies, start=1)]
    line = element("path", d=_draw_path(points) + "Z", fill=INK, stroke=INK, stroke_width=1, class_="line")
    return _draw_stretched(
        f"{wording.shorten(name, 60)}, the whole series", [*marks, line], class_="node-plot zoomable"
    )


def _mark(event: Anomaly, rank: int, channel: str, n: int) -> Markup:
    """The stretch of an event: strong in the channel that moved first, faint in others."""
    reason = event.reasons[0]
    if channel != reason.feature and channel not in reason.facts["others"]:
        return Markup()
    start, end = (reason.part.box if reason.part else (0, 0))[:2]
    left = start / (n - 1) * WIDTH
    wide = max((end - start) / (n - 1) * WIDTH, LEAST_BAND)
    is_own = channel == reason.feature
    opacity = 0.5 if is_own and event.is_alarm else 0.25
    title = element("title", f"{rank}: {tell.reason_phrase(reason)}")
    size = {"x": f"{left:.2f}", "y": 0, "width": f"{wide:.2f}", "height": HEIGHT}
    band = element("rect", title, **size, fill=ODD, fill_opacity=opacity)
    number = element("text", str(rank), x=f"{left:.2f}", y=12, font_size=12, fill=ODD, class_="event-number")
    return band + number if is_own else band


def show_cards(run: Result, limits: Limits) -> Panel | None:
    """Return the panel of the events, the surest first; None without any."""
    if not run.anomalies:
        return None
    cards = [_make_card(run, k) for k in range(min(len(run.anomalies), limits.items))]
    return make_panel("events", ("events", "Events"), cards=cards)


def _make_card(run: Result, k: int) -> Card:
    event = run.anomalies[k]
    reason = event.reasons[0]
    ends = [str(time) for time in event.shown.get("ends", [])]
    return Card(
        rank=k + 1,
        when=clip(str(event.id), 120),
        kind=name_of(reason.facts["what"]),
        words=clip(tell.reason_phrase(reason), 300),
        sure=write_how_sure(reason.facts["expected_false"]),
        is_told=event.is_alarm,
        drawing=_draw_around(run, k),
        span=f"{ends[0]} to {ends[1]}" if len(ends) == 2 else "",
    )


def _draw_around(run: Result, k: int) -> Markup:
    """The readings around an event, the event shaded, and a spike's usual readings."""
    reason = run.anomalies[k].reasons[0]
    values = np.asarray(run.array_of("data", k), dtype=np.float64)
    at = np.asarray(run.array_of("at", k), dtype=np.float64)
    bottom, top = float(values.min()), float(values.max())
    reach = max(float(at[-1] - at[0]), 1.0)
    start, end = (reason.part.box if reason.part else (0, 0))[:2]
    left = (start - 0.5 - at[0]) / reach * WIDTH
    wide = max((end - start) / reach * WIDTH, LEAST_BAND)
    marks = [
        element("rect", x=f"{left:.2f}", y=0, width=f"{wide:.2f}", height=HEIGHT, fill=ODD, fill_opacity=0.2)
    ]
    # What is usual differs along a cycle: it is drawn where the event is, and only if this is short.
    for level in reason.typical if reason.facts["what"] in SHORT else ():
        if bottom <= float(level) <= top:
            y = f"{_measure_height(np.array([float(level)]), bottom, top)[0]:.1f}"
            ends = {"x1": f"{left - BESIDE:.1f}", "x2": f"{left + wide + BESIDE:.1f}", "y1": y, "y2": y}
            marks.append(element("line", **ends, stroke=ODD, stroke_width=1, stroke_dasharray="3 3"))
    points = np.column_stack([(at - at[0]) / reach * WIDTH, _measure_height(values, bottom, top)])
    marks.append(
        element("path", d=_draw_path(points), fill="none", stroke=INK, stroke_width=1.4, class_="line")
    )
    return _draw_stretched(
        f"{wording.shorten(reason.feature, 60)} around event {k + 1}", marks, class_="node-plot"
    )


def _measure_height(values: Floats, low: float, high: float) -> Floats:
    """SVG counts y from the top down."""
    if high <= low:
        return np.full(len(values), HEIGHT / 2)
    return np.asarray(HEIGHT - EDGE - (values - low) / (high - low) * (HEIGHT - 2 * EDGE))


def _draw_path(points: Floats) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _draw_stretched(label: str, marks: list[Markup], *, class_: str) -> Markup:
    return draw_plot(WIDTH, HEIGHT, label, marks, class_=class_, preserveAspectRatio="none")
