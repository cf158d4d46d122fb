"""Reasons: a row's columns, in its own units, against what is usual."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tellwhy.core.explanation import Explanation
from tellwhy.core.score import Floats
from tellwhy.data import ColumnSummary
from tellwhy.results.result import Anomaly, Group, Reason, Typical
from tellwhy.verdicts.causes import Cause
from tellwhy.verdicts.words import make_plain_cell, measure_pair
from tellwhy.words.numbers import is_number, write_clock

MOST_REASONS = 3
LEAST_SHARE = (
    0.05  # of a reason that is told; and of the rows that must have a value for it to be called usual
)
LEAST_SHARE_OF_USUAL = 0.15  # of a reason that is told though its value is usual by itself
GROUP_SHARE = 0.5
WIDEST = 10**0.5  # times the least: usual values take up half of the way from one power of ten to the next


def list_reasons(explanation: Explanation, typical: Mapping[str, Typical]) -> list[list[Reason]]:
    """Return the main reasons of each explained row, largest share first; nothing is verified."""
    shares = compute_shares(explanation)
    return [_order_by_shares(explanation, i, shares[i], typical) for i in range(len(explanation))]


def list_verified_reasons(
    explanation: Explanation, typical: Mapping[str, Typical], causes: Sequence[Cause], usual: pd.DataFrame
) -> list[list[Reason]]:
    """Return the reasons of each explained row: first the columns of its cause, then others that are odd too.

    Parameters
    ----------
    explanation
        Of the rows, whose data are read as numbers and dates.
    typical
        What is usual in each column.
    causes
        What was verified of each row.
    usual
        Rows to count pairs of values in.
    """
    shares = compute_shares(explanation)
    found = []
    for i, cause in enumerate(causes):
        by_shares = _order_by_shares(explanation, i, shares[i], typical)
        if not cause.holds:
            found.append(by_shares)
            continue
        if cause.groups:
            found.append([_group_reason(explanation, i, g, shares[i], typical) for g in cause.groups])
            continue
        named = [_make_reason(explanation, i, c, shares[i], typical) for c in cause.columns]
        named = [replace(reason, holds=True) for reason in named]
        named = _pair_reasons(named, typical, usual)
        named = [_add_slip(reason, typical[reason.feature]) for reason in named]
        features = {reason.feature for reason in named}
        others = [
            reason
            for reason in by_shares
            if reason.feature not in features and not is_usual(reason.value, typical[reason.feature])
        ]
        found.append((named + others)[: max(MOST_REASONS, len(named))])
    return found


def _group_reason(
    explanation: Explanation,
    i: int,
    group: Sequence[int],
    shares: Floats,
    typical: Mapping[str, Typical],
) -> Reason:
    """Columns that move together as one reason: the one with the largest share stands for all."""
    main = max(group, key=lambda c: shares[c])
    reason = _make_reason(explanation, i, main, shares, typical)
    names = [explanation.names()[c] for c in group]
    sides = Counter(_find_side(explanation, i, c, typical) for c in group)
    side, n_side = sides.most_common(1)[0]
    facts = {**reason.facts, "columns": names, "side": side, "n_side": n_side}
    total = float(sum(max(shares[c], 0.0) for c in group))
    return replace(reason, kind="group", facts=facts, share=min(total, 1.0), holds=True)


def _find_side(explanation: Explanation, i: int, c: int, typical: Mapping[str, Typical]) -> str:
    """'large' or 'small': on which side of its median a number lies."""
    name = explanation.names()[c]
    value = make_plain_cell(explanation.data.iloc[i][name])
    if not is_number(value) or typical[name].kind != "number":
        return ""
    return "large" if value > typical[name].quantiles[3] else "small"


def compute_shares(explanation: Explanation) -> Floats:
    """Part of each column in the score of each row; what no column received is missing from their sum."""
    return np.asarray(explanation.shares() * (1.0 - measure_unattributed(explanation))[:, None])


def measure_unattributed(explanation: Explanation) -> Floats:
    """Part of each score that no column received, between 0 and 1; 0 where values are not shares."""
    if explanation.residual is None:
        return np.zeros(len(explanation))
    above = explanation.scores - explanation.base_values
    parts = np.divide(explanation.residual, above, out=np.zeros(len(explanation)), where=above > 0)
    return np.clip(parts, 0.0, 1.0)


def _order_by_shares(
    explanation: Explanation, i: int, shares: Floats, typical: Mapping[str, Typical]
) -> list[Reason]:
    order = np.argsort(-shares, kind="stable")[:MOST_REASONS]
    main = [_make_reason(explanation, i, int(c), shares, typical) for c in order if shares[c] > 0]
    worth = [reason for reason in main[1:] if _is_worth_telling(reason, typical[reason.feature])]
    return main[:1] + worth  # the first is told in any case: a row without a reason helps nobody


def _pair_reasons(
    named: Sequence[Reason], typical: Mapping[str, Typical], usual: pd.DataFrame
) -> list[Reason]:
    """Tell the first two as a pair where the first is usual by itself."""
    if len(named) < 2 or not is_usual(named[0].value, typical[named[0].feature]):
        return list(named)
    first, second = named[:2]
    facts = measure_pair(first, second, usual)
    return [
        replace(first, kind="pair", facts={**facts, "pair_share": first.share + second.share}),
        *named[1:],
    ]


def _add_slip(reason: Reason, usual: Typical) -> Reason:
    """Add that a number would be usual with its decimal point elsewhere."""
    if reason.kind != "value" or usual.kind != "number" or usual.labels or not is_number(reason.value):
        return reason
    times = measure_slip(reason.value, *list_usual(usual))
    return replace(reason, facts={**reason.facts, "times": times}) if times else reason


def measure_slip(value: float, low: float, high: float) -> float:
    """Tell a number that is ten, a hundred or a thousand times a usual one, where few numbers are; else 0.

    Examples
    --------
    >>> measure_slip(578.0, 54.66, 96.89), measure_slip(0.7, 54.66, 96.89)
    (10.0, 0.01)
    >>> measure_slip(300.0, 54.66, 96.89), measure_slip(578.0, 10.0, 96.89)
    (0.0, 0.0)
    """
    if not 0 < low <= high <= WIDEST * low:
        return 0.0
    for times in (10, 100, 1000):
        if low <= value / times <= high:
            return float(times)
        if low <= value * times <= high:
            return 1 / times
    return 0.0


def _make_reason(
    explanation: Explanation, i: int, column: int, shares: Floats, typical: Mapping[str, Typical]
) -> Reason:
    name = explanation.names()[column]
    cell = explanation.data.iloc[i][name]
    is_share = explanation.kind == "attribution"
    return make_cell_reason(name, cell, typical[name], float(shares[column]), is_share=is_share)


def _is_worth_telling(reason: Reason, usual: Typical) -> bool:
    """A small share is noise; of a value that is usual by itself, a larger one is too."""
    return reason.share >= (LEAST_SHARE_OF_USUAL if is_usual(reason.value, usual) else LEAST_SHARE)


def is_usual(value: Any, usual: Typical) -> bool:
    """Whether a value, by itself, is nothing special: between 5 % and 95 %, or among the most common."""
    if value is None:
        return False
    low_high = list_usual(usual)
    if usual.kind in ("number", "date"):
        return bool(low_high[0] <= value <= low_high[1])
    return usual.shares.get(str(value), 0.0) >= LEAST_SHARE


def make_cell_reason(name: str, cell: Any, usual: Typical, share: float, *, is_share: bool) -> Reason:
    """A cell beside what is usual in its column; `is_share` where its share of the score is told."""
    facts: dict[str, Any] = {"column": usual.kind}
    if usual.kind not in ("number", "date") and _is_varied(usual):
        facts["is_varied"] = True
    if usual.kind == "number" and usual.labels:
        facts["is_clock"] = True
    value = make_plain_cell(cell)
    usually = list_usual(usual)
    # A label that is usual itself is odd for being the rarer one, or beside others.
    label = f"{value:g}" if isinstance(value, float) else str(value)
    if value is not None and label in usually and label in usual.shares:
        facts["of_rows"] = usual.shares[label]
    return Reason(name, value, usually, share, facts=facts, is_share=is_share)


def _is_varied(usual: Typical) -> bool:
    """Whether no label of a column is common."""
    return max(usual.shares.values(), default=1.0) < LEAST_SHARE


def list_usual(usual: Typical) -> list[Any]:
    """[low, high] of numbers and dates (5 % and 95 %), the most common values of categories.

    A value that fewer than 5 % of the rows have is not called usual, unless all others are rarer still.
    """
    if usual.kind == "number":
        return [usual.quantiles[1], usual.quantiles[5]]
    if usual.kind == "date":
        return [usual.labels[1], usual.labels[5]]
    common = [value for value, share in usual.shares.items() if share >= LEAST_SHARE]
    return (common or list(usual.shares)[:1])[:3]


def make_typical(name: str, summary: ColumnSummary, *, is_clock: bool = False) -> Typical:
    """A column's summary under its name; of hours of times of day, the labels are these times."""
    labels = tuple(map(write_clock, summary.quantiles)) if is_clock else summary.labels
    return Typical(name, summary.kind, summary.quantiles, labels, summary.shares)


def group_anomalies(anomalies: Sequence[Anomaly]) -> list[Group]:
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
