"""The page on pictures, series and texts: each odd one with the places that make it so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from tellwhy.views import wording
from tellwhy.views.report.limits import clipped, fitting
from tellwhy.views.report.media.drawings import Drawn, marked_words, picture_views, score_line, stretch_lines
from tellwhy.views.report.page import assets, filled, save_page
from tellwhy.workflow.media.media_run import Item, MediaRun

NAMES = {"pictures": ("picture", "pictures"), "series": ("stretch", "stretches"), "texts": ("text", "texts")}
Text = Markup | str


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
    drawings: list[Drawn]
    span: str
    text: Markup


def render_media(run: MediaRun) -> str:
    """Return the page on a run of pictures, series or texts: at most 8 MB, no request."""
    return fitting(lambda n: _page(run, n), len(run.items))


def write_media_report(run: MediaRun, path: str | Path) -> Path:
    """Write the page to a file, whole or not at all, and return its path."""
    return save_page(render_media(run), path)


def _page(run: MediaRun, n: int) -> str:
    one, many = NAMES[run.kind]
    fewer = "" if n == len(run.items) else f" The first {n} fit on this page."
    return filled(
        "media/media_page.html.j2",
        kind=run.kind,
        one=one,
        many=many,
        source=clipped(run.source, 80),
        headline=wording.shortened(run.headline, 400),
        summary=wording.shortened(run.summary, 1200) + fewer,
        figures=_figures(run, n),
        notes=[wording.shortened(note, 400) for note in run.notices[:20]],
        cards=[_card(run, item, k) for k, item in enumerate(run.items[:n], start=1)],
        line=score_line(run) if run.kind == "series" else None,
        has_threshold=run.threshold is not None,
        settings=[(name, clipped(str(value), 120)) for name, value in run.settings.items()],
        versions=list(run.versions.items()),
        **assets("style.css", "text.css", "media/media.css"),
    )


def _figures(run: MediaRun, n: int) -> list[tuple[str, str]]:
    one, many = NAMES[run.kind]
    n_judged = len(run.scores) if run.kind == "series" else len(run.names)
    judged = "windows" if run.kind == "series" else one if n_judged == 1 else many
    alarms = "alarm" if run.n_flagged == 1 else "alarms"
    told = [] if run.threshold is None else [(alarms, wording.number(run.n_flagged))]
    return [(judged, wording.number(n_judged)), *told, ("explained below", wording.number(n))]


def _card(run: MediaRun, item: Item, rank: int) -> Card:
    drawings = {"pictures": picture_views, "series": stretch_lines}.get(run.kind)
    return Card(
        rank=rank,
        name=clipped(item.name, 120),
        score=wording.number(item.score, 3),
        p_value="" if item.p_value is None else wording.number(item.p_value, 2),
        is_alarm=item.is_alarm,
        places=[(clipped(place.text, 120), wording.share(place.share)) for place in item.places],
        notices=[wording.shortened(note, 200) for note in item.notices],
        drawings=[] if drawings is None else drawings(item),
        text=marked_words(item),
        span=f"{item.ends[0]} to {item.ends[1]}" if len(item.ends) == 2 else "",
    )
