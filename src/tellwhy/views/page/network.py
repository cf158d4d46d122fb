"""The page on an explained network: each input with its classes and relevance, and how far to trust it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from markupsafe import Markup

from tellwhy.core.score import Floats
from tellwhy.results.network_run import FoundGroup, MethodTold, NetworkItem, NetworkRun
from tellwhy.views.page.media import Drawn, image, shade_words
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
from tellwhy.views.page.svg import bar
from tellwhy.views.plots.visualisations import VISUALISATIONS, find_channel_axis, make_pixels, visualise
from tellwhy.words import wording
from tellwhy.words.english.networks import KINDS, is_carried, write_carried, write_conserved

READING = "How to read this"
MOST_ITEMS = 60
MOST_MEMBERS = 8  # pictures of a group that are shown


@dataclass(frozen=True)
class ClassBar:
    """A class with its output and probability."""

    name: Text
    bar: Markup
    amount: str
    is_explained: bool


@dataclass(frozen=True)
class Way:
    """One method on one input."""

    title: str
    left: str
    drawings: list[Drawn]
    text: Markup


@dataclass(frozen=True)
class Card:
    """What the page shows of one input."""

    name: Text
    explained: Text
    output: str
    picture: Markup | None
    classes: list[ClassBar]
    ways: list[Way]
    notices: list[str]


@dataclass(frozen=True)
class Trust:
    """What the page says of one method."""

    title: str
    kind: str
    conserved: str
    carried: str
    is_carried: bool
    is_checked: bool
    ledger: list[tuple[str, Markup, str]]


@dataclass(frozen=True)
class Odd:
    """A group of explanations that look where others do not."""

    text: str
    members: list[Drawn]


def render_network(run: NetworkRun) -> str:
    """Return the page on an explained network: at most 8 MB, no request."""
    return fit_page(
        lambda limits: draw_page(make_contents(run, limits)), n_items=min(MOST_ITEMS, len(run.items))
    )


def write_network_report(run: NetworkRun, path: str | Path) -> Path:
    """Write the page to a file, whole or not at all, and return its path."""
    return write_page(render_network(run), path)


def make_contents(run: NetworkRun, limits: Limits) -> Contents:
    """Return the panels of the page."""
    source = f"{wording.shorten(run.network, 60)} on {wording.shorten(run.source, 60)}"
    panels = [
        show_overview(_open(run, limits, source)),
        show_network(run, limits),
        show_settings({"": run.settings, "Versions": run.versions}),
    ]
    return Contents(f"Why {source}", source, panels)


def _open(run: NetworkRun, limits: Limits, source: str) -> Overview:
    """The head of the page."""
    notices = list(run.notices)
    if limits.items < len(run.items):
        notices.append(
            f"The first {limits.items} inputs fit on this page; arrays.npz holds the values of "
            f"{len(run.items)}."
        )
    return Overview(
        title=f"Why: {source}",
        headline=wording.shorten(run.headline, 300),
        figures=_list_figures(run),
        summary=f"Explained is {wording.shorten(run.explains, 300)}.",
        **shorten_notices(notices, limits),
    )


def show_network(run: NetworkRun, limits: Limits) -> Panel:
    """Return the panel of odd groups, of how far each method can be trusted, and of every input."""
    contents = [("trust", "How far to trust it"), ("items", run.kind.capitalize()), ("reading", READING)]
    return make_panel(
        "network",
        *([("odd", "Odd groups")] if run.groups else []),
        *contents,
        kind=run.kind,
        cards=[_make_card(item, run.methods) for item in run.items[: limits.items]],
        trust=[_make_trust(told) for told in run.methods],
        odd=[_make_odd(group, run) for group in run.groups],
        n_grouped=run.n_grouped,
    )


def _list_figures(run: NetworkRun) -> list[tuple[str, str]]:
    counts = [
        ("input" if run.n_inputs == 1 else "inputs", wording.number(run.n_inputs)),
        ("method" if len(run.methods) == 1 else "methods", wording.number(len(run.methods))),
    ]
    first = run.items[0].classes[0]
    if run.n_inputs == 1:
        sure = (
            wording.number(first.output, 3) if first.probability is None else wording.share(first.probability)
        )
        what = "its output" if first.probability is None else "probability of it"
        return [("likeliest class", wording.shorten(first.name, 30)), (what, sure), *counts]
    painted = max(told.n_judged for told in run.methods)
    return [
        *counts,
        ("painted over, to check", wording.number(painted)),
        ("looked through for odd groups", wording.number(run.n_grouped)),
    ]


def _make_card(item: NetworkItem, methods: Sequence[MethodTold]) -> Card:
    name = wording.shorten(item.name, 60)
    return Card(
        name=clip(item.name, 120),
        explained=clip(item.explained, 60),
        output=wording.number(item.output, 3),
        picture=image(make_pixels(item.pixels), f"the picture {name}") if item.pixels.size else None,
        classes=_make_bars(item),
        ways=[_draw_way(item, told) for told in methods],
        notices=[wording.shorten(note, 200) for note in item.notices],
    )


def _make_bars(item: NetworkItem) -> list[ClassBar]:
    """The likeliest classes: probabilities from 0 to 1, or outputs of a network that has one."""
    shown = [c.output if c.probability is None else c.probability for c in item.classes]
    reach = 1.0 if item.classes[0].probability is not None else max(abs(x) for x in shown) or 1.0
    made = []
    for one, value in zip(item.classes, shown, strict=True):
        is_explained = one.name == item.explained
        words = wording.number(one.output, 3) if one.probability is None else wording.share(one.probability)
        drawn = bar(
            value,
            min(0.0, -reach if value < 0 else 0.0),
            reach,
            words,
            class_="odd" if is_explained else "usual",
        )
        made.append(ClassBar(clip(one.name, 40), drawn, words, is_explained))
    return made


def _draw_way(item: NetworkItem, told: MethodTold) -> Way:
    values = item.values[told.name]
    left = item.left_over[told.name]
    said = "" if left is None else f"{wording.number(left, 2)} of {wording.number(item.output, 3)} left over"
    if item.words:
        pairs = zip(item.words, _sum_per_word(values), strict=True)
        pieces = [piece for word, v in pairs for piece in ((word, float(v)), (" ", 0.0))]
        return Way(told.title, said, [], shade_words(pieces))
    shown = _enlarge(values, item.pixels)
    drawn = [
        Drawn(how, image(visualise(shown, item.pixels, how), f"{how} of {wording.shorten(item.name, 60)}"))
        for how in VISUALISATIONS
    ]
    return Way(told.title, said, drawn, Markup(""))


def _sum_per_word(values: Floats) -> Floats:
    """One number per word, also where each has a vector."""
    return values if values.ndim == 1 else values.reshape(len(values), -1).sum(axis=1)


def _enlarge(values: Floats, pixels: Floats) -> Floats:
    """Values in the size of the picture, where the user's own function prepared another size."""
    axis = find_channel_axis(values.shape) if values.ndim == 3 else None
    planes = values if axis is None else np.moveaxis(values, axis, 2)
    if planes.shape[:2] == pixels.shape[:2]:
        return planes
    down = np.arange(pixels.shape[0]) * planes.shape[0] // pixels.shape[0]
    across = np.arange(pixels.shape[1]) * planes.shape[1] // pixels.shape[1]
    return np.asarray(planes[down][:, across])


def _make_trust(told: MethodTold) -> Trust:
    reach = max((abs(line.share) for line in told.ledger), default=1.0)
    lines = []
    for line in told.ledger:
        words = f"{100 * line.share:.1f} %"
        drawn = bar(line.share, -reach, reach, words, class_="odd" if line.share > 0 else "usual")
        where = f"{line.where}: {line.operation}" if line.where else line.operation
        lines.append((wording.shorten(where, 60), drawn, words))
    is_checked = told.area is not None
    return Trust(
        told.title,
        KINDS[told.kind],
        write_conserved(told),
        write_carried(told),
        is_carried(told),
        is_checked,
        lines,
    )


def _make_odd(group: FoundGroup, run: NetworkRun) -> Odd:
    named = set(group.names)
    members = [item for item in run.items if item.name in named][:MOST_MEMBERS]
    first = run.methods[0].name
    drawn = []
    for item in members:
        seen = visualise(_enlarge(item.values[first], item.pixels), item.pixels, "blend")
        drawn.append(
            Drawn(
                wording.shorten(item.name, 40),
                image(seen, f"relevance of {wording.shorten(item.name, 60)}"),
            )
        )
    return Odd(group.text, drawn)
