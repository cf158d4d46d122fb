"""The shell of every page: panels one below the other, and a policy that lets nothing in or out."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from tellwhy import __version__
from tellwhy.storage.folders import check_new_file, new_file
from tellwhy.storage.overwriting import PAGE_SIGN
from tellwhy.views.page.svg import element
from tellwhy.words import wording
from tellwhy.words.wording import TITLE_LENGTH, shorten

Text = Markup | str
MOST_BYTES = 8_000_000
PLACES = ("tellwhy.views.page", "tellwhy.views.server")


@dataclass(frozen=True)
class Limits:
    """The most lines of each kind that a page shows, so that it stays small for any input."""

    listed: int = 1000  # anomalies in the ranked table
    cards: int = 200  # of them with charts
    items: int = 1000  # pictures, stretches, texts, inputs of a network
    factors: int = 12  # columns in a card
    reasons: int = 3  # in a line of the table
    columns: int = 10  # in the picture of all columns
    findings: int = 40
    groups: int = 9
    links: int = 20  # rows named in a group
    lines: int = 60  # notices, settings, versions

    def smaller(self) -> Limits:
        """Halve what takes most room."""
        items = max(self.items // 2, 1)
        return replace(self, listed=max(self.listed // 2, 1), cards=self.cards // 2, items=items)


@dataclass(frozen=True)
class Panel:
    """A part of the page: its sections, and how the contents name those that they lead to."""

    html: Markup
    contents: tuple[tuple[str, str], ...]  # id of a section, and the words of its link


@dataclass(frozen=True)
class Contents:
    """What a page shows: its title, what it is about, and its panels; None for one with nothing to show."""

    title: Text
    source: Text
    panels: Sequence[Panel | None]


def draw_page(found: Contents) -> str:
    """Return a page that shows its contents one below the other."""
    return make_page(found.title, found.source, found.panels)


def make_panel(template: str, *contents: tuple[str, str], **parts: object) -> Panel:
    """Fill the template of a panel."""
    return Panel(Markup(fill(f"{template}.html.j2", **parts)), contents)


def make_page(title: Text, source: Text, panels: Iterable[Panel | None]) -> str:
    """Put panels into the shell; those that have nothing to show are None."""
    there = [panel for panel in panels if panel is not None]
    return fill(
        "page.html.j2", title=title, source=source, panels=there, version=__version__, **_read_assets()
    )


def fit_page(draw: Callable[[Limits], str], *, n_items: int = 0) -> str:
    """Return a page as it is drawn, or with half as much on it until it is small enough.

    Parameters
    ----------
    draw
        Draws the page within limits.
    n_items
        How many pictures, stretches or texts there are.
    """
    limits = Limits(items=max(1, min(n_items, Limits().items)))
    page = draw(limits)
    while len(page.encode()) > MOST_BYTES and max(limits.listed, limits.items) > 1:
        limits = limits.smaller()
        page = draw(limits)
    return page


def write_page(page: str, path: str | Path) -> Path:
    """Write a page to a file, whole or not at all, and return its path; only a page of ours is replaced."""
    target = Path(path)
    with new_file(target, sign=PAGE_SIGN) as work:
        work.write_text(page, encoding="utf-8")
    return target


def check_page(path: str | Path) -> None:
    """Raise now what `write_page` would raise: before the work, not after it."""
    check_new_file(Path(path), sign=PAGE_SIGN)


def clip(text: object, length: int = 40) -> Text:
    """Return a text, or its beginning with the rest (up to a limit) shown when the pointer rests on it."""
    short = shorten(text, length)
    whole = shorten(text, TITLE_LENGTH)
    return short if whole == short else element("span", short, title=whole)


def fill(template: str, **parts: object) -> str:
    """Return a template with its parts put in, as text that any file can hold."""
    page = _make_environment().get_template(template).render(**parts)
    return page.encode("utf-8", "replace").decode()  # a lone surrogate cannot be written to a file


@cache
def _make_environment() -> Environment:
    """Return what fills templates: everything is escaped, and a missing name is an error."""
    made = Environment(
        loader=FunctionLoader(read_asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(number=wording.number, clipped=clip)
    made.globals["count"] = wording.count
    return made


def read_asset(name: str) -> str:
    """Return a template, a style or a script, of the page or of the server that shows its panels."""
    places = [files(package).joinpath(name) for package in PLACES]
    return next(place for place in places if place.is_file()).read_text(encoding="utf-8")


@cache
def _read_assets() -> dict[str, Markup]:
    """Style and scripts, and the policy that names their hashes and allows nothing else."""
    parts = {
        "style": read_asset("style.css"),
        "theme": read_asset("theme.js"),
        "script": read_asset("zoom.js") + read_asset("script.js"),
    }
    hashes = {name: _hash(text) for name, text in parts.items()}
    # No request can leave the page, and no script but these two can run, whatever a cell of the table holds.
    policy = (
        f"default-src 'none'; style-src {hashes['style']}; script-src {hashes['theme']} {hashes['script']}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return {name: Markup(text) for name, text in {**parts, "policy": policy}.items()}


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
