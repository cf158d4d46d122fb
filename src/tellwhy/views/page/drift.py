"""The page on what changed between two tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from tellwhy.views.page import drift_wording
from tellwhy.views.page.overview import Overview, show_overview, show_settings
from tellwhy.views.page.shell import Panel, make_page, make_panel, write_page
from tellwhy.views.page.svg import bar
from tellwhy.words import wording

if TYPE_CHECKING:
    from tellwhy.kinds.drift import Difference
    from tellwhy.verdicts.column_drift import Drift

MOST_LINES = 500


@dataclass(frozen=True)
class Line:
    """One comparison, as the page shows it."""

    column: str
    what: str
    text: str
    size: str
    bar: Markup
    chance: str
    drifted: bool


def render_drift(found: Difference) -> str:
    """Return the page on what changed between two tables: one HTML file that makes no request."""
    source = f"{wording.shortened(found.old, 60)} → {wording.shortened(found.new, 60)}"
    headline, *words = drift_wording.difference_words(found)
    opening = Overview(
        title=f"What changed: {source}",
        headline=headline,
        notices=[wording.shortened(line, 400) for line in words],
    )
    return make_page(
        opening.title, source, [show_overview(opening), _show_drift(found), _show_settings(found)]
    )


def _show_drift(found: Difference) -> Panel:
    return make_panel(
        "drift",
        ("drift", "Columns"),
        lines=[_line(drift) for drift in found.drifts[:MOST_LINES]],
        n_left_out=max(0, len(found.drifts) - MOST_LINES),
        notices=[wording.shortened(notice, 400) for notice in found.notices],
    )


def _show_settings(found: Difference) -> Panel:
    sizes = [wording.count(n, "row") for n in found.n_rows]
    tables = {"old": f"{found.old}: {sizes[0]}", "new": f"{found.new}: {sizes[1]}"}
    return show_settings({"": {**tables, "level": found.level}, "How columns were read": found.roles})


def write_drift_report(found: Difference, path: str | Path) -> Path:
    """Write the page to a file, whole or not at all, and return its path."""
    return write_page(render_drift(found), path)


def _line(drift: Drift) -> Line:
    return Line(
        wording.shortened(drift.name, 80),
        drift.what,
        wording.shortened(drift.text, 300),
        f"{drift.size:.2f}",
        bar(drift.size, 0.0, 1.0, f"size {drift.size:.2f}", class_="odd" if drift.drifted else "usual"),
        drift_wording.chance(drift.p_adjusted),
        drift.drifted,
    )
