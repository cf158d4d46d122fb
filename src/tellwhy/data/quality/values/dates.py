"""Dates that do not exist (31 February), and dates in the future where the others are past."""

from __future__ import annotations

import math
import re

import numpy as np

from tellwhy.data.quality.chance import LEVEL, most
from tellwhy.data.quality.facts import Facts
from tellwhy.data.quality.findings import MISSING, TOLD, Finding
from tellwhy.data.quality.values.below import below_zero
from tellwhy.data.quality.words import as_rows, cell_words, day_words, rows_words

_LOOKS_LIKE_DATE = re.compile(
    r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|\d{8})([T ].*)?\s*"
)
_MOST_IMPOSSIBLE = 0.02  # more unreadable dates than this are another way of writing dates


def find_impossible_dates(seen: Facts, learn: Facts) -> list[Finding]:  # noqa: ARG001
    """Cells written like a date that no calendar has."""
    findings = []
    for column, days in seen.dates.items():
        if column not in seen.raw.columns or seen.raw[column] is seen.frame[column]:
            continue
        written = seen.raw[column]
        unread = np.flatnonzero(np.isnan(days.values) & written.notna().to_numpy())
        if not 0 < len(unread) <= max(_MOST_IMPOSSIBLE * seen.n, 1):
            continue
        is_date = [_LOOKS_LIKE_DATE.fullmatch(str(cell)) is not None for cell in written.iloc[unread]]
        rows = as_rows(unread[np.array(is_date)])
        if not rows:
            continue
        cell = written.iloc[rows[0]]
        text = f"{rows_words(len(rows))}: {column} = {str(cell)!r}: there is no such date."
        surprise = math.log(seen.n / len(rows))
        findings.append(
            Finding("impossible_date", (column,), rows, text, f"{column} = {cell}", TOLD, surprise)
        )
    return findings


def find_future_dates(seen: Facts, learn: Facts) -> list[Finding]:
    """Dates after now, where the others end before it."""
    findings = []
    for column, days in seen.dates.items():
        below = below_zero(seen.now - days.values, seen.now - learn.dates[column].values, step=days.step)
        evidence = below.evidence - math.log(max(len(seen.dates), 1))
        chosen = evidence > LEVEL
        if not chosen.any():
            continue
        rows = as_rows(below.rows[chosen])
        last = day_words(seen.now - float(below.rest[0]))
        text = f"{rows_words(len(rows))}: {column} lies in the future (the others end on {last})."
        surprise = min(float(evidence[chosen].min()), most(seen.n))
        example = cell_words(seen, column, rows[0])
        findings.append(Finding("future_date", (column,), rows, text, example, MISSING, surprise))
    return findings
