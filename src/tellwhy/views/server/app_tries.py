"""What is tried on one row: why it is odd, which ordinary rows are near, what if, and what others say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.explanation import Explanation
from tellwhy.views.page import anomalies as ranked
from tellwhy.views.page.overview import KIND_WORDS
from tellwhy.views.page.shell import Text, clip, fill
from tellwhy.views.page.svg import bar
from tellwhy.views.server.app_panels import LIMITS
from tellwhy.words import wording

if TYPE_CHECKING:
    from tellwhy.kinds.one_row import OneRow
    from tellwhy.views.server.app_session import Session

MOST_BESIDE = 8  # columns of ordinary rows that are listed
MOST_NEAR = 5
MOST_NAMED = 6  # columns of another opinion


def read_row(session: Session, row: int) -> pd.DataFrame:
    """The row as a table of one row."""
    frame = session.rows.frame_of(row)
    if frame is None:
        raise InvalidParameter(f"The cells of row {row} are not known: the table is not in this folder.")
    return frame


def explain_row(session: Session, row: int) -> str:
    """Why a row is odd that was not among the explained ones."""
    from tellwhy.kinds.one_row import judge_one

    one = judge_one(session.model(), read_row(session, row))
    return fill("app_explained.html.j2", **_told(one))


def _told(one: OneRow) -> dict[str, Any]:
    result = one.result
    return {
        "line": ranked.make_lines(result, LIMITS)[0],
        "card": ranked.make_cards(result, LIMITS)[0],
        "kind_words": KIND_WORDS[result.explanation.kind],
        "findings": [finding.text for finding in result.findings if finding.surprise > 0],
    }


def show_neighbours(session: Session, row: int) -> str:
    """The ordinary rows nearest to a row, beside it: the columns that make it odd first."""
    from tellwhy.kinds.one_row import find_neighbours

    frame = read_row(session, row)
    found = find_neighbours(session.model(), frame, MOST_NEAR)
    names = [name for name in _by_weight(session, row) if name in found.rows.columns][:MOST_BESIDE]
    usual = session.result.usual
    lines = [
        [clip(ranked.show_value(cells[name], usual.get(name)), 24) for name in names]
        for _, cells in found.rows.iterrows()
    ]
    own = [clip(ranked.show_value(frame[name].iloc[0], usual.get(name)), 24) for name in names]
    distances = [wording.number(float(gap), 2) for gap in found.distances]
    return fill(
        "app_neighbours.html.j2",
        names=[clip(name, 24) for name in names],
        own=own,
        lines=list(zip(lines, distances, strict=True)),
        n_more=len(found.rows.columns) - len(names),
    )


def _by_weight(session: Session, row: int) -> list[str]:
    """Columns in the order of their part in a row's score."""
    place = session.places.get(row)
    if place is None or not session.result.explanation.method:
        return list(session.result.columns)
    told = session.result.explanation[place]
    return [told.names()[j] for j in np.argsort(-np.abs(told.values.ravel()), kind="stable")]


@dataclass(frozen=True)
class Compared:
    """One figure before and after a change."""

    words: str
    before: str
    after: str


def show_what_if(session: Session, row: int, changes: Mapping[str, str], *, with_checks: bool) -> str:
    """What becomes of a row when some of its cells are others."""
    from tellwhy.kinds.one_row import judge_one

    frame = read_row(session, row)
    model = session.model()
    one = judge_one(model, frame, changes, with_checks=with_checks)
    known = session.anomaly(row) if with_checks else None  # it was looked at as data, too
    before = session.judged_alone(row).anomalies[0] if known is None else known
    figures = [
        Compared("score", wording.number(before.score), wording.number(one.score)),
        Compared("p-value", wording.write_p(before.p_value), wording.write_p(one.p_value)),
    ]
    told = _told(one)
    is_odd = one.score > session.result.line
    was_odd = before.score > session.result.line
    return fill(
        "app_what_if.html.j2",
        **told,
        figures=figures,
        verdict=_verdict(is_odd=is_odd, was_odd=was_odd),
        is_odd=is_odd,
        changes=[(clip(name, 40), clip(value or "nothing", 40)) for name, value in changes.items()],
        checked=with_checks,
    )


def _verdict(*, is_odd: bool, was_odd: bool) -> str:
    """What a change comes to."""
    if is_odd:
        return "It would still be an alarm." if was_odd else "It would become an alarm."
    return "It would be no alarm any more." if was_odd else "It would still be no alarm."


@dataclass(frozen=True)
class Named:
    """A column of two explanations."""

    name: Text
    own: Markup
    own_rank: int
    other: Markup
    other_rank: int
    error: str


def show_opinion(session: Session, row: int, method: str) -> str:
    """What another method says of a row, and where the two do not agree."""
    from tellwhy.kinds.one_row import ask_opinion

    model = session.model()
    if method not in session.methods():
        raise InvalidParameter(f"{method[:60]!r} cannot be asked about these rows.")
    found = ask_opinion(model, read_row(session, row), method)
    place = session.places.get(row)
    own = session.judged_alone(row).explanation[0]
    own = session.result.explanation[place] if place is not None else own
    other = found.explanation
    return fill(
        "app_opinion.html.j2",
        own_method=own.method,
        method=other.method,
        kind_words=KIND_WORDS[other.kind],
        own_words=KIND_WORDS[own.kind],
        named=_named(own, other),
        agreement=_agreement(found.same_first, found.correlation),
        agrees=found.same_first,
        residual=_residual(other),
        areas=[
            (own.method, _area(found.own_area)),
            (other.method, _area(found.area)),
            ("a random order", _area(found.random_area)),
        ],
        has_areas=np.isfinite(found.area),
    )


def _named(own: Explanation, other: Explanation) -> list[Named]:
    one = own.values.ravel()
    two = other.values.ravel()
    error = None if other.stderr is None else other.stderr.ravel()
    ranks = [np.argsort(np.argsort(-values, kind="stable")) + 1 for values in (one, two)]
    first = np.argsort(np.minimum(*ranks), kind="stable")[:MOST_NAMED]
    return [
        Named(
            clip(own.names()[j], 40),
            _part(one, j),
            int(ranks[0][j]),
            _part(two, j),
            int(ranks[1][j]),
            "" if error is None else f"± {wording.number(float(error[j]), 2)}",
        )
        for j in first
    ]


def _part(values: Any, j: int) -> Markup:
    low = min(0.0, float(values.min()))
    high = max(0.0, float(values.max()))
    amount = float(values[j])
    return bar(amount, low, high, wording.number(amount, 3), class_="odd" if amount >= 0 else "usual")


def _agreement(same_first: bool, correlation: float) -> str:
    """Whether two methods tell the same story."""
    first = "Both name the same column first" if same_first else "They disagree on the first column"
    return f"{first}; their orders of all columns correlate by {wording.number(correlation, 2)}."


def _residual(other: Explanation) -> str:
    if other.residual is None:
        return f"Its values are no parts of the score ({KIND_WORDS[other.kind]}): it has no residual."
    left = float(other.residual[0])
    score = float(other.scores[0])
    if abs(left) < 1e-9 * max(abs(score), 1e-300):
        return "It attributes the whole score."
    return f"It leaves {wording.number(left, 3)} of the score of {wording.number(score)} unattributed."


def _area(area: float) -> str:
    return wording.number(area, 2)
