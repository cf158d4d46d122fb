"""The page on what a model has learned: one panel per pattern, with a picture, a table and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from tellwhy.views.page.overview import Overview, show_overview
from tellwhy.views.page.shell import Contents, Panel, draw_page, make_panel, write_page
from tellwhy.views.page.svg import bar, element
from tellwhy.views.plots.visualisations import find_channel_axis
from tellwhy.words import wording

if TYPE_CHECKING:
    from tellwhy.explainers.surrogate.insight import Insight
    from tellwhy.kinds.insight import InsightRun

AGREED = 1.05  # split-R̂ up to which chains agree
DOUBTFUL = 1.1  # and beyond which intervals are too narrow
MOST_LINES = 15  # features of a table; insights.json holds all
MOST_NAMED = 3  # features of a sentence
ONE_SCORE = "score"  # target of a model without classes
MOST_CELLS = 10_000  # of an image that is drawn cell by cell
SIDE = 220  # pixels across an image


@dataclass(frozen=True)
class Line:
    """One feature of a pattern, as the page shows it."""

    feature: str
    bar: Markup
    coefficient: str
    interval: str
    is_sure: bool


@dataclass(frozen=True)
class Pattern:
    """One pattern, as the page shows it."""

    title: str
    sentence: str
    where: str
    trust: str
    is_trusted: bool
    lines: list[Line]
    n_left_out: int
    pictures: list[tuple[str, Markup]]


def render_insights(run: InsightRun) -> str:
    """Return the page on what a model has learned: one HTML file that makes no request."""
    return draw_page(make_contents(run))


def make_contents(run: InsightRun) -> Contents:
    """Return the panels of the page."""
    source = f"{wording.shorten(run.model, 60)} on {wording.shorten(run.source, 60)}"
    groups: dict[str, list[Pattern]] = {}
    for insight in run.insights:
        groups.setdefault(wording.shorten(insight.target, 80), []).append(_make_pattern(insight))
    opening = Overview(
        title=f"What was learned: {source}",
        headline=run.headline.text,
        figures=_list_figures(run, len(groups)),
        summary=(
            "A pattern is a simple sum, one number per feature, that comes close to the model’s output on a "
            "part of the rows."
        ),
        notices=[wording.shorten(notice, 400) for notice in [*_name_apart(run), *run.notices]],
    )
    return Contents(f"What {source} has learned", source, [show_overview(opening), _show(run, groups)])


def write_insight_report(run: InsightRun, path: str | Path) -> Path:
    """Write the page to a file, whole or not at all, and return its path."""
    return write_page(render_insights(run), path)


def _show(run: InsightRun, groups: Mapping[str, list[Pattern]]) -> Panel:
    """The panel of patterns, class by class."""
    word = "Class " if len(groups) > 1 else ""
    classes = [(f"class-{k}", f"{word}{name}") for k, name in enumerate(groups, start=1)]
    return make_panel(
        "insight",
        *classes,
        ("reading", "How to read this"),
        groups=groups,
        agreement={wording.shorten(n, 80): c.words() for n, c in run.convergence.items()},
        level=f"{100 * run.insights[0].credibility:.0f} %" if run.insights else "95 %",
    )


def _name_apart(run: InsightRun) -> list[str]:
    """Say which classes' chains do not agree."""
    apart = [name for name, found in run.convergence.items() if found.worst_r_hat > DOUBTFUL]
    if not apart:
        return []
    return [
        f"Chains do not agree yet in {', '.join(wording.shorten(name, 80) for name in apart)}: the "
        "intervals there are too narrow. Give them more time (--minutes), more sweeps, or fewer components."
    ]


def _list_figures(run: InsightRun, n_groups: int) -> list[tuple[str, str]]:
    worst = max((found.worst_r_hat for found in run.convergence.values()), default=np.nan)
    least = min((found.least_ess for found in run.convergence.values()), default=np.nan)
    return [
        ("rows that the model was asked about", wording.number(run.n_rows)),
        ("classes" if n_groups != 1 else "class, or score", wording.number(n_groups)),
        ("split-R̂ where chains agree least (1 is full agreement)", f"{worst:.2f}"),
        ("effective draws, the fewest", f"{least:.0f}"),
    ]


def _make_pattern(insight: Insight) -> Pattern:
    lines = _make_lines(insight)
    return Pattern(
        title=_write_title(insight),
        sentence=_write_sentence(insight),
        where=", ".join(
            f"{wording.shorten(name, 60)} is {wording.between(low, high)}"
            for name, low, high in insight.applies
        ),
        trust=_write_trust(insight),
        is_trusted=insight.r_hat <= DOUBTFUL,
        lines=lines,
        n_left_out=len(insight.top) - len(lines),
        pictures=_draw_pictures(insight),
    )


def _write_title(insight: Insight) -> str:
    if insight.component < 0:
        return "All of its rows"
    low = 100 * insight.share_interval[0]
    high = 100 * insight.share_interval[1]
    limits = "" if high - low < 0.5 else f" (between {low:.0f} and {high:.0f} %)"
    return f"Pattern {insight.component + 1}: {100 * insight.share:.0f} % of its rows{limits}"


def _write_sentence(insight: Insight) -> str:
    """What raises and what lowers the output, of the features whose sign is sure."""
    frame = insight.to_frame()
    parts = []
    words = ("raise the output", "lower the output")
    if insight.target != ONE_SCORE:
        words = ("make the class likelier", "make the class less likely")
    for verb, sure in zip(words, (frame[frame["low"] > 0], frame[frame["high"] < 0]), strict=True):
        names = [wording.shorten(str(name), 60) for name in sure["feature"][:MOST_NAMED]]
        if names:
            more = f" and {len(sure) - len(names)} more" if len(sure) > len(names) else ""
            parts.append(f"Higher values of {', '.join(names)}{more} {verb}.")
    return " ".join(parts) or "No feature surely matters here: every interval holds 0."


def _write_trust(insight: Insight) -> str:
    """Whether chains agree on the pattern, in words."""
    if np.isnan(insight.r_hat):
        return "agreement of the chains unknown"
    if np.isinf(insight.r_hat):
        return "not there in every draw: no sure pattern"
    words = f"R̂ {insight.r_hat:.2f}, {insight.n_effective:.0f} effective draws"
    if insight.r_hat <= AGREED:
        return f"chains agree ({words})"
    if insight.r_hat <= DOUBTFUL:
        return f"chains nearly agree ({words})"
    return f"chains disagree ({words}): intervals are too narrow"


def _make_lines(insight: Insight) -> list[Line]:
    frame = insight.to_frame().head(MOST_LINES)
    reach = float(np.abs(frame["effect"]).max()) if len(frame) else 1.0
    found = []
    for line in frame.itertuples(index=False):
        row: Any = line
        kind = "odd" if row.effect > 0 else "usual"
        interval = f"[{wording.number(row.low, 3)}, {wording.number(row.high, 3)}]"
        effect = wording.number(row.effect, 3)
        found.append(
            Line(
                wording.shorten(str(row.feature), 60),
                bar(row.effect, -reach, reach, f"effect {effect}", class_=kind),
                wording.number(row.coefficient, 3),
                interval,
                bool(row.low > 0 or row.high < 0),
            )
        )
    return found


def _draw_pictures(insight: Insight) -> list[tuple[str, Markup]]:
    """The mean of the rows and the main cells beside it, where rows are images that can be drawn."""
    if insight.coefficients.ndim < 2:
        return []
    main = np.zeros(insight.coefficients.size)
    main[insight.top] = insight.effects.ravel()[insight.top]
    pattern = _make_image(main.reshape(insight.coefficients.shape))
    mean = _make_image(insight.centre)
    if pattern is None or mean is None or mean.size > MOST_CELLS:
        return []
    low = float(mean.min())
    grey = (mean - low) / ((float(mean.max()) - low) or 1.0)
    return [
        ("Mean of its rows", _draw_cells("Mean of the rows", grey, ("ink-cell", "ink-cell"))),
        (
            "What raises (orange) and lowers (blue) the output",
            _draw_cells("Main cells", pattern, ("odd", "usual")),
        ),
    ]


def _make_image(values: Any) -> Any:
    """Values as (height, width), channels added up; None for what is not an image."""
    if values.ndim == 3:
        return values.sum(axis=find_channel_axis(values.shape))
    return values if values.ndim == 2 else None


def _draw_cells(label: str, values: Any, classes: tuple[str, str]) -> Markup:
    """Draw an image as squares, the stronger the larger its value; one class for each sign."""
    height, width = values.shape
    size = SIDE / max(height, width)
    reach = float(np.abs(values).max()) or 1.0
    marks = [element("rect", class_="cell-ground", x=0, y=0, width=width * size, height=height * size)]
    for i, j in zip(*np.nonzero(np.abs(values) > 0.02 * reach), strict=True):
        strength = round(float(abs(values[i, j])) / reach, 2)
        kind = classes[0] if values[i, j] > 0 else classes[1]
        place = {
            "x": round(j * size, 2),
            "y": round(i * size, 2),
            "width": round(size, 2),
            "height": round(size, 2),
        }
        marks.append(element("rect", class_=kind, fill_opacity=strength, **place))
    shape = {"width": round(width * size), "height": round(height * size)}
    return element("svg", element("title", label), *marks, class_="cells", role="img", **shape)
