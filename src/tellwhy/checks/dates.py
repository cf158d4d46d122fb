"""Dates that do not exist (31 February), and dates in the future where the others are past."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np

from tellwhy.checks.bounds import below_zero
from tellwhy.checks.chance import LEVEL
from tellwhy.checks.facts import Facts, day_text
from tellwhy.checks.mistakes import FUTURE_DATE, IMPOSSIBLE_DATE, PLACEHOLDER, Mistake
from tellwhy.core.score import Integers
from tellwhy.results.result import Finding

_LOOKS_LIKE_DATE = re.compile(
    r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|\d{8})([T ].*)?\s*"
)
MOST_UNREAD = 0.02  # more unreadable dates than this are another way of writing dates


def find_unread_cells(seen: Facts, known: Facts) -> list[Finding]:  # noqa: ARG001
    """Cells written like a date that no calendar has, and words in columns of numbers and dates."""
    findings: list[Finding] = []
    for column, values in seen.measured().items():
        written = seen.raw[column] if column in seen.raw.columns else seen.frame[column]
        unread = np.flatnonzero(seen.frame[column].isna().to_numpy() & written.notna().to_numpy())
        if not 0 < len(unread) <= max(MOST_UNREAD * seen.n, 1) or len(values.filled) < 2:
            continue
        is_date = [_LOOKS_LIKE_DATE.fullmatch(str(cell)) is not None for cell in written.iloc[unread]]
        impossible = np.array(is_date) & (column in seen.dates)
        findings += _unread(seen, column, unread[impossible], IMPOSSIBLE_DATE)
        findings += _unread(seen, column, unread[~impossible], PLACEHOLDER)
    return findings


def _unread(seen: Facts, column: str, rows: Integers, mistake: Mistake) -> Iterator[Finding]:
    if not len(rows):
        return
    cell = str(seen.raw[column].iloc[rows[0]])[:60]
    facts = {"value": cell}
    if mistake is PLACEHOLDER:
        facts["among"] = "dates" if column in seen.dates else "numbers"
    form = "unread_word" if mistake is PLACEHOLDER else mistake.kind
    surprise = math.log(seen.n / len(rows))
    yield mistake.report(seen, column, rows, facts, form=form, surprise=surprise, cells={column: cell})


def find_future_dates(seen: Facts, known: Facts) -> list[Finding]:
    """Dates after now, where the others end before it."""
    findings = []
    for column, days in seen.dates.items():
        below = below_zero(seen.now - days.values, seen.now - known.dates[column].values, step=days.step)
        evidence = below.evidence - math.log(max(len(seen.dates), 1))
        chosen = evidence > LEVEL
        if not chosen.any():
            continue
        usual = {"high": day_text(seen.now - float(below.rest[0]))}
        surprise = float(evidence[chosen].min())
        rows = below.rows[chosen]
        findings.append(FUTURE_DATE.report(seen, column, rows, {}, usual, surprise=surprise))
    return findings
