"""The page on a run of rows or nodes: its panels, one after the other."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from markupsafe import Markup

from tellwhy.results.evidence import Agreement, Detection, Evidence
from tellwhy.results.node_picture import NodePicture, read_picture
from tellwhy.results.result import Result
from tellwhy.views.page.anomalies import show_anomalies
from tellwhy.views.page.nodes import show_nodes
from tellwhy.views.page.overview import (
    KIND_WORDS,
    cut_file_name,
    make_overview,
    show_findings,
    show_groups,
    show_overview,
    show_settings_of_run,
    write_title,
)
from tellwhy.views.page.scores import MOST_CURVES, draw_curves, show_scores
from tellwhy.views.page.shell import (
    Contents,
    Limits,
    Panel,
    clip,
    draw_page,
    fit_page,
    make_panel,
    write_page,
)
from tellwhy.views.page.svg import bar
from tellwhy.words import wording


def render(run: Result, picture: NodePicture | None = None) -> str:
    """Return the report of a run: one HTML page of at most 8 MB that makes no request.

    Parameters
    ----------
    run
        What `tellwhy explain` produced, or `Result` filled by other means.
    picture
        What to draw of nodes, where the result of an earlier version does not hold it.

    Returns
    -------
    str
        The page. It says where it lists fewer rows or columns than the run holds.
    """
    return fit_page(lambda limits: draw_page(make_contents(run, limits, picture)))


def write_report(run: Result, path: str | Path, picture: NodePicture | None = None) -> Path:
    """Write the report of a run to a file, whole or not at all, and return its path."""
    return write_page(render(run, picture), path)


def make_contents(run: Result, limits: Limits, picture: NodePicture | None = None) -> Contents:
    """Return the panels of the page on a run of rows or nodes."""
    panels = [
        show_overview(make_overview(run, limits)),
        show_trust(run, limits),
        show_findings(run, limits),
        show_anomalies(run, limits),
        show_groups(run, limits),
        show_scores(run, limits),
        show_nodes(picture or read_picture(run), limits),
        show_evidence(run, limits),
        show_settings_of_run(run, limits),
    ]
    return Contents(write_title(run), clip(cut_file_name(run.source), 80), panels)


RANDOM = "RandomAttribution"
MOST_METHODS = 12

# From which figure on a test counts as passed, or half passed. They are claims of the report: see its tests.
LITTLE_LEFT_OVER = 0.15
MUCH_LEFT_OVER = 0.4
MUCH_FASTER = 0.75  # of the area of random order
HARDLY_FASTER = 0.97
MOST_AGREE = 0.8
HALF_AGREE = 0.5
MOST_HOLD = 0.9


@dataclass(frozen=True)
class Finding:
    """One test of the explanations: a verdict in one word, a figure, and what it means."""

    title: str
    verdict: str  # "strong" | "fair" | "weak" | "none"
    figure: str
    words: str


@dataclass(frozen=True)
class Curve:
    """A line of the legend under the flipping curves."""

    name: Markup | str
    class_: str
    area: str
    is_ours: bool


@dataclass(frozen=True)
class Agreeing:
    """How far another method agrees."""

    method: Markup | str
    bar: Markup
    same: str
    correlation: str
    words: str


@dataclass(frozen=True)
class EvidenceView:
    """The evidence panel."""

    explains: str
    findings: list[Finding]
    chart: Markup | None
    legend: list[Curve]
    agreement: list[Agreeing]


def show_trust(run: Result, _limits: Limits) -> Panel:
    """Return the panel of how far the reasons can be trusted: one test each."""
    return make_panel("trust", ("trust", "Trust"), evidence=make_evidence(run))


def show_evidence(run: Result, _limits: Limits) -> Panel:
    """Return the panel of the tests behind it, and of how well scores find labelled rows."""
    found = run.detection
    return make_panel(
        "evidence",
        ("evidence", "Evidence"),
        *([] if found is None else [("detection", "Labels")]),
        evidence=make_evidence(run),
        label=found,
        detection=[] if found is None else list_detection_words(found, len(run.scores)),
    )


def make_evidence(run: Result) -> EvidenceView:
    """Return the evidence panel."""
    found = run.evidence
    drawn = _choose_curves(found, run.explanation.method)
    classes = [_choose_curve_class(k, name) for k, name in enumerate(drawn)]
    chart = None
    if drawn:
        label = "How fast the score falls as columns are set back to usual values, main columns first."
        chart = draw_curves(
            {name: found.flipping[name] for name in drawn},
            classes,
            "columns set back to a usual value →",
            label,
        )
    legend = [
        Curve(_name_method(name), class_, _write_area(found, name), name == run.explanation.method)
        for name, class_ in zip(drawn, classes, strict=True)
    ]
    known = [a for a in found.agreement if np.isfinite([a.same_top_feature, a.rank_correlation]).all()]
    others = known[:MOST_METHODS]
    findings = [*_count_verified(run), _measure_left_over(run), _tell_flipping(run), _tell_agreement(others)]
    agreement = [_make_agreeing(a) for a in others]
    return EvidenceView(wording.shorten(found.explains, 400), findings, chart, legend, agreement)


def _choose_curves(found: Evidence, method: str) -> list[str]:
    """The run's own method first, random order last, the best others between."""
    names = [name for name, curve in found.flipping.items() if len(curve) and np.isfinite(curve).all()]
    ours = [name for name in names if name == method]
    random = [name for name in names if name == RANDOM != method]
    others = [name for name in names if name not in (method, RANDOM)]
    others.sort(key=lambda name: found.flipping_area.get(name, 2.0))
    return [*ours, *others[: MOST_CURVES - 2], *random]


def _choose_curve_class(k: int, name: str) -> str:
    return "curve-random" if name == RANDOM else f"curve-{k}"


def _name_method(name: str) -> Markup | str:
    return "random order" if name == RANDOM else clip(name, 40)


def _write_area(found: Evidence, name: str) -> str:
    return wording.number(found.flipping_area.get(name), 3)


def _count_verified(run: Result) -> list[Finding]:
    """Of how many alarms of the model the reasons were verified; nothing for runs that try none."""
    alarms = [anomaly for anomaly in run.anomalies if anomaly.above_threshold]
    if run.alarms is None or not alarms:
        return []
    title = "Do the reasons hold?"
    known_by = Counter(anomaly.known_by for anomaly in alarms)
    n_tried = len(alarms) - known_by["rule"]
    if not n_tried:
        words = "Rules about the data found them; no row was scored again. Each says how sure it is."
        return [Finding(title, "none", wording.count(len(alarms), "alarm"), words)]
    n_held = known_by["verified"]
    figure = f"{wording.number(n_held)} of {wording.count(n_tried, 'alarm')} of the model"
    if n_held >= MOST_HOLD * n_tried:
        words = "With usual values in the named columns the row is ordinary; it was scored again to see."
        return [Finding(title, "strong", figure, words)]
    if n_held >= HALF_AGREE * n_tried:
        words = "Most do. The others are marked not verified: look at those rows before acting."
        return [Finding(title, "fair", figure, words)]
    words = "Most could not be verified: take them as hints."
    return [Finding(title, "weak", figure, words)]


def _measure_left_over(run: Result) -> Finding:
    title = "Is the whole score explained?"
    if run.explanation.kind != "attribution":
        words = (
            f"{wording.shorten(run.explanation.method)} gives the {KIND_WORDS[run.explanation.kind]}, not "
            "parts of it: it says which columns matter, not how much of the score each one makes up."
        )
        return Finding(title, "none", "no parts", words)
    part = run.evidence.unattributed
    if not np.isfinite(part):
        return Finding(title, "none", "not known", "No row's score was divided among columns.")
    figure = f"{wording.share(max(part, 0.0))} left over"
    if part <= LITTLE_LEFT_OVER:
        words = "Nearly all of a typical row's score is divided among its columns."
        return Finding(title, "strong", figure, words)
    if part <= MUCH_LEFT_OVER:
        words = "Read the bars as the main reasons, not as the only ones."
        return Finding(title, "fair", figure, words)
    words = "Much of a typical row's score belongs to no single column: take the reasons as hints."
    return Finding(title, "weak", figure, words)


def _tell_flipping(run: Result) -> Finding:
    title = "Do the named columns matter?"
    areas = run.evidence.flipping_area
    ours = areas.get(run.explanation.method)
    random = areas.get(RANDOM)
    if ours is None or random is None or not np.isfinite([ours, random]).all():
        return Finding(title, "none", "not tested", "The order of columns was not tested on this run.")
    figure = f"area {wording.number(ours, 2)}, random order {wording.number(random, 2)}"
    test = "Setting the named columns back to usual values"
    if ours <= MUCH_FASTER * random:
        words = f"{test} makes the score fall much faster than in random order."
        return Finding(title, "strong", figure, words)
    if ours <= HARDLY_FASTER * random:
        words = f"{test} makes the score fall somewhat faster than in random order."
        return Finding(title, "fair", figure, words)
    words = f"{test} lowers the score no faster than random order does: do not rely on the reasons."
    return Finding(title, "weak", figure, words)


def _tell_agreement(others: list[Agreement]) -> Finding:
    title = "Do other methods agree?"
    if not others:
        return Finding(title, "none", "not tested", "No other method was run on the same rows.")
    same = sum(a.same_top_feature for a in others) / len(others)
    figure = f"{wording.share(same)} same main column"
    if same >= MOST_AGREE:
        return Finding(title, "strong", figure, "Other methods name the same main column for most rows.")
    if same >= HALF_AGREE:
        words = "Other methods name the same main column for more than half of the rows."
        return Finding(title, "fair", figure, words)
    words = "Other methods often name another column: check a row before acting on it."
    return Finding(title, "weak", figure, words)


def _make_agreeing(a: Agreement) -> Agreeing:
    words = "disagrees"
    if a.same_top_feature >= HALF_AGREE:
        words = "agrees" if a.same_top_feature >= MOST_AGREE else "partly agrees"
    label = f"{wording.shorten(a.method)}: same main column in {wording.share(a.same_top_feature)} of rows"
    drawn = bar(max(a.same_top_feature, 0.0), 0.0, 1.0, label, class_="usual")
    correlation = wording.number(a.rank_correlation, 2)
    return Agreeing(clip(a.method, 40), drawn, wording.share(a.same_top_feature), correlation, words)


def list_detection_words(found: Detection, n_rows: int) -> list[tuple[str, str, str]]:
    """Return each measure of detection with its figure and what it means."""
    # A random ranking is as pure at its top as anywhere: its average precision is the share of such rows.
    chance = found.n_positive / n_rows if n_rows else 0.0
    short = replace(
        found, label=wording.shorten(found.label, 40), positive=wording.shorten(found.positive, 40)
    )
    positive = wording.label_words(short)
    return [
        (
            "AUROC",
            wording.number(found.auroc, 3),
            f"the chance that a row with {positive} scores higher than one without; 0.5 is guessing, 1 is "
            "perfect",
        ),
        (
            "average precision",
            wording.number(found.average_precision, 3),
            "how pure the top of the ranking is in such rows; guessing would give "
            f"{wording.number(chance, 2)}",
        ),
        *_list_alarm_words(found),
    ]


def _list_alarm_words(found: Detection) -> list[tuple[str, str, str]]:
    if found.precision is None:
        return [("alarms", "0", "no labelled row is above the threshold")]
    alarms = wording.count(found.n_alarms, "alarm")
    return [
        ("precision", wording.number(found.precision, 3), f"the share of such rows among the {alarms}"),
        ("recall", wording.number(found.recall, 3), "the share of such rows that are alarms"),
    ]
