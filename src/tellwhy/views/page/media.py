"""Odd pictures, stretches and texts: each drawn with the places that make it odd."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from markupsafe import Markup, escape

from tellwhy.core.arrays import spread_evenly
from tellwhy.core.score import Floats
from tellwhy.results.result import Result
from tellwhy.views.page.nodes import write_png
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
from tellwhy.views.plots.visualisations import VISUALISATIONS, Pixels, make_pixels, visualise
from tellwhy.words import tell, wording

WIDTH = 900
HEIGHT = 110
MOST_POINTS = 1_500
MOST_CHANNELS = 8
SHADES = 5
OVER_PICTURE = "blend"  # the view that stands on the contact sheet, beside the picture
ON_SHEET = 2  # drawings of a picture


@dataclass(frozen=True)
class Place:
    """Where something is odd: in words, with its share of the relevance, and its box in the arrays."""

    text: str
    share: float
    box: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Item:
    """A picture, a stretch or a text, as it is drawn."""

    name: str
    score: float
    p_value: float | None
    is_alarm: bool
    places: list[Place]
    notices: list[str]
    data: Floats
    relevance: Floats
    words: list[tuple[str, float]]
    labels: list[str]
    ends: list[str]


def list_items(run: Result) -> list[Item]:
    """Return the anomalies of a run as they are drawn."""
    return [
        Item(
            name=str(told.id),
            score=told.score,
            p_value=told.p_value,
            is_alarm=told.is_alarm,
            places=[
                Place(tell.reason_phrase(each), each.share, () if each.part is None else each.part.box)
                for each in told.reasons
            ],
            notices=[notice.text for notice in told.notices],
            data=np.asarray(run.array_of("data", k), dtype=np.float64),
            relevance=np.asarray(run.array_of("relevance", k), dtype=np.float64),
            words=[(str(word), float(value)) for word, value in told.shown.get("words", [])],
            labels=[str(name) for name in told.shown.get("labels", [])],
            ends=[str(time) for time in told.shown.get("ends", [])],
        )
        for k, told in enumerate(run.anomalies)
    ]


@dataclass(frozen=True)
class Drawn:
    """A drawing with its title."""

    title: str
    image: Markup


def draw_views(item: Item) -> list[Drawn]:
    """The picture with its odd places framed, then its relevance over it, then in five other ways."""
    drawn = [Drawn("the picture", _draw_frame(make_pixels(item.data), item))]
    for how in sorted(VISUALISATIONS, key=lambda name: name != OVER_PICTURE):
        pixels = visualise(item.relevance, item.data, how)
        drawn.append(Drawn(how, image(pixels, f"{how} of {wording.shorten(item.name, 60)}")))
    return drawn


def image(pixels: Pixels, label: str) -> Markup:
    """Pixels as an image inside the page."""
    source = f"data:image/png;base64,{base64.b64encode(write_png(pixels)).decode()}"
    drawn = str(element("img", src=source, alt=label, width=pixels.shape[1], height=pixels.shape[0]))
    return Markup(drawn.removesuffix("</img>"))  # in HTML, an image has no end tag


def _draw_frame(pixels: Pixels, item: Item) -> Markup:
    """The picture as an SVG, with a frame around each odd place."""
    height, width = pixels.shape[:2]
    source = f"data:image/png;base64,{base64.b64encode(write_png(pixels)).decode()}"
    marks = [element("image", href=source, x=0, y=0, width=width, height=height)]
    for place in item.places:
        (top, bottom), (left, right) = place.box[:2], place.box[2:]
        size = {"x": left, "y": top, "width": right - left, "height": bottom - top}
        marks.append(element("rect", **size, fill="none", stroke=ODD, stroke_width=max(1.0, width / 160)))
    label = element("title", f"{wording.shorten(item.name, 60)} with its odd places framed")
    view = f"0 0 {width} {height}"
    return element(
        "svg", label, *marks, role="img", viewBox=view, width=width, height=height, class_="framed"
    )


def draw_stretch(item: Item) -> list[Drawn]:
    """Each channel around an odd stretch, relevance as bars below its line; channels with most come first."""
    n = len(item.data)
    start, stop = (item.places[0].box[0], item.places[0].box[1]) if item.places else (0, 0)
    weight = np.abs(item.relevance[start:stop]).sum(axis=0)
    reach = float(np.abs(item.relevance).max()) or 1.0
    drawn = []
    for c in np.argsort(-weight, kind="stable")[:MOST_CHANNELS]:
        name = wording.shorten(item.labels[c], 60)
        marks = [_draw_band(start / n, stop / n)]
        marks += _draw_bars(np.abs(item.relevance[:, c]) / reach)
        marks.append(
            element(
                "path",
                d=_draw_path(item.data[:, c]),
                fill="none",
                stroke=INK,
                stroke_width=1.4,
                class_="line",
            )
        )
        drawn.append(
            Drawn(name, draw_plot(WIDTH, HEIGHT, f"{name} around {wording.shorten(item.name, 60)}", marks))
        )
    return drawn


def score_line(run: Result) -> Markup:
    """The score of every window along time, the highest of those that a point stands for."""
    edges = spread_evenly(len(run.scores), MOST_POINTS)
    highest = np.maximum.reduceat(run.scores, edges)
    marks = [element("path", d=_draw_path(highest), fill="none", stroke=INK, stroke_width=1.2, class_="line")]
    if run.threshold is not None and highest.max() > highest.min():
        y = _measure_height(np.array([run.threshold]), float(highest.min()), float(highest.max()))[0]
        line = {"x1": 0, "x2": WIDTH, "y1": f"{y:.1f}", "y2": f"{y:.1f}"}
        marks.append(element("line", **line, stroke=ODD, stroke_dasharray="5 4"))
    return draw_plot(WIDTH, HEIGHT, "Score along time", marks)


def _measure_height(values: Floats, low: float, high: float) -> Floats:
    """SVG counts y from the top down."""
    return HEIGHT - 6 - (values - low) / ((high - low) or 1.0) * (HEIGHT - 12)


def _draw_path(values: Floats) -> str:
    at = spread_evenly(len(values), MOST_POINTS)
    y = _measure_height(values[at], float(values.min()), float(values.max()))
    x = at / max(len(values) - 1, 1) * WIDTH
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))


def _draw_bars(levels: Floats) -> list[Markup]:
    width = WIDTH / len(levels)
    return [
        element(
            "rect",
            x=f"{k * width:.1f}",
            y=f"{HEIGHT * (1 - v):.1f}",
            width=f"{width:.2f}",
            height=f"{HEIGHT * v:.1f}",
            fill=ODD,
            fill_opacity=0.45,
        )
        for k, v in enumerate(levels)
        if v > 0.01
    ]


def _draw_band(start: float, stop: float) -> Markup:
    size = {"x": f"{start * WIDTH:.1f}", "y": 0, "width": f"{(stop - start) * WIDTH:.1f}", "height": HEIGHT}
    return element("rect", **size, fill=ODD, fill_opacity=0.08)


def draw_marked_words(item: Item) -> Markup:
    """A text, escaped, each word in the shade of its relevance."""
    return shade_words([(text, abs(value)) for text, value in item.words])


def shade_words(words: Sequence[tuple[str, float]]) -> Markup:
    """Words, escaped, each in the shade of its value: orange above zero, blue below it."""
    largest = max((abs(value) for _, value in words), default=0.0)
    return Markup("").join(_draw_word(text, value, largest) for text, value in words)


def _draw_word(text: str, value: float, largest: float) -> Markup:
    safe = "\n".join(wording.replace_unsafe(line) for line in text.splitlines()) or " "
    shade = round(SHADES * abs(value) / largest) if largest > 0 else 0
    if shade == 0:  # a tenth of the strongest word, or less, stays plain
        return escape(safe)
    side = "against" if value > 0 else "for"  # the classes of the texts' page: orange, and blue
    return element("mark", safe, class_=f"{side}-{shade}", title=wording.number(value, 2))


NAMES = {"pictures": ("picture", "pictures"), "series": ("stretch", "stretches"), "texts": ("text", "texts")}


@dataclass(frozen=True)
class Card:
    """What the page shows of one item."""

    rank: int
    name: Text
    score: str
    p_value: str
    is_alarm: bool
    places: list[tuple[Text, str]]
    notices: list[str]
    sheet: list[Drawn]
    drawings: list[Drawn]
    span: str
    text: Markup


def render_media(run: Result) -> str:
    """Return the page on a run of pictures, series or texts: at most 8 MB, no request."""
    return fit_page(lambda limits: draw_page(make_contents(run, limits)), n_items=len(run.anomalies))


def write_media_report(run: Result, path: str | Path) -> Path:
    """Write the page to a file, whole or not at all, and return its path."""
    return write_page(render_media(run), path)


def make_contents(run: Result, limits: Limits) -> Contents:
    """Return the panels of the page."""
    source = clip(run.source, 80)
    opening = _open(run, limits)
    panels = [
        show_overview(opening),
        show_items(run, limits),
        show_settings({"": run.settings, "Versions": run.versions}),
    ]
    return Contents(opening.title, source, panels)


def _open(run: Result, limits: Limits) -> Overview:
    """The head of the page."""
    n = min(limits.items, len(run.anomalies))
    fewer = "" if n == len(run.anomalies) else f" The first {n} fit on this page."
    dashed = "" if run.threshold is None else "; dashed: above it, an alarm"
    return Overview(
        title=Markup("What is odd in {}").format(clip(run.source, 80)),
        headline=wording.shorten(" ".join(run.headline), 400),
        figures=_list_figures(run, n),
        summary=wording.shorten(run.summary, 1200) + fewer,
        chart=score_line(run) if run.kind == "series" else None,
        chart_words=f"Score of the window that begins at each moment{dashed}",
        **shorten_notices(run.notes, limits),
    )


def show_items(run: Result, limits: Limits) -> Panel:
    """Return the panel of pictures, stretches or texts, each with the places that make it odd."""
    one, many = NAMES[run.kind]
    return make_panel(
        "media",
        ("items", many.capitalize()),
        kind=run.kind,
        one=one,
        many=many,
        cards=[
            _make_card(run.kind, item, k) for k, item in enumerate(list_items(run)[: limits.items], start=1)
        ],
        has_threshold=run.threshold is not None,
    )


def _list_figures(run: Result, n: int) -> list[tuple[str, str]]:
    one, many = NAMES[run.kind]
    n_judged = len(run.scores) if run.kind == "series" else len(run.names)
    judged = "windows" if run.kind == "series" else one if n_judged == 1 else many
    alarms = "alarm" if run.n_flagged == 1 else "alarms"
    told = [] if run.threshold is None else [(alarms, wording.number(run.n_flagged))]
    return [(judged, wording.number(n_judged)), *told, ("explained below", wording.number(n))]


def _make_card(kind: str, item: Item, rank: int) -> Card:
    draw = {"pictures": draw_views, "series": draw_stretch}.get(kind)
    drawings = [] if draw is None else draw(item)
    n_on_sheet = ON_SHEET if kind == "pictures" else 0
    return Card(
        rank=rank,
        name=clip(item.name, 120),
        score=wording.number(item.score, 3),
        p_value="" if item.p_value is None else wording.number(item.p_value, 2),
        is_alarm=item.is_alarm,
        places=[(clip(place.text, 120), wording.share(place.share)) for place in item.places],
        notices=[wording.shorten(note, 200) for note in item.notices],
        sheet=drawings[:n_on_sheet],
        drawings=drawings[n_on_sheet:],
        text=draw_marked_words(item),
        span=f"{item.ends[0]} to {item.ends[1]}" if len(item.ends) == 2 else "",
    )
