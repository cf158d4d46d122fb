"""The parts of the page besides the rows: findings, columns, the line of alarms, segments, decisions."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from tellwhy.core.errors import InvalidParameter
from tellwhy.results.node_picture import read_picture
from tellwhy.verdicts.alarms import expect_false
from tellwhy.views.page.nodes import show_nodes
from tellwhy.views.page.overview import show_findings, show_groups, show_settings_of_run
from tellwhy.views.page.page import show_evidence, show_trust
from tellwhy.views.page.scores import show_scores
from tellwhy.views.page.shell import Limits, Panel, Text, clip, fill
from tellwhy.views.page.svg import bar
from tellwhy.views.server.app_columns import find_labelled, list_segments
from tellwhy.views.server.app_rows import OF_ROWS
from tellwhy.views.server.app_session import Session, cells_of
from tellwhy.words import wording

if TYPE_CHECKING:
    from tellwhy.kinds.decisions import Decision, Standing
    from tellwhy.verdicts.repair import Change


from tellwhy.results.labelled_texts import read_labels
from tellwhy.results.network_run import read_network
from tellwhy.results.result import Result
from tellwhy.views.page import drift, events, insight, labels, media, network, page
from tellwhy.views.page.shell import Contents

LIMITS = Limits()
MOST_REPAIRS = 500
MOST_LINE = 5000  # alarms that the line can be drawn for
STEPS = 200  # of the slider
KIND_NAMES = {
    "graph": "Nodes",
    "pictures": "Pictures",
    "series": "Stretches",
    "texts": "Texts",
    "events": "Events",
}
Query = Mapping[str, str]


@dataclass(frozen=True)
class Tab:
    """A part of the page: its words, to which results it belongs, and how it is shown."""

    words: str
    belongs: Callable[[Session], bool]
    show: Callable[[Session, Query], str]


def list_tabs(session: Session) -> list[tuple[str, str]]:
    """The parts that a result has: their names in addresses, and in words."""
    kind = session.result.kind
    # What a network was given is no list of odd rows: its report has the pictures and the words.
    has_rows = bool(session.result.anomalies) and kind != "network"
    rows = [("rows", KIND_NAMES.get(kind, "Rows"))] if has_rows else []
    return [*rows, *((name, tab.words) for name, tab in TABS.items() if tab.belongs(session))]


def show_tab(session: Session, name: str, query: Query) -> str:
    """The HTML of a part of the page."""
    if name not in TABS or not TABS[name].belongs(session):
        raise InvalidParameter(f"There is no part {name[:40]!r} of this page.")
    return TABS[name].show(session, query)


def _join(*panels: Panel | None) -> str:
    return str(Markup("\n").join(panel.html for panel in panels if panel is not None))


@dataclass(frozen=True)
class Rejected:
    """A finding whose cause is known to be no trouble: by which decision."""

    id: str
    words: str


@dataclass(frozen=True)
class RepairLine:
    """A cell whose repair can be accepted or rejected."""

    row: int
    column: Text
    name: str
    old: Text
    new: Text
    probability: str
    why: Text
    decision: Decision | None


def _show_findings(session: Session, _query: Query) -> str:
    from tellwhy.kinds.decisions import make_finding_mark

    result = session.result
    standing = session.standing()
    decisions: list[Rejected | str | None] = []
    for finding in result.findings[: LIMITS.findings]:
        can_be = finding.surprise > 0 and len(finding.columns) > 0
        known = standing.causes.get(make_finding_mark(finding, "").cause) if can_be else None
        words = "" if known is None else "rejected" if known.verdict == "rejected" else "benign"
        decisions.append(None if not can_be else "" if known is None else Rejected(known.id, words))
    repairs = session.repairs
    shown = [_make_repair_line(change, standing) for change in repairs[:MOST_REPAIRS]]
    panels = _join(show_findings(result, LIMITS, decisions), show_groups(result, LIMITS))
    return panels + fill(
        "app_findings.html.j2",
        repairs=shown,
        n_repairs=len(repairs),
        n_accepted=sum(each.verdict == "accepted" for each in standing.repairs.values()),
        has_cells=session.rows.has_all_cells,
    )


def _make_repair_line(change: Change, standing: Standing) -> RepairLine:
    return RepairLine(
        change.row,
        clip(change.column, 40),
        change.column,
        clip(wording.cell(change.old), 40),
        clip("nothing" if change.new is None else wording.cell(change.new), 40),
        wording.share(change.probability),
        clip(change.why, 160),
        standing.repairs.get((change.row, change.column)),
    )


def _show_columns(session: Session, _query: Query) -> str:
    return _join(show_scores(session.result, LIMITS))


def _show_context(session: Session, _query: Query) -> str:
    return _join(show_nodes(read_picture(session.result), LIMITS))


def _show_report(session: Session, _query: Query) -> str:
    return _join(*_find_contents(session.result, LIMITS).panels)


def _show_trust(session: Session, _query: Query) -> str:
    return _join(show_trust(session.result, LIMITS), show_evidence(session.result, LIMITS))


@dataclass(frozen=True)
class LineOfAlarms:
    """Where the line would be for so many alarms, and what follows."""

    n_alarms: int
    score: str
    expected: str
    share: str
    is_known: bool


def _show_line(session: Session, query: Query) -> str:
    result = session.result
    scores = np.sort(np.asarray(result.scores))[::-1]
    drawn = int((scores > result.line).sum())
    most = min(MOST_LINE, len(scores) - 1)
    steps = _slider_steps(most)
    asked = query.get("alarms", "")
    wanted = int(asked) if asked.isdigit() else drawn
    wanted = max(0, min(wanted, most))
    return fill(
        "app_line.html.j2",
        drawn=_tell_drawn_line(session, drawn),
        asked=_tell_drawn_line(session, drawn) if wanted == drawn else _draw_line(session, scores, wanted),
        steps=steps,
        at=int(np.abs(np.asarray(steps) - wanted).argmin()),
        rule="" if result.alarms is None else result.alarms.rule,
        has_model=session.has_model,
        command=write_command(session, alarms=wanted),
    )


def _slider_steps(most: int) -> list[int]:
    """Numbers of alarms on the slider: each at first, then in growing steps."""
    spread = np.unique(np.round(np.expm1(np.linspace(0, math.log1p(most), STEPS))).astype(int))
    return [int(n) for n in spread]


def _tell_drawn_line(session: Session, n_alarms: int) -> LineOfAlarms:
    """The line that the result was made with."""
    rule = session.result.alarms
    expected = None if rule is None else rule.expected_false
    share = "" if not expected or not n_alarms else wording.share(min(1.0, expected / n_alarms))
    line = wording.number(session.result.line)
    return LineOfAlarms(n_alarms, line, wording.number(expected, 2), share, expected is not None)


def _draw_line(session: Session, scores: Any, n_alarms: int) -> LineOfAlarms:
    at = float(scores[n_alarms]) if n_alarms < len(scores) else float("-inf")
    n_above = int((scores > at).sum())  # rows that tie with one too many stay below
    expected = None
    if session.has_model:
        surprise = float(session.model().calibration.surprises(np.array([at]))[0])
        expected = expect_false(len(scores), n_above, surprise)
    share = "" if not expected or not n_above else wording.share(min(1.0, expected / n_above))
    return LineOfAlarms(n_above, wording.number(at), wording.number(expected, 2), share, expected is not None)


@dataclass(frozen=True)
class Segment:
    """A label of a column with its rows and alarms."""

    label: str
    name: Text
    n_rows: str
    n_alarms: str
    share: str
    bar: Markup
    condition: str


def _show_segments(session: Session, query: Query) -> str:
    names = find_labelled(session.rows)
    asked = session.result.settings.get("by") or []
    column = query.get("column") or next((name for name in asked if name in names), None)
    column = column or (names[0] if names else "")
    segments = list_segments(session.rows, column) if column else []
    most = max([1e-12, *(n_alarms / n for _, n, n_alarms in segments)])
    lines = [
        Segment(
            label,
            clip(label or "missing", 60),
            wording.number(n),
            wording.number(n_alarms),
            wording.share(n_alarms / n),
            bar(n_alarms / n, 0.0, most, f"{label}: {wording.share(n_alarms / n)} alarms", class_="odd"),
            f"{column} = {label}",
        )
        for label, n, n_alarms in segments
    ]
    return fill("app_segments.html.j2", names=names, column=column, lines=lines, by=list(asked))


def list_other_runs(session: Session) -> list[str]:
    """Folders beside the one that is open that hold a result with all rows of its table."""
    place = session.folder.resolve().parent
    found = (
        path.parent
        for path in place.glob("*/result.json")
        if path.parent.resolve() != session.folder.resolve()
    )
    return sorted(path.name for path in found)


def _show_drift(session: Session, query: Query) -> str:
    others = list_other_runs(session)
    other = query.get("with", "")
    if other and other not in others:
        raise InvalidParameter(f"There is no result {other[:80]!r} beside this one.")
    found = _compare(session, other) if other else ""
    return fill("app_drift.html.j2", others=others, other=other, found=Markup(found), own=session.folder.name)


def _compare(session: Session, other: str) -> str:
    """What changed from the table of another result to that of this one."""
    from tellwhy.kinds.two_tables import diff_tables
    from tellwhy.results.store import load_result
    from tellwhy.views.page.drift import difference_words, show_drift

    folder = session.folder.resolve().parent / other
    places = [cells_of(folder, load_result(folder)), session.cells]
    if None in places:
        lacking = other if places[0] is None else session.folder.name
        raise InvalidParameter(f"{lacking} does not hold its table, so that nothing can be compared.")
    found = replace(diff_tables(*map(str, places)), old=other, new=session.folder.name)
    words = difference_words(found)
    said = fill("app_drift_words.html.j2", words=[wording.shorten(line, 400) for line in words])
    return said + _join(show_drift(found))


def _show_decisions(session: Session, _query: Query) -> str:
    standing = session.standing()
    return fill(
        "app_decisions.html.j2",
        decisions=list(reversed(standing.decisions)),
        names={number: _name_row(session, place) for number, place in session.places.items()},
        file=str(session.decisions.path),
        n_benign=sum(d.verdict == "benign" for d in standing.rows.values()),
        can_judge=session.has_model and session.cells is not None,
        folder=session.folder.name,
    )


def _name_row(session: Session, place: int) -> Text:
    anomaly = session.result.anomalies[place]
    return clip(anomaly.id or f"{anomaly.part.kind} {anomaly.row}", 60)


def _show_settings(session: Session, _query: Query) -> str:
    commands = [write_command(session), f"tellwhy app {shlex.quote(str(session.folder))}"]
    panel = show_settings_of_run(session.result, LIMITS) if session.result.kind in OF_ROWS else None
    return _join(panel) + fill("app_commands.html.j2", commands=commands)


FLAGS = {"id_column": "id", "seed": "seed", "normal": "normal", "label": "label", "missing": "missing"}
LISTS = ("columns", "exclude", "category", "number", "date", "text", "by")
USUAL = {"missing": "impute", "seed": 0}


def write_command(session: Session, *, alarms: int | None = None) -> str:
    """The command that makes the result again."""
    settings = session.result.settings
    words = ["tellwhy", "explain", session.result.source]
    for name, flag in FLAGS.items():
        value = settings.get(name)
        if value not in (None, "", USUAL.get(name)):
            words += [f"--{flag}", str(value)]
    for name in LISTS:
        for value in settings.get(name) or []:
            words += [f"--{name}", str(value)]
    if session.model_file is not None:
        words += ["--model", str(session.model_file)]
    for name in ("alarms", "contamination", "fdr"):
        if alarms is None and settings.get(name) is not None:
            words += [f"--{name}", str(settings[name])]
    words += [] if alarms is None else ["--alarms", str(alarms)]
    return shlex.join([*words, "--out", Path(session.folder).name])


def _show_open(session: Session, _query: Query) -> str:
    return fill("app_open.html.j2", others=list_other_runs(session))


def _is_of_rows(session: Session) -> bool:
    return session.result.kind in OF_ROWS


def _is_table(session: Session) -> bool:
    return session.result.kind == "table"


def _is_other(session: Session) -> bool:
    return session.result.kind not in OF_ROWS


def _has_context(session: Session) -> bool:
    return session.result.kind == "graph" and read_picture(session.result) is not None


def _has_cells(session: Session) -> bool:
    return _is_table(session) and session.rows.has_all_cells


def _always(_: Session) -> bool:
    return True


TABS: Mapping[str, Tab] = {
    "report": Tab("Report", _is_other, _show_report),
    "findings": Tab("Findings and repairs", _is_of_rows, _show_findings),
    "context": Tab("Context", _has_context, _show_context),
    "columns": Tab("Columns", _is_of_rows, _show_columns),
    "line": Tab("Line of alarms", _is_of_rows, _show_line),
    "segments": Tab("Segments", _has_cells, _show_segments),
    "drift": Tab("Drift", _has_cells, _show_drift),
    "trust": Tab("Trust", _is_of_rows, _show_trust),
    "decisions": Tab("Decisions", _always, _show_decisions),
    "settings": Tab("Settings", _always, _show_settings),
    "open": Tab("Open files", _always, _show_open),
}


def _find_contents(result: Result, limits: Limits) -> Contents:
    """Return the panels of a result, each kind of data in its own form."""
    explained = read_network(result)
    if explained is not None:
        return network.make_contents(explained, limits)
    labelled = read_labels(result)
    if labelled is not None:
        return labels.make_contents(labelled, limits)
    return _find_own(result, limits)


def _find_own(result: Result, limits: Limits) -> Contents:
    """Those of a kind that a result tells by its name."""
    if result.kind == "drift":
        from tellwhy.kinds.two_tables import read_difference

        return drift.make_contents(read_difference(result))
    if result.kind == "insight":
        from tellwhy.kinds.insight import read_insights

        return insight.make_contents(read_insights(result))
    if result.kind == "events":
        return events.make_contents(result, limits)
    if result.kind in media.NAMES:
        return media.make_contents(result, limits)
    return page.make_contents(result, limits)
