"""The oddest rows, ranked: a line for each, and a card with its main columns beside what is usual in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from tellwhy.core.explanation import Explanation
from tellwhy.core.score import Floats
from tellwhy.results.result import Anomaly, Result, Typical
from tellwhy.views.page.overview import KIND_WORDS
from tellwhy.views.page.shell import Limits, Panel, Text, clip, make_panel
from tellwhy.views.page.svg import Quantiles, bar, draw_range
from tellwhy.words import tell, wording

SHOWN_CATEGORIES = 4
MOST_PRINTED = 40  # ranked rows on paper
_KEY_QUANTILES = Quantiles(0.0, 2.0, 3.5, 4.5, 5.5, 7.0, 8.0)  # of the example in the key


def show_anomalies(run: Result, limits: Limits) -> Panel:
    """Return the panel of ranked rows."""
    table = make_lines(run, limits)
    return make_panel(
        "anomalies",
        ("anomalies", "Ranked rows"),
        lines=table,
        n_anomalies=len(run.anomalies),
        main_columns=find_main_columns(table),
        cards=make_cards(run, limits),
        with_p_values=run.alarms is not None,
        most_printed=MOST_PRINTED,
        is_attribution=run.explanation.kind == "attribution",
        kind_words=KIND_WORDS[run.explanation.kind],
        key_strip=draw_range(_KEY_QUANTILES, 40.0, 6.2, "Example of a range strip"),
    )


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


def show_value(value: object, usual: Typical | None) -> str:
    """Write a cell as its column is read: dates without midnight."""
    is_date = usual is not None and usual.kind == "date" and not wording.is_missing(value)
    return wording.moment(value) if is_date else wording.cell(value)


def show_beside_usual(usual: Typical, value: object, normal: object) -> BesideUsual:
    """Show a value, and the nearest normal one if there is one, beside what is usual."""
    return BesideUsual(_write_usual(usual), _strip(usual, value, normal), _list_categories(usual, value))


def _write_usual(usual: Typical) -> str:
    """Say what is usual: the range of nine rows in ten, which the strip draws as its bar."""
    if usual.kind == "date" and len(usual.labels) == 7:
        low, high = (wording.shorten(wording.moment(usual.labels[k])) for k in (1, 5))
        return f"usually {wording.between(low, high)}"
    if len(usual.quantiles) == 7:
        found = Quantiles(*usual.quantiles)
        return f"usually {wording.between(found.q5, found.q95)}, median {wording.number(found.middle)}"
    return ""


def _strip(usual: Typical, value: object, normal: object) -> Markup | None:
    place = read_timestamp if usual.kind == "date" else read_float
    known = [place(q) for q in (usual.labels if usual.kind == "date" else usual.quantiles)]
    quantiles = [q for q in known if q is not None]
    if len(quantiles) != 7:
        return None
    words = f"{wording.shorten(show_value(value, usual))}; {_write_usual(usual)}"
    return draw_range(Quantiles(*quantiles), place(value), place(normal), words)


def read_float(value: object) -> float | None:
    """Return a cell as a finite number; None for what is none."""
    try:
        x = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return x if math.isfinite(x) else None


def read_timestamp(value: object) -> float | None:
    """Seconds since 1970 of a date, or of its ISO text; any fixed zone will do to place it on a strip."""
    if wording.is_missing(value):
        return None
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        return (moment.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds()
    except ValueError:
        return None


def _find_own_category(usual: Typical, value: object) -> str | None:
    """Return the row's value as it is written in `usual.shares`; None where the cell is missing."""
    if wording.is_missing(value):
        return None
    # Readers differ in how they spell 2.0 and True; the column knows one of these spellings.
    spellings = (str(value), wording.cell(value), str(value).lower())
    return next((text for text in spellings if text in usual.shares), spellings[1])


def _list_categories(usual: Typical, value: object) -> list[Category]:
    """Return the most common values, the row's own among them."""
    if not usual.shares:
        return []
    own = _find_own_category(usual, value)
    lines = list(usual.shares.items())[:SHOWN_CATEGORIES]
    if own is not None and own not in dict(lines):
        lines = [*lines[: SHOWN_CATEGORIES - 1], (own, usual.shares.get(own, 0.0))]
    highest = max([1e-12, *(share for _, share in lines)])
    # Where listed shares fill all rows, a value beside them was never seen; else it may be an unlisted one.
    unlisted = "new" if sum(usual.shares.values()) > 0.9999 else "rare"
    made = []
    for text, share in lines:
        is_own = text == own
        words = f"{wording.shorten(text)}: {wording.share(share)} of rows"
        drawn = bar(share, 0.0, highest, words, class_="odd" if is_own else "usual")
        part = wording.share(share) if share else unlisted
        made.append(Category(wording.shorten(text, 24), drawn, part, is_own))
    return made


LEAST_LEFT_OVER = 0.05  # share of a score; less of it is not worth a word


def place_words(anomaly: Anomaly) -> str:
    """Where a row is to be looked up: 'line 137 of b.csv', 'line 137', or 'row 135'."""
    if anomaly.line is None:
        return f"row {anomaly.row}"
    return f"line {anomaly.line}" + (f" of {anomaly.file}" if anomaly.file else "")


def write_sureness(anomaly: Anomaly) -> str:
    """How a row's reasons are known; nothing for rows that are no alarms."""
    if not anomaly.above_threshold:
        return ""
    return tell.known(anomaly)


def note_words(anomaly: Anomaly) -> str:
    """What is not sure about an alarm, without saying again that it is uncertain."""
    if not anomaly.above_threshold or anomaly.doubt is None:
        return ""
    text = wording.shorten(tell.notice(anomaly.doubt), 300)
    return text[:1].upper() + text[1:]


def write_left_over(anomaly: Anomaly) -> str:
    """'12 % of the score is not attributed', where it is worth a word."""
    if anomaly.unattributed < LEAST_LEFT_OVER:
        return ""
    return f"{wording.share(anomaly.unattributed)} of the score not attributed"


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
    sureness: str  # "verified", "suspect by a rule", "not verified", or nothing
    is_known: bool  # verified, or by a rule
    note: str
    left_over: str


def make_lines(run: Result, limits: Limits) -> list[Line]:
    """Return the ranked table."""
    listed = run.anomalies[: limits.listed]
    scores = wording.aligned([anomaly.score for anomaly in listed])
    return [_make_line(k + 1, anomaly, scores[k], limits) for k, anomaly in enumerate(listed)]


def _make_line(rank: int, anomaly: Anomaly, score: str, limits: Limits) -> Line:
    has_id = anomaly.id is not None
    return Line(
        rank=rank,
        row=int(anomaly.row),
        name=clip(anomaly.id if has_id else f"row {anomaly.row}", 40),
        has_id=has_id or anomaly.line is not None,
        score=score,
        raw_score=f"{anomaly.score:.9g}",
        percentile=wording.percentile(anomaly.percentile),
        raw_percentile="" if anomaly.percentile is None else f"{anomaly.percentile:.9g}",
        is_above=bool(anomaly.above_threshold),
        reasons=[clip(_keep_together(reason.text), 200) for reason in anomaly.reasons[: limits.reasons]],
        main=wording.shorten(anomaly.reasons[0].feature) if anomaly.reasons else "",
        place=clip(place_words(anomaly), 40),
        p_value=wording.write_p(anomaly.p_value),
        raw_p="" if anomaly.p_value is None else f"{anomaly.p_value:.9g}",
        sureness=write_sureness(anomaly),
        is_known=anomaly.known_by != "unverified",
        note=note_words(anomaly),
        left_over=write_left_over(anomaly),
    )


def _keep_together(text: str) -> str:
    """Keep a percentage on one line."""
    return str(text).replace(" %", f"{wording.THIN}%")


def find_main_columns(table: Iterable[Line], most: int = 20) -> list[str]:
    """Return the main columns of the listed rows, most frequent first, to filter by."""
    found: dict[str, int] = {}
    for line in table:
        if line.main:
            found[line.main] = found.get(line.main, 0) + 1
    return sorted(found, key=lambda name: -found[name])[:most]


SMALLEST_PART = 0.02  # columns with less of a row's total join "other columns"
FEWEST_COLUMNS = 3  # that have a line of their own, however small


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


def make_cards(run: Result, limits: Limits) -> list[Card]:
    """Return the cards of the first anomalies, in their order."""
    n = min(limits.cards, limits.listed, len(run.anomalies))
    if not n:
        return []
    explanation = run.explanation[:n]
    shares = explanation.shares().reshape(n, -1)
    residual = explanation.residual
    cell = _make_cell_reader(explanation)
    made = []
    for i, anomaly in enumerate(run.anomalies[:n]):
        left_over = None if residual is None else float(residual[i])
        row = Row(anomaly, explanation[i], shares[i], left_over, partial(cell, i))
        made.append(_make_card({**run.usual, **anomaly.usual}, row, limits))
    return made


def _make_card(typical: Mapping[str, Typical], row: Row, limits: Limits) -> Card:
    parts = _choose_parts(row, limits)
    # One axis for all bars of a card, long enough for every whisker.
    reach = [p.amount + side * (p.error or 0.0) for p in parts for side in (-1, 1)]
    ends = (min([0.0, *reach]), max([0.0, *reach]))
    factors = [_factor(part, row, typical.get(part.name), ends) for part in parts]
    return Card(factors, _list_changes(typical, row, limits), _balance(row))


def _choose_parts(row: Row, limits: Limits) -> list[Part]:
    """Choose the columns worth a line; sum up the others."""
    flat = row.explanation.values.ravel()
    sizes = np.abs(flat)
    order = np.argsort(-sizes, kind="stable")
    n_large = int((sizes >= SMALLEST_PART * sizes.sum()).sum())
    main = order[: min(limits.factors, max(FEWEST_COLUMNS, n_large))]
    parts = [_make_part(row, int(j)) for j in main]
    if row.left_over is None:  # strengths of other kinds are no shares, and leave no rest
        return [replace(part, share=None) for part in parts]
    others = order[len(main) :]
    if len(others):
        words = wording.count(len(others), "other column")
        parts.append(Part(words, float(flat[others].sum()), False, float(row.shares[others].sum())))
    return [*parts, Part("not attributed", _tidy(row.left_over, row), False)]


def _make_part(row: Row, j: int) -> Part:
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
    words = f"{wording.shorten(part.name)}: {KIND_WORDS[kind]} {amount} {error}"
    value = row.value(part.name) if part.is_column else None
    normal = (row.anomaly.nearest_normal or {}).get(part.name)
    return Factor(
        name=clip(part.name),
        value=clip(show_value(value, usual)) if part.is_column else "",
        beside=show_beside_usual(usual, value, normal) if part.is_column and usual is not None else None,
        bar=bar(part.amount, *ends, words, class_=_choose_color(part, kind), error=part.error),
        amount=amount,
        error=error,
        share="" if part.share is None or part.amount < 0 else wording.share(part.share),
        is_rest=not part.is_column,
    )


def _choose_color(part: Part, kind: str) -> str:
    if not part.is_column:
        return "rest"
    return "usual" if part.amount < 0 and kind == "attribution" else "odd"


def _list_changes(typical: Mapping[str, Typical], row: Row, limits: Limits) -> list[Change]:
    """Return what to change to look normal, leaving out what would stay as it is."""
    changes = []
    for name, normal in (row.anomaly.nearest_normal or {}).items():
        after = show_value(normal, typical.get(name))
        before = show_value(row.value(name), typical.get(name))
        if after != before:  # 3.00001 instead of 3 is no advice
            changes.append(Change(clip(name), wording.shorten(after), wording.shorten(before)))
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


def _make_cell_reader(explanation: Explanation) -> Callable[[int, str], object]:
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
