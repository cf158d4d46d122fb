"""What changed between two tables: in sentences, and as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellwhy.words.wording import clean, count

if TYPE_CHECKING:
    from tellwhy.kinds.drift import Difference
    from tellwhy.verdicts.column_drift import Drift


from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from tellwhy.views.page.overview import Overview, show_overview, show_settings
from tellwhy.views.page.shell import Contents, Panel, draw_page, make_panel, write_page
from tellwhy.views.page.svg import bar
from tellwhy.words import wording

if TYPE_CHECKING:
    from tellwhy.kinds.drift import Difference
    from tellwhy.verdicts.column_drift import Drift

_MOST_NAMED = 10


def headline(found: Difference) -> str:
    """How many columns drifted, of how many, between which tables."""
    compared = {drift.column for drift in found.drifts}
    drifted = {drift.column for drift in found.drifted}
    n = f"{len(drifted)} of {count(len(compared), 'column')}" if drifted else "No column"
    tables = [
        f"{clean(s)} ({count(n, 'row')})" for s, n in zip((found.old, found.new), found.n_rows, strict=True)
    ]
    return f"{n} drifted from {tables[0]} to {tables[1]}."


def difference_words(found: Difference) -> list[str]:
    """Sentences on everything but the drifts themselves: columns, how they are read, periods, rare levels."""
    lines = [headline(found)]
    for word, names in (("New", found.new_columns), ("Gone", found.gone_columns)):
        if names:
            more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
            lines.append(f"{word} columns: {', '.join(map(clean, names[:_MOST_NAMED]))}{more}.")
    lines += [
        f"{clean(name)} is read differently: {clean(old)} → {clean(new)}."
        for name, (old, new) in found.changed.items()
    ]
    lines += [f"{clean(name)} only tells the period: {told}." for name, told in found.ordering.items()]
    lines += [
        f"{clean(drift.name)}: {clean(levels)}; with so few rows, that may be chance."
        for drift in found.drifts
        if not drift.drifted and (levels := _write_rare_levels(drift))
    ]
    if found.not_compared:
        told = [
            f"{clean(name)} ({clean(why)})" for name, why in list(found.not_compared.items())[:_MOST_NAMED]
        ]
        lines.append(f"Not compared: {', '.join(told)}.")
    lines.append(_write_fine_print(found))
    return lines


def _write_rare_levels(drift: Drift) -> str:
    parts = []
    for word, levels in (("new", drift.new_levels), ("gone", drift.gone_levels)):
        shown = ", ".join(f"{level} ({n:,})" for level, n in list(levels.items())[:5])
        more = f" and {len(levels) - 5} more" if len(levels) > 5 else ""
        if levels:
            parts.append(f"{word}: {shown}{more}")
    return "; ".join(parts)


def _write_fine_print(found: Difference) -> str:
    return (
        f"{count(len(found.drifts), 'comparison')}, corrected for their number (Holm): if the tables "
        f"were samples of one source, something would be called drifted in {100 * found.level:.3g} % of such "
        "pairs. Size: from 0, alike, to 1, nothing in common."
    )


def chance(p_value: float) -> str:
    """Return a probability with two digits, or a bound where it is tiny.

    Examples
    --------
    >>> chance(0.0312), chance(1e-9)
    ('0.031', '< 0.0001')
    """
    return "< 0.0001" if p_value < 1e-4 else f"{p_value:.2g}"


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
    return draw_page(make_contents(found))


def make_contents(found: Difference) -> Contents:
    """Return the panels of the page."""
    source = f"{wording.shorten(found.old, 60)} → {wording.shorten(found.new, 60)}"
    headline, *words = difference_words(found)
    opening = Overview(
        title=f"What changed: {source}",
        headline=headline,
        notices=[wording.shorten(line, 400) for line in words],
    )
    panels = [show_overview(opening), show_drift(found), _show_settings(found)]
    return Contents(opening.title, source, panels)


def show_drift(found: Difference) -> Panel:
    """Return the panel of what changed, column by column."""
    return make_panel(
        "drift",
        ("drift", "Columns"),
        lines=[_make_line(drift) for drift in found.drifts[:MOST_LINES]],
        n_left_out=max(0, len(found.drifts) - MOST_LINES),
        notices=[wording.shorten(notice, 400) for notice in found.notices],
    )


def _show_settings(found: Difference) -> Panel:
    sizes = [wording.count(n, "row") for n in found.n_rows]
    tables = {"old": f"{found.old}: {sizes[0]}", "new": f"{found.new}: {sizes[1]}"}
    return show_settings({"": {**tables, "level": found.level}, "How columns were read": found.roles})


def write_drift_report(found: Difference, path: str | Path) -> Path:
    """Write the page to a file, whole or not at all, and return its path."""
    return write_page(render_drift(found), path)


def _make_line(drift: Drift) -> Line:
    return Line(
        wording.shorten(drift.name, 80),
        drift.what,
        wording.shorten(drift.text, 300),
        f"{drift.size:.2f}",
        bar(drift.size, 0.0, 1.0, f"size {drift.size:.2f}", class_="odd" if drift.drifted else "usual"),
        chance(drift.p_adjusted),
        drift.drifted,
    )
