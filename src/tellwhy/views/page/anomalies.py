"""Ranked, as cards.

A row's value beside what is usual in its column.

What a reader acts on first: what is wrong with the data, and how sure each row's reason is.

What the card of one anomaly shows: each main column's part of the score, its value, and what is usual.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from tellwhy.core.explanation import Explanation
from tellwhy.core.score import Floats
from tellwhy.results.result import Anomaly, Finding, Typical
from tellwhy.results.run import Run
from tellwhy.verdicts.sheet_rows import shown_places
from tellwhy.views.page.limits import Limits, clipped
from tellwhy.views.page.svg import Quantiles, bar, range_strip
from tellwhy.words import tell, wording

SHOWN_CATEGORIES = 4


@dataclass(frozen=True)
class Category:
    """One usual value of a column and how often it occurs."""

    value: str
    bar: Markup
    share: str
    is_this_row: bool


@dataclass(frozen=True)
class BesideUsual:
    """A strip for numbers and dates, bars for categories, and the same in words."""

    words: str
    strip: Markup | None
    categories: list[Category]


def shown(value: object, usual: Typical | None) -> str:
    """Write a cell as its column is read: dates without midnight."""
    is_date = usual is not None and usual.kind == "date" and not wording.is_missing(value)
    return wording.moment(value) if is_date else wording.cell(value)


def beside_usual(usual: Typical, value: object, normal: object) -> BesideUsual:
    """Show a value, and the nearest normal one if there is one, beside what is usual."""
    return BesideUsual(_words(usual), _strip(usual, value, normal), _categories(usual, value))


def _words(usual: Typical) -> str:
    """Say what is usual: the range of nine rows in ten, which the strip draws as its bar."""
    if usual.kind == "date" and len(usual.labels) == 7:
        low, high = (wording.shortened(wording.moment(usual.labels[k])) for k in (1, 5))
        return f"usually {wording.between(low, high)}"
    if len(usual.quantiles) == 7:
        found = Quantiles(*usual.quantiles)
        return f"usually {wording.between(found.q5, found.q95)}, median {wording.number(found.middle)}"
    return ""


def _strip(usual: Typical, value: object, normal: object) -> Markup | None:
    place = _timestamp if usual.kind == "date" else _float
    known = [place(q) for q in (usual.labels if usual.kind == "date" else usual.quantiles)]
    quantiles = [q for q in known if q is not None]
    if len(quantiles) != 7:
        return None
    words = f"{wording.shortened(shown(value, usual))}; {_words(usual)}"
    return range_strip(Quantiles(*quantiles), place(value), place(normal), words)


def _float(value: object) -> float | None:
    try:
        x = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return x if math.isfinite(x) else None


def _timestamp(value: object) -> float | None:
    """Seconds since 1970 of a date, or of its ISO text; any fixed zone will do to place it on a strip."""
    if wording.is_missing(value):
        return None
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        return (moment.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds()
    except ValueError:
        return None


def _own_category(usual: Typical, value: object) -> str | None:
    """Return the row's value as it is written in `usual.shares`; None where the cell is missing."""
    if wording.is_missing(value):
        return None
    # Readers differ in how they spell 2.0 and True; the column knows one of these spellings.
    spellings = (str(value), wording.cell(value), str(value).lower())
    return next((text for text in spellings if text in usual.shares), spellings[1])


def _categories(usual: Typical, value: object) -> list[Category]:
    """Return the most common values, the row's own among them."""
    if not usual.shares:
        return []
    own = _own_category(usual, value)
    lines = list(usual.shares.items())[:SHOWN_CATEGORIES]
    if own is not None and own not in dict(lines):
        lines = [*lines[: SHOWN_CATEGORIES - 1], (own, usual.shares.get(own, 0.0))]
    highest = max([1e-12, *(share for _, share in lines)])
    # Where listed shares fill all rows, a value beside them was never seen; else it may be an unlisted one.
    unlisted = "new" if sum(usual.shares.values()) > 0.9999 else "rare"
    made = []
    for text, share in lines:
        is_own = text == own
        words = f"{wording.shortened(text)}: {wording.share(share)} of rows"
        drawn = bar(share, 0.0, highest, words, class_="odd" if is_own else "usual")
        part = wording.share(share) if share else unlisted
        made.append(Category(wording.shortened(text, 24), drawn, part, is_own))
    return made


Text = Markup | str

MOST_PLACES = 6
LEAST_LEFT_OVER = 0.05  # share of a score; less of it is not worth a word
SMALLEST_P = 1e-300  # a p-value below is 0 in a computer's arithmetic


@dataclass(frozen=True)
class DataFinding:
    """One cause: how many rows, what is wrong, an example, where, and what was done."""

    n_rows: str
    text: Text
    example: Text
    where: str
    action: str
    links: list[int]  # rows of it that have a card


def findings(run: Run, limits: Limits) -> list[DataFinding]:
    """Return what was found, most important first."""
    with_card = {anomaly.row for anomaly in run.anomalies[: limits.cards]}
    made = []
    for found in run.findings[: limits.findings]:
        made.append(
            DataFinding(
                n_rows=wording.number(len(found.rows)) if found.rows else "",
                text=clipped(tell.finding_without_count(found), 260),
                example=clipped(tell.new_example(found), 80),
                where=_places(found),
                action=wording.shortened(found.action, 60),
                links=[int(row) for row in found.rows if row in with_card][:1],
            )
        )
    return made


def _places(found: Finding) -> str:
    """'lines 5, 79', or rows where lines are not known."""
    shown = shown_places(found, MOST_PLACES)
    if not shown:
        return "whole column"
    n = len(found.rows)
    word = "line" if found.lines else "row"
    listed = ", ".join(wording.shortened(place, 60) for place in shown)
    more = f" and {wording.number(n - MOST_PLACES)} more" if n > MOST_PLACES else ""
    return f"{word if n == 1 else word + 's'} {listed}{more}"


def place_words(anomaly: Anomaly) -> str:
    """Where a row is to be looked up: 'line 137 of b.csv', 'line 137', or 'row 135'."""
    if anomaly.line is None:
        return f"row {anomaly.row}"
    return f"line {anomaly.line}" + (f" of {anomaly.file}" if anomaly.file else "")


def p_words(p_value: float) -> str:
    """A p-value with two digits.

    Examples
    --------
    >>> p_words(0.0123), p_words(0.0), p_words(4.4e-14)
    ('0.012', '< 10⁻³⁰⁰', '4.4 × 10⁻¹⁴')
    """
    return "< 10⁻³⁰⁰" if p_value < SMALLEST_P else wording.number(p_value, 2)


def sureness(anomaly: Anomaly) -> str:
    """Whether a row's reason was verified; nothing for rows that are no alarms."""
    if not anomaly.above_threshold:
        return ""
    return "reason verified" if anomaly.holds else "reason uncertain"


def note_words(anomaly: Anomaly) -> str:
    """What is not sure about an alarm, without saying again that it is uncertain."""
    if not anomaly.above_threshold or anomaly.doubt is None:
        return ""
    text = wording.shortened(tell.notice(anomaly.doubt), 300)
    return text[:1].upper() + text[1:]


def left_over_words(anomaly: Anomaly) -> str:
    """'12 % of the score is not attributed', where it is worth a word."""
    if anomaly.unattributed < LEAST_LEFT_OVER:
        return ""
    return f"{wording.share(anomaly.unattributed)} of the score not attributed"


SMALLEST_PART = 0.02  # columns with less of a row's total join "other columns"
FEWEST_COLUMNS = 3  # that have a line of their own, however small
KIND_WORDS = {
    "attribution": "part of the score",
    "sensitivity": "sensitivity of the score",
    "signal": "strength of the signal",
    "ranking": "weight in the ranking",
    "relative": "relevance, in multiples of what is usual of the column",
}


@dataclass(frozen=True)
class Factor:
    """One line of a card: a column, or what belongs to no single column."""

    name: Markup | str
    value: Markup | str
    beside: BesideUsual | None
    bar: Markup
    amount: str
    error: str
    share: str
    is_rest: bool = False


class Change(NamedTuple):
    """What would have to differ for a row to look normal."""

    column: Markup | str
    normal: str
    is_now: str


@dataclass(frozen=True)
class Card:
    """Everything that is shown of one anomaly besides its line in the table."""

    factors: list[Factor]
    normal: list[Change]
    balance: str


@dataclass(frozen=True)
class Part:
    """A bar to be drawn: a column's part, or what belongs to no single column."""

    name: str
    amount: float
    is_column: bool
    share: float | None = None
    error: float | None = None


@dataclass(frozen=True)
class Row:
    """One explained row: the anomaly, its explanation, and its cells."""

    anomaly: Anomaly
    explanation: Explanation  # of this row alone
    shares: Floats
    left_over: float | None  # None where values are not parts of the score
    cells: Callable[[str], object]

    def value(self, column: str) -> object:
        """Return the row's value in a column, in the user's units."""
        # A reason holds the cell as it was read; the data may hold it as it was encoded.
        for reason in self.anomaly.reasons:
            if reason.feature == column:
                return reason.value
        return self.cells(column)


def cards(run: Run, limits: Limits) -> list[Card]:
    """Return the cards of the first anomalies, in their order."""
    n = min(limits.cards, limits.listed, len(run.anomalies))
    if not n:
        return []
    explanation = run.explanation[:n]
    shares = explanation.shares().reshape(n, -1)
    residual = explanation.residual
    cell = _cell_reader(explanation)
    made = []
    for i, anomaly in enumerate(run.anomalies[:n]):
        left_over = None if residual is None else float(residual[i])
        row = Row(anomaly, explanation[i], shares[i], left_over, partial(cell, i))
        made.append(_card({**run.typical, **anomaly.usual}, row, limits))
    return made


def _card(typical: Mapping[str, Typical], row: Row, limits: Limits) -> Card:
    parts = _parts(row, limits)
    # One axis for all bars of a card, long enough for every whisker.
    reach = [p.amount + side * (p.error or 0.0) for p in parts for side in (-1, 1)]
    ends = (min([0.0, *reach]), max([0.0, *reach]))
    factors = [_factor(part, row, typical.get(part.name), ends) for part in parts]
    return Card(factors, _nearest_normal(typical, row, limits), _balance(row))


def _parts(row: Row, limits: Limits) -> list[Part]:
    """Choose the columns worth a line; sum up the others."""
    flat = row.explanation.values.ravel()
    sizes = np.abs(flat)
    order = np.argsort(-sizes, kind="stable")
    n_large = int((sizes >= SMALLEST_PART * sizes.sum()).sum())
    main = order[: min(limits.factors, max(FEWEST_COLUMNS, n_large))]
    parts = [_part(row, int(j)) for j in main]
    if row.left_over is None:  # strengths of other kinds are no shares, and leave no rest
        return [replace(part, share=None) for part in parts]
    others = order[len(main) :]
    if len(others):
        words = wording.count(len(others), "other column")
        parts.append(Part(words, float(flat[others].sum()), False, float(row.shares[others].sum())))
    return [*parts, Part("not attributed", _tidy(row.left_over, row), False)]


def _part(row: Row, j: int) -> Part:
    explanation = row.explanation
    error = None if explanation.stderr is None else float(explanation.stderr.ravel()[j])
    amount = float(explanation.values.ravel()[j])
    return Part(explanation.names()[j], amount, True, float(row.shares[j]), error)


def _tidy(amount: float, row: Row) -> float:
    """Rounding errors of a sum are nothing."""
    return 0.0 if abs(amount) < 1e-9 * np.abs(row.explanation.values).sum() else amount


def _factor(part: Part, row: Row, usual: Typical | None, ends: tuple[float, float]) -> Factor:
    kind = row.explanation.kind
    amount = wording.number(part.amount, 3)
    error = f"± {wording.number(part.error, 2)}" if part.error else ""
    words = f"{wording.shortened(part.name)}: {KIND_WORDS[kind]} {amount} {error}"
    value = row.value(part.name) if part.is_column else None
    normal = (row.anomaly.nearest_normal or {}).get(part.name)
    return Factor(
        name=clipped(part.name),
        value=clipped(shown(value, usual)) if part.is_column else "",
        beside=beside_usual(usual, value, normal) if part.is_column and usual is not None else None,
        bar=bar(part.amount, *ends, words, class_=_color(part, kind), error=part.error),
        amount=amount,
        error=error,
        share="" if part.share is None or part.amount < 0 else wording.share(part.share),
        is_rest=not part.is_column,
    )


def _color(part: Part, kind: str) -> str:
    if not part.is_column:
        return "rest"
    return "usual" if part.amount < 0 and kind == "attribution" else "odd"


def _nearest_normal(typical: Mapping[str, Typical], row: Row, limits: Limits) -> list[Change]:
    """Return what to change to look normal, leaving out what would stay as it is."""
    changes = []
    for name, normal in (row.anomaly.nearest_normal or {}).items():
        after = shown(normal, typical.get(name))
        before = shown(row.value(name), typical.get(name))
        if after != before:  # 3.00001 instead of 3 is no advice
            changes.append(Change(clipped(name), wording.shortened(after), wording.shortened(before)))
    return changes[: limits.factors]


def _balance(row: Row) -> str:
    """Say how the parts make up the score, or that they do not."""
    explanation = row.explanation
    if row.left_over is None:
        return (
            f"Bars show the {KIND_WORDS[explanation.kind]}: how strongly a column is involved, compared with "
            "the others. They are not parts of the score and do not add up to it."
        )
    terms = {"from columns": float(explanation.values.sum())}
    if explanation.base_values[0]:
        terms["before any column"] = float(explanation.base_values[0])
    terms["not attributed"] = _tidy(row.left_over, row)
    score, *amounts = wording.aligned([float(explanation.scores[0]), *terms.values()])
    total = " + ".join(f"{amount} {words}" for amount, words in zip(amounts, terms, strict=True))
    return f"Score {score} = {total}. Percentages are of what columns add to the score."


def _cell_reader(explanation: Explanation) -> Callable[[int, str], object]:
    """Return a function of a row and a column's name that finds the cell, or None where it is not known."""
    data = explanation.data
    is_frame = hasattr(data, "columns")
    names = data.columns if is_frame else explanation.names()
    position = {str(name): j for j, name in enumerate(names)}
    rows = None if data is None or is_frame else np.asarray(data).reshape(len(explanation), -1)

    def cell(i: int, name: str) -> object:
        j = position.get(name)
        if j is None or data is None:
            return None
        if rows is not None:
            return rows[i, j]
        return data.iloc[i, j] if hasattr(data, "iloc") else data[i, j]  # pandas, polars

    return cell
