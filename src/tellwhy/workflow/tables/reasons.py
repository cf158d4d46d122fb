"""Reasons in words: a row's columns, in its own units, against what is usual."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tellwhy.core.explanation import Explanation
from tellwhy.data import ColumnSummary
from tellwhy.workflow.run import Anomaly, Group, Reason, Typical

MOST_REASONS = 3
LEAST_SHARE = (
    0.05  # of a reason that is told; and of the rows that must have a value for it to be called usual
)
LEAST_SHARE_OF_USUAL = 0.15  # of a reason that is told though its value is usual by itself
GROUP_SHARE = 0.5


def reasons_of(explanation: Explanation, typical: Mapping[str, Typical]) -> list[list[Reason]]:
    """Return the main reasons of each explained row, largest share first."""
    names = explanation.names()
    shares = explanation.shares()
    is_share = explanation.kind == "attribution"
    found = []
    for i in range(len(explanation)):
        row = explanation.data.iloc[i]
        order = np.argsort(-shares[i], kind="stable")[:MOST_REASONS]
        main = [
            _reason(names[c], row[names[c]], typical[names[c]], float(shares[i, c]), is_share=is_share)
            for c in order
            if shares[i, c] > 0
        ]
        worth = [reason for reason in main[1:] if _is_worth_telling(reason, typical[reason.feature])]
        found.append(main[:1] + worth)  # the first is told in any case: a row without a reason helps nobody
    return found


def _is_worth_telling(reason: Reason, usual: Typical) -> bool:
    """A small share is noise; of a value that is usual by itself, a larger one is too."""
    return reason.share >= (LEAST_SHARE_OF_USUAL if is_usual(reason.value, usual) else LEAST_SHARE)


def is_usual(value: Any, usual: Typical) -> bool:
    """Whether a value, by itself, is nothing special: between 5 % and 95 %, or among the most common."""
    if value is None:
        return False
    low_high = usual_values(usual)
    if usual.kind in ("number", "date"):
        return bool(low_high[0] <= value <= low_high[1])
    return usual.shares.get(str(value), 0.0) >= LEAST_SHARE


def _reason(name: str, cell: Any, usual: Typical, share: float, *, is_share: bool) -> Reason:
    value = plain_cell(cell)
    text = f"{name} = {cell_words(value)} ({usual_words(usual)})"
    if is_share:
        text = f"{text} · {100 * share:.0f} %"
    return Reason(name, value, usual_values(usual), share, text)


def plain_cell(cell: Any) -> Any:
    """A cell as JSON has it: number, text, bool, or None where it is missing."""
    if pd.isna(cell):
        return None
    if isinstance(cell, (bool, np.bool_)):
        return bool(cell)
    if isinstance(cell, (int, np.integer)):
        return int(cell)
    if isinstance(cell, (float, np.floating)):
        return float(cell)
    if isinstance(cell, (datetime.date, datetime.time, pd.Timedelta)):
        return str(cell.isoformat()).removesuffix("T00:00:00")
    return str(cell)


def cell_words(value: Any) -> str:
    """A plain cell in words."""
    if value is None:
        return "missing"
    return number_text(value) if isinstance(value, float) else str(value)


def usual_values(usual: Typical) -> list[Any]:
    """[low, high] of numbers and dates (5 % and 95 %), the most common values of categories.

    A value that fewer than 5 % of the rows have is not called usual, unless all others are rarer still.
    """
    if usual.kind == "number":
        return [usual.quantiles[1], usual.quantiles[5]]
    if usual.kind == "date":
        return [usual.labels[1], usual.labels[5]]
    common = [value for value, share in usual.shares.items() if share >= LEAST_SHARE]
    return (common or list(usual.shares)[:1])[:3]


def usual_words(usual: Typical) -> str:
    """'usually 0.9–4.1', 'usually yes or no'."""
    values = usual_values(usual)
    if usual.kind == "number":
        low, high = (number_text(float(v)) for v in values)
        return f"usually {low}" if low == high else f"usually {low}–{high}"
    if usual.kind == "date":
        return f"usually {values[0]} to {values[1]}"
    return "usually " + " or ".join(str(v) for v in values[:2]) if values else "never seen"


def number_text(value: float) -> str:
    """Return a number with four significant digits, without exponent where a person would not write one.

    Examples
    --------
    >>> [number_text(v) for v in (0.0, 145.0, 1234567.0, 0.00123456, 1.5e-9)]
    ['0', '145', '1234567', '0.001235', '1.5e-09']
    """
    if value == 0:
        return "0"
    if float(value).is_integer() and abs(value) < 1e7:
        return f"{value:.0f}"
    if 1e-4 <= abs(value) < 1e7:
        digits = max(0, 3 - int(np.floor(np.log10(abs(value)))))
        text = f"{value:.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.4g}"


def typical_of(name: str, summary: ColumnSummary) -> Typical:
    """A column's summary under its name."""
    return Typical(name, summary.kind, summary.quantiles, summary.labels, summary.shares)


def groups_of(anomalies: Sequence[Anomaly]) -> list[Group]:
    """Group anomalies by the columns that make up half of their score: at least two each, largest first."""
    members: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for anomaly in anomalies:
        key = []
        total = 0.0
        for reason in anomaly.reasons:
            if total >= GROUP_SHARE:
                break
            key.append(reason.feature)
            total += reason.share
        if key:
            members[tuple(sorted(key))].append(anomaly.row)
    grouped = [Group(list(features), found) for features, found in members.items() if len(found) > 1]
    return sorted(grouped, key=lambda g: (-len(g.rows), g.features))
