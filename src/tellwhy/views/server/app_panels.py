"""What the page shows of rows: lines of the list, and the panel of one row, from the report's own pieces."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from markupsafe import Markup

from tellwhy.results.result import Anomaly, Result, Typical
from tellwhy.verdicts.similar import similar_anomalies
from tellwhy.views.page import anomalies as ranked
from tellwhy.views.page.events import show_cards
from tellwhy.views.page.media import NAMES, show_items
from tellwhy.views.page.overview import KIND_WORDS
from tellwhy.views.page.scores import draw_distribution
from tellwhy.views.page.shell import Limits, Text, clip, fill
from tellwhy.views.page.svg import bar
from tellwhy.views.server.app_columns import measure_distribution
from tellwhy.views.server.app_rows import OF_ROWS, Listed, Page
from tellwhy.views.server.app_view import LIKELY, View
from tellwhy.words import wording

if TYPE_CHECKING:
    from tellwhy.kinds.decisions import Decision, Standing
    from tellwhy.views.server.app_session import Session

LIMITS = Limits()
MOST_SIMILAR = 6
MOST_USUAL = 3  # labels that are named as usual


@dataclass(frozen=True)
class Line:
    """A line of the list.

    Attributes
    ----------
    listed
        The row.
    told
        As the report lists it; None of a row that was not explained.
    name
        What the row is called.
    cells
        Cells that were asked for.
    """

    listed: Listed
    told: ranked.Line | None
    name: Text
    score: str
    p_value: str
    cells: Sequence[Text]


def show_list(session: Session, page: Page) -> str:
    """The lines of the list, with what stands above and below them."""
    return fill(
        "app_list.html.j2",
        page=page,
        view=page.view,
        lines=list_lines(session, page),
        with_p_values=session.result.alarms is not None,
        n_shown=len(page.lines),
        command=write_view_command(session, page.view),
    )


def write_view_command(session: Session, view: View) -> str:
    """The command that opens the page with this view."""
    words = ["tellwhy", "app", str(session.folder)]
    return shlex.join([*words, *(["--view", view.query()] if view.query() else [])])


def list_lines(session: Session, page: Page) -> list[Line]:
    """The lines of one page of the list."""
    result = session.result
    places = [each.place for each in page.lines if each.place is not None]
    told = dict(zip(places, ranked.make_lines(choose_anomalies(result, places), LIMITS), strict=True))
    scores = wording.aligned([each.score for each in page.lines])
    lines = []
    for each, score in zip(page.lines, scores, strict=True):
        own = None if each.place is None else told[each.place]
        name = clip(f"row {each.row}", 40) if own is None else own.name
        p_value = wording.NOTHING if own is None else own.p_value
        cells = [clip(wording.cell(cell), 40) for cell in each.cells]
        lines.append(Line(each, own, name, score, p_value, cells))
    return lines


def choose_anomalies(result: Result, places: Sequence[int]) -> Result:
    """The result with some of its anomalies only, told by their places."""
    at = np.asarray(places, dtype=np.int64)
    arrays = {name: array for name, array in result.arrays.items() if not _is_of_one(name)}
    for new, old in enumerate(places):
        ending = f".{old}"
        own = {name: array for name, array in result.arrays.items() if name.endswith(ending)}
        arrays |= {f"{name.removesuffix(ending)}.{new}": array for name, array in own.items()}
    return replace(
        result,
        arrays=arrays,
        anomalies=[result.anomalies[place] for place in places],
        explanation=result.explanation[at] if result.explanation.method else result.explanation,
        table_rows=None if result.table_rows is None else result.table_rows.iloc[at],
    )


def _is_of_one(name: str) -> bool:
    """Whether an array is drawn of one anomaly: 'data.3'."""
    return name.rpartition(".")[2].isdigit()


@dataclass(frozen=True)
class Cell:
    """One cell of a row beside what is usual in its column."""

    column: Text
    name: str  # of the column, as it is asked for
    value: Text
    text: str  # the value, as a person would type it
    usual: Text
    wrong: str  # probability that it is wrong
    wrong_bar: Markup | None
    is_likely: bool
    repair: Repair | None


class Repair(NamedTuple):
    """What a cell should hold, and what was decided about it."""

    value: Any
    words: str
    decision: Decision | None


class Similar(NamedTuple):
    """Another anomaly that is odd like a row."""

    row: int
    name: Text
    reason: Text
    likeness: str


def show_row(session: Session, row: int, standing: Standing) -> str:
    """The panel of one row, or of a picture, a text, a stretch, an event."""
    place = session.places.get(row)
    if place is not None and session.result.kind not in OF_ROWS:
        return _show_item(session, row, place, standing)
    if place is None:
        return fill("app_row_unexplained.html.j2", **_of_any_row(session, row, standing))
    run = choose_anomalies(session.result, [place])
    return fill(
        "app_row.html.j2",
        **_of_any_row(session, row, standing),
        line=ranked.make_lines(run, LIMITS)[0],
        card=_card(run),
        kind_words=KIND_WORDS[run.explanation.kind],
        similar=_similar(session, place),
        n_alike=_count_alike(session, row),
        cause=session.rows.causes.get(row, 0),
        known_cause=_known_cause(run.anomalies[0], session.result.usual, standing),
    )


def _show_item(session: Session, row: int, place: int, standing: Standing) -> str:
    """The panel of what is no row of a table, in the form of its kind."""
    run = choose_anomalies(session.result, [place])
    draw = {"events": show_cards, **dict.fromkeys(NAMES, show_items)}.get(run.kind)
    anomaly = run.anomalies[0]
    panel = None if draw is None else draw(run, LIMITS)
    return fill(
        "app_item.html.j2",
        row=row,
        name=clip(anomaly.id or f"{anomaly.part.kind} {row}", 120),
        rank=session.rows.rank_of(row),
        score=wording.number(anomaly.score),
        decision=standing.rows.get(row),
        panel=Markup() if panel is None else panel.html,
        reasons=[clip(reason.text, 300) for reason in anomaly.reasons] if panel is None else [],
    )


def _card(run: Result) -> ranked.Card | None:
    made = ranked.make_cards(run, LIMITS) if run.explanation.method else []
    return made[0] if made else None


def _of_any_row(session: Session, row: int, standing: Standing) -> dict[str, Any]:
    place = session.places.get(row)
    return {
        "row": row,
        "rank": session.rows.rank_of(row),
        "score": wording.number(session.rows.score_of(row)),
        "cells": cells_of_row(session, row, standing),
        "decision": standing.rows.get(row),
        "has_model": session.has_model,
        "changeable": _changeable(session, place),
        "source": session.result.source,
    }


def _changeable(session: Session, place: int | None) -> list[str]:
    """Columns that may be tried with other cells: those that make the row odd first."""
    names = list(session.result.columns)
    if place is None or not session.result.explanation.method:
        return names
    told = session.result.explanation[place]
    weights = dict(zip(told.names(), np.abs(told.values.ravel()).tolist(), strict=True))
    return sorted(names, key=lambda name: -weights.get(name, 0.0))


def cells_of_row(session: Session, row: int, standing: Standing) -> list[Cell]:
    """All cells of a row; those that are probably wrong first, then in the order of the table."""
    anomaly = session.anomaly(row)
    usual = {**session.result.usual, **({} if anomaly is None else anomaly.usual)}
    wrong = session.wrong_cells.get(row, {})
    cells = [
        _cell(name, value, usual.get(name), wrong.get(name), standing.repairs.get((row, name)))
        for name, value in session.rows.cells_of(row).items()
    ]
    blamed = session.suspect_cells.get(row, set())
    cells = [replace(c, wrong=c.wrong or "suspect", is_likely=True) if c.name in blamed else c for c in cells]
    return sorted(cells, key=lambda cell: not cell.is_likely)


def _cell(
    name: str,
    value: Any,
    usual: Typical | None,
    wrong: tuple[float, Any] | None,
    decision: Decision | None,
) -> Cell:
    probability = None if wrong is None else wrong[0]
    repair = None
    if wrong is not None and wrong[1] is not None:
        repair = Repair(wrong[1], wording.cell(wrong[1]), decision)
    return Cell(
        column=clip(name, 40),
        name=name,
        value=clip(ranked.show_value(value, usual), 60),
        text="" if wording.is_missing(value) else str(value),
        usual=clip(usual_words(usual), 60),
        wrong="" if probability is None else wording.share(probability),
        wrong_bar=None
        if probability is None
        else bar(probability, 0.0, 1.0, f"wrong with {wording.share(probability)}", class_="odd"),
        is_likely=probability is not None and probability >= LIKELY,
        repair=repair,
    )


def usual_words(usual: Typical | None) -> str:
    """'0.9–4.1, median 1.8' of numbers and dates; the commonest labels with their shares."""
    if usual is None:
        return ""
    if usual.shares:
        listed = list(usual.shares.items())[:MOST_USUAL]
        return ", ".join(f"{wording.shorten(name, 24)} {wording.share(part)}" for name, part in listed)
    return ranked.show_beside_usual(usual, None, None).words.removeprefix("usually ")


def _similar(session: Session, place: int) -> list[Similar]:
    result = session.result
    return [
        Similar(
            other.row,
            clip(other.id or f"row {other.row}", 30),
            clip(other.reasons[0].text if other.reasons else "", 90),
            wording.share(likeness),
        )
        for other, likeness in similar_anomalies(result, place, MOST_SIMILAR)
    ]


def _count_alike(session: Session, row: int) -> int:
    """How many other explained rows have the same cause."""
    own = session.rows.causes.get(row)
    return sum(cause == own for cause in session.rows.causes.values()) - 1


def _known_cause(anomaly: Anomaly, usual: Mapping[str, Typical], standing: Standing) -> Decision | None:
    """The decision by which the cause of a row is known to be no trouble, made about another row."""
    from tellwhy.kinds.marks import write_reason_cause

    found = standing.causes.get(write_reason_cause(anomaly.reasons, usual))
    return found if found is not None and found.row != anomaly.row else None


def show_chart(session: Session, row: int, column: str) -> str:
    """How a column is distributed over all rows, with the cell of a row marked."""
    cell = session.rows.cells_of(row).get(column)
    found = measure_distribution(session.rows, column)
    usual = session.result.usual.get(column)
    if found is None:
        beside = None if usual is None else ranked.show_beside_usual(usual, cell, None)
        return fill("app_chart.html.j2", chart=None, categories=beside.categories if beside else [])
    value = ranked.read_timestamp(cell) if found.are_times else ranked.read_float(cell)
    write = _write_day if found.are_times else wording.number
    drawn = draw_distribution((found.low, found.high), found.counts, value, column, write)
    return fill("app_chart.html.j2", chart=drawn, categories=[])


def _write_day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
