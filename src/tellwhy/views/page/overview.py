"""The head of the page, groups of rows, which columns make rows odd, and the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PureWindowsPath
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from tellwhy.results.result import Finding, Result
from tellwhy.verdicts.sheet_rows import list_shown_places
from tellwhy.views.page.shell import Limits, Panel, Text, clip, make_panel
from tellwhy.views.page.svg import bar
from tellwhy.words import tell, wording

MOST_PLACES = 6
KIND_WORDS = {
    "attribution": "part of the score",
    "sensitivity": "sensitivity of the score",
    "signal": "strength of the signal",
    "ranking": "weight in the ranking",
    "relative": "relevance, in multiples of what is usual of the column",
    "probability": "probability of being wrong",
}


@dataclass(frozen=True)
class Overview:
    """The head of the page: the finding in one sentence, key figures, what was done, what to know.

    With `sentences`, these are read first, and what was done is folded away.
    """

    title: Text
    headline: str
    figures: Sequence[tuple[str, Text]] = ()
    because: Sequence[str] = ()
    summary: str = ""
    sentences: Sequence[str] = ()
    notices: Sequence[str] = ()
    more_notices: int = 0
    chart: Markup | None = None
    chart_words: str = ""


def show_overview(found: Overview) -> Panel:
    """Return the head of the page."""
    return make_panel("overview", ("summary", "Summary"), overview=found)


def shorten_notices(notices: Sequence[str], limits: Limits) -> dict[str, Any]:
    """Return the notices that fit, and how many do not."""
    shown = [wording.shorten(notice, 400) for notice in notices[: limits.lines]]
    return {"notices": shown, "more_notices": max(0, len(notices) - limits.lines)}


def write_title(run: Result) -> Text:
    """Return what the page is called."""
    return Markup("What is odd in {}").format(clip(cut_file_name(run.source), 80))


def make_overview(run: Result, limits: Limits) -> Overview:
    """Return the head of the page on the rows of a table."""
    n = len(run.scores)
    n_above = count_above(run)
    figures: list[tuple[str, Text]] = [
        ("rows scored", wording.number(n)),
        ("above the threshold", wording.number(n_above)),
        ("columns used", wording.number(len(run.columns))),
        _count_causes_in_words(run),
    ]
    return Overview(
        title=write_title(run),
        headline=_write_headline(n, n_above),
        figures=figures,
        because=_list_main_columns(run) if n_above else [],
        summary=wording.shorten(run.summary, 2000),
        sentences=[wording.shorten(sentence, 400) for sentence in run.headline],
        **shorten_notices(run.notes, limits),
    )


def _count_causes_in_words(run: Result) -> tuple[str, Text]:
    """How many different causes the alarms have; for runs that count none, the method."""
    if run.opening is None or not run.opening.n_causes:
        return "explained by", clip(run.explanation.method, 24)
    n = run.opening.n_causes
    return "different causes" if n > 1 else "cause", wording.number(n)


def cut_file_name(source: str) -> str:
    """Return the last part of a path of any system: folders are nobody else's business."""
    return PureWindowsPath(source).name or source  # it also splits at slashes


def count_above(run: Result) -> int:
    """Count the rows above the threshold."""
    return int((np.asarray(run.scores) > run.line).sum())


def _write_headline(n: int, n_above: int) -> str:
    if n_above == 0:
        return f"None of {wording.count(n, 'row')} stands out."
    verb = "stands" if n_above == 1 else "stand"
    return f"{wording.number(n_above)} of {wording.count(n, 'row')} {verb} out."


def _list_main_columns(run: Result) -> list[str]:
    return [wording.shorten(name, 40) for name, part in sort_by_share(run.column_shares)[:3] if part >= 0.05]


def sort_by_share(shares: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return finite shares by their column, the largest first."""
    return sorted(
        ((str(k), float(v)) for k, v in shares.items() if np.isfinite(v)), key=lambda pair: -pair[1]
    )


@dataclass(frozen=True)
class DataFinding:
    """One cause: how many rows, what is wrong, an example, where, and what was done."""

    n_rows: str
    text: Text
    example: Text
    where: str
    action: str
    links: list[int]  # rows of it that have a card


def show_findings(run: Result, limits: Limits, decisions: Sequence[object] = ()) -> Panel | None:
    """Return the panel of what was found, cause by cause.

    Parameters
    ----------
    run, limits
        What was found, and how much of it is shown.
    decisions
        Where findings can be rejected: of each the decision, "" where there is none, None where it cannot be.
    """
    found = list_findings(run, limits)
    if not found:
        return None
    return make_panel(
        "findings",
        ("findings", "Findings"),
        findings=found,
        n_findings=len(run.findings),
        decisions=decisions,
    )


def list_findings(run: Result, limits: Limits) -> list[DataFinding]:
    """Return what was found, most important first."""
    with_card = {anomaly.row for anomaly in run.anomalies[: limits.cards]}
    made = []
    for found in run.findings[: limits.findings]:
        made.append(
            DataFinding(
                n_rows=wording.number(len(found.rows)) if found.rows else "",
                text=clip(tell.finding_without_count(found), 260),
                example=clip(tell.new_example(found), 80),
                where=_list_places(found),
                action=wording.shorten(found.action, 60),
                links=[int(row) for row in found.rows if row in with_card][:1],
            )
        )
    return made


def _list_places(found: Finding) -> str:
    """'lines 5, 79', or rows where lines are not known."""
    shown = list_shown_places(found, MOST_PLACES)
    if not shown:
        return "whole column"
    n = len(found.rows)
    word = "line" if found.lines else "row"
    listed = ", ".join(wording.shorten(place, 60) for place in shown)
    more = f" and {wording.number(n - MOST_PLACES)} more" if n > MOST_PLACES else ""
    return f"{word if n == 1 else word + 's'} {listed}{more}"


class Link(NamedTuple):
    """A row of a group: its number, its name, and whether it has a card to go to."""

    row: int
    name: Text
    has_card: bool


@dataclass(frozen=True)
class RowGroup:
    """Anomalies with the same main columns; `more` of them are not linked."""

    features: list[Text]
    n_rows: int
    bar: Markup
    links: list[Link]
    more: int


def show_groups(run: Result, limits: Limits) -> Panel | None:
    """Return the panel of rows that are odd for the same reasons; where there are findings, they tell it."""
    if run.findings:
        return None
    shown = list_groups(run, limits)
    contents = [("groups", "Groups")] if shown else []
    return make_panel("groups", *contents, groups=shown, n_groups=len(run.groups))


def list_groups(run: Result, limits: Limits) -> list[RowGroup]:
    """Return the groups, with links to the cards of their rows."""
    chosen = run.groups[: limits.groups]
    largest = max((len(group.rows) for group in chosen), default=1)
    names = {
        a.row: clip(a.id if a.id is not None else f"row {a.row}", 24) for a in run.anomalies[: limits.listed]
    }
    with_card = {a.row for a in run.anomalies[: limits.cards]}
    made = []
    for group in chosen:
        label = f"{wording.count(len(group.rows), 'row')} in this group"
        rows = group.rows[: limits.links]
        links = [Link(int(row), names.get(row, f"row {row}"), row in with_card) for row in rows]
        more = len(group.rows) - len(links)
        drawn = bar(len(group.rows), 0.0, largest, label, class_="usual")
        features = [clip(name, 40) for name in group.features[: limits.factors]]
        made.append(RowGroup(features, len(group.rows), drawn, links, more))
    return made


def show_settings(lists: Mapping[str, Mapping[str, object]]) -> Panel:
    """Return the panel of settings: names and values, in lists with a title each."""
    filled = [
        (title, [(clip(name), clip(_write_setting(value), 400)) for name, value in pairs.items()])
        for title, pairs in lists.items()
        if pairs
    ]
    return make_panel("settings", ("settings", "Settings"), lists=filled)


def show_settings_of_run(run: Result, limits: Limits) -> Panel:
    """Return what is needed to repeat the run of a table."""
    return show_settings(
        {
            "": list_settings(run, limits),
            "How columns were read": _take_first(run.roles, limits),
            "Versions": _take_first(run.versions, limits),
        }
    )


def list_settings(run: Result, limits: Limits) -> dict[str, object]:
    """Return what the user chose, and what came of it."""
    return {
        "input": cut_file_name(run.source),
        "fingerprint (SHA-256)": run.fingerprint,
        **_take_first(run.settings, limits),
        "threshold": wording.number(run.threshold, 6),
        "created": run.created,
        "schema": run.schema,
    }


def _take_first(pairs: Mapping[str, object], limits: Limits) -> dict[str, object]:
    return dict(list(pairs.items())[: limits.lines])


def _write_setting(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(v) for v in value[:100]) or "none"
    return str(value)
