"""What the card of one anomaly shows: each main column's part of the score, its value, and what is usual."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from tellwhy.core.explanation import Explanation
from tellwhy.core.score_function import Floats
from tellwhy.views import wording
from tellwhy.views.report.limits import Limits, clipped
from tellwhy.views.report.svg import bar
from tellwhy.views.report.usual import BesideUsual, beside_usual, shown
from tellwhy.workflow.run import Anomaly, Run, Typical

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
