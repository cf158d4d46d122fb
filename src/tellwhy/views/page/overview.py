"""What the other sections of the page show, in words and small pictures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PureWindowsPath
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from tellwhy.results.result import Anomaly
from tellwhy.results.run import Run
from tellwhy.views.page import anomalies as verdicts
from tellwhy.views.page.limits import Limits, clipped
from tellwhy.views.page.scores import bin_scores, histogram
from tellwhy.views.page.svg import bar
from tellwhy.words import wording

Text = Markup | str


@dataclass(frozen=True)
class Overview:
    """The head of the page: the finding in one sentence, key figures, what was done, what to know."""

    source: Text
    headline: str
    because: list[str]
    figures: list[tuple[str, Text]]
    summary: str
    sentences: list[str]
    notices: list[str]
    more_notices: int


def overview(run: Run, limits: Limits) -> Overview:
    """Return the head of the page."""
    n = len(run.scores)
    n_above = above(run)
    figures: list[tuple[str, Text]] = [
        ("rows scored", wording.number(n)),
        ("above the threshold", wording.number(n_above)),
        ("columns used", wording.number(len(run.columns))),
        _sureness(run),
    ]
    return Overview(
        source=clipped(_file_name(run.source), 80),
        headline=_headline(n, n_above),
        because=_main_columns(run) if n_above else [],
        figures=figures,
        summary=wording.shortened(run.summary, 2000),
        sentences=[wording.shortened(sentence, 400) for sentence in run.headline],
        notices=[wording.shortened(notice, 400) for notice in run.notices[: limits.lines]],
        more_notices=max(0, len(run.notices) - limits.lines),
    )


def _sureness(run: Run) -> tuple[str, Text]:
    """How many alarms have a reason that held; for runs that try none, the method."""
    alarms = [anomaly for anomaly in run.anomalies if anomaly.above_threshold]
    if run.alarms is None or not alarms:
        return "explained by", clipped(run.explanation.method, 24)
    n_held = sum(anomaly.holds for anomaly in alarms)
    return "reasons that hold", f"{wording.number(n_held)} of {wording.number(len(alarms))}"


def _file_name(source: str) -> str:
    """Return the last part of a path of any system: folders are nobody else's business."""
    return PureWindowsPath(source).name or source  # it also splits at slashes


def above(run: Run) -> int:
    """Count the rows above the threshold."""
    return int((np.asarray(run.scores) > run.threshold).sum())


def _headline(n: int, n_above: int) -> str:
    if n_above == 0:
        return f"None of {wording.count(n, 'row')} stands out."
    verb = "stands" if n_above == 1 else "stand"
    return f"{wording.number(n_above)} of {wording.count(n, 'row')} {verb} out."


def _main_columns(run: Run) -> list[str]:
    return [wording.shortened(name, 40) for name, part in _by_share(run.column_shares)[:3] if part >= 0.05]


def _by_share(shares: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(
        ((str(k), float(v)) for k, v in shares.items() if np.isfinite(v)), key=lambda pair: -pair[1]
    )


@dataclass(frozen=True)
class Scores:
    """The histogram and what to read from it."""

    chart: Markup
    words: str
    notes: list[str]


def scores(run: Run) -> Scores:
    """Return the histogram of all scores."""
    bins = bin_scores(np.asarray(run.scores, dtype=np.float64), float(run.threshold))
    n = len(run.scores)
    n_above = above(run)
    part = wording.share(n_above / n) if n else wording.NOTHING
    verb = "scores" if n_above == 1 else "score"
    words = (
        f"{wording.number(n_above)} of {wording.count(n, 'row')} ({part}) {verb} above the threshold of "
        f"{wording.number(run.threshold)}."
    )
    notes = []
    if bins.log_counts:
        notes.append(
            "Counts are on a logarithmic scale, so that the few odd rows can be seen beside the many usual "
            "ones."
        )
    if bins.beyond:
        notes.append(
            f"The last bar gathers the {wording.count(bins.beyond, 'row')} beyond the end of the axis."
        )
    return Scores(histogram(bins, f"Histogram of scores. {words}"), words, notes)


@dataclass(frozen=True)
class Line:
    """A line of the ranked table."""

    rank: int
    row: int
    name: Text
    has_id: bool
    score: str
    raw_score: str
    percentile: str
    raw_percentile: str
    is_above: bool
    reasons: list[Text]
    main: str
    place: Text
    p_value: str
    raw_p: str
    sureness: str  # "reason verified", "reason uncertain", or nothing
    note: str
    left_over: str


def lines(run: Run, limits: Limits) -> list[Line]:
    """Return the ranked table."""
    listed = run.anomalies[: limits.listed]
    scores = wording.aligned([anomaly.score for anomaly in listed])
    return [_line(k + 1, anomaly, scores[k], limits) for k, anomaly in enumerate(listed)]


def _line(rank: int, anomaly: Anomaly, score: str, limits: Limits) -> Line:
    has_id = anomaly.id is not None
    return Line(
        rank=rank,
        row=int(anomaly.row),
        name=clipped(anomaly.id if has_id else f"row {anomaly.row}", 40),
        has_id=has_id or anomaly.line is not None,
        score=score,
        raw_score=f"{anomaly.score:.9g}",
        percentile=wording.percentile(anomaly.percentile),
        raw_percentile=f"{anomaly.percentile:.9g}",
        is_above=bool(anomaly.above_threshold),
        reasons=[clipped(_kept_together(reason.text), 200) for reason in anomaly.reasons[: limits.reasons]],
        main=wording.shortened(anomaly.reasons[0].feature) if anomaly.reasons else "",
        place=clipped(verdicts.place_words(anomaly), 40),
        p_value=verdicts.p_words(anomaly.p_value),
        raw_p=f"{anomaly.p_value:.9g}",
        sureness=verdicts.sureness(anomaly),
        note=verdicts.note_words(anomaly),
        left_over=verdicts.left_over_words(anomaly),
    )


def _kept_together(text: str) -> str:
    """Keep a percentage on one line."""
    return str(text).replace(" %", f"{wording.THIN}%")


def main_columns(table: Iterable[Line], most: int = 20) -> list[str]:
    """Return the main columns of the listed rows, most frequent first, to filter by."""
    found: dict[str, int] = {}
    for line in table:
        if line.main:
            found[line.main] = found.get(line.main, 0) + 1
    return sorted(found, key=lambda name: -found[name])[:most]


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


def groups(run: Run, limits: Limits) -> list[RowGroup]:
    """Return the groups, with links to the cards of their rows."""
    chosen = run.groups[: limits.groups]
    largest = max((len(group.rows) for group in chosen), default=1)
    names = {
        a.row: clipped(a.id if a.id is not None else f"row {a.row}", 24)
        for a in run.anomalies[: limits.listed]
    }
    with_card = {a.row for a in run.anomalies[: limits.cards]}
    made = []
    for group in chosen:
        label = f"{wording.count(len(group.rows), 'row')} in this group"
        rows = group.rows[: limits.links]
        links = [Link(int(row), names.get(row, f"row {row}"), row in with_card) for row in rows]
        more = len(group.rows) - len(links)
        drawn = bar(len(group.rows), 0.0, largest, label, class_="usual")
        features = [clipped(name, 40) for name in group.features[: limits.factors]]
        made.append(RowGroup(features, len(group.rows), drawn, links, more))
    return made


@dataclass(frozen=True)
class ColumnBar:
    """One column's part over all explained rows."""

    name: Text
    bar: Markup
    share: str
    is_rest: bool = False
    role: Text = ""  # what the column was taken for


def columns(run: Run, limits: Limits) -> list[ColumnBar]:
    """Return which columns make rows odd, the small ones together, and what no column received."""
    ranked = _by_share(run.column_shares)
    left_over = float(np.mean([anomaly.unattributed for anomaly in run.anomalies])) if run.anomalies else 0.0
    left_over = float(np.clip(left_over, 0.0, 1.0))
    ranked = [(name, part * (1.0 - left_over)) for name, part in ranked]
    shown = ranked[: limits.columns]
    others = ranked[limits.columns :]
    rest = sum(part for _, part in others)
    # Many small columns together may be longer than the largest: they set the axis then.
    longest = max([rest, left_over, *(part for _, part in ranked)]) or 1.0
    is_attribution = run.explanation.kind == "attribution"
    made = [
        replace(_column_bar(name, part, longest, is_attribution), role=clipped(run.roles.get(name, ""), 48))
        for name, part in shown
    ]
    if others:
        words = wording.count(len(others), "other column")
        made.append(_column_bar(words, rest, longest, is_attribution, is_rest=True))
    if left_over > 0:
        made.append(_column_bar("not attributed", left_over, longest, is_attribution, is_rest=True))
    return made


def _column_bar(
    name: str, part: float, longest: float, is_attribution: bool, *, is_rest: bool = False
) -> ColumnBar:
    words = wording.share(part) if is_attribution else ""  # strengths of other kinds are no shares
    label = f"{wording.shortened(name)} {words}"
    drawn = bar(part, 0.0, longest, label, class_="rest" if is_rest else "odd")
    return ColumnBar(clipped(name, 40), drawn, words, is_rest)


def settings(run: Run, limits: Limits) -> list[tuple[Text, Text]]:
    """Return what is needed to repeat the run."""
    pairs: list[tuple[str, object]] = [
        ("input", _file_name(run.source)),
        ("fingerprint (SHA-256)", run.fingerprint),
    ]
    pairs += [(name, _setting(value)) for name, value in list(run.settings.items())[: limits.lines]]
    pairs += [
        ("threshold", wording.number(run.threshold, 6)),
        ("created", run.created),
        ("schema", run.schema),
    ]
    return [(clipped(name, 40), clipped(value, 400)) for name, value in pairs]


def _setting(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(v) for v in value[:100]) or "none"
    return str(value)


def roles(run: Run, limits: Limits) -> list[tuple[Text, Text]]:
    """Return what each column was taken for."""
    return [
        (clipped(name, 40), clipped(words, 120)) for name, words in list(run.roles.items())[: limits.lines]
    ]


def versions(run: Run, limits: Limits) -> list[tuple[Text, Text]]:
    """Return the versions of what the run was made with."""
    return [(clipped(name), clipped(version)) for name, version in list(run.versions.items())[: limits.lines]]
