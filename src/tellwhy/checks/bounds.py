"""Numbers below and above what others keep to.

Values below 0 in a column that is otherwise never below 0.

Values beyond a bound that all others keep: shares above 100 %, fractions among whole numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tellwhy.checks.chance import LEVEL, edge_evidence, edge_window, fit_tail
from tellwhy.checks.facts import Facts, decimals_of
from tellwhy.checks.mistakes import BROKEN_ORDER, DECIMAL_SLIP
from tellwhy.checks.restraint import are_next
from tellwhy.core.arrays import spread_evenly
from tellwhy.core.score import Floats, Integers
from tellwhy.results.result import Finding

FEW = 0.01  # more exceptions than this are part of how the column is
FEW_OF_OTHERS = 0.05  # where most cells have one value: of the others
FEWEST = 30
_HANDFUL = 10
_FEW_ROWS = 2


@dataclass(frozen=True, eq=False)
class Below:
    """Rows that are below 0, and for each the evidence that none should be, in all and from an edge alone."""

    rows: Integers
    evidence: Floats
    edge: Floats
    rest: Floats  # the other values, sorted


NONE = Below(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), np.zeros(0))


def is_usual_beside_one_value(values: Floats, rows: Integers) -> bool:
    """Whether most cells have one value, such as 0, and these rows are not few among the others.

    The one value says nothing of the others: three of fifteen are no exceptions, among however many zeros.
    What counts is how many different values they have: a placeholder is one, in however many rows.
    """
    is_other = values != np.partition(values, len(values) // 2)[len(values) // 2]
    n_others = int(is_other.sum())
    if n_others > len(values) / 2 or len(rows) <= max(FEW_OF_OTHERS * n_others, 1):
        return False
    n_exceptions = len(np.unique(values[rows]))
    return n_exceptions > max(FEW_OF_OTHERS * len(np.unique(values[is_other])), 1)


def below_zero(seen: Floats, known: Floats, *, step: float | None = None) -> Below:
    """Find the few values below 0, and weigh whether they belong to the tail of the others.

    They do not where the others end at a hard edge at or above 0 (`edge_evidence`), or where a tail that
    falls like theirs does not reach so far.
    """
    with np.errstate(invalid="ignore"):
        rows = np.flatnonzero(seen < 0)
        n_below = int((known < 0).sum())
        if not len(rows) or max(len(rows), n_below) > max(FEW * len(seen), 1):
            return NONE  # most columns end here, before anything is sorted
        if is_usual_beside_one_value(seen, rows):
            return NONE
        rest = np.sort(known[known >= 0])
    if len(rest) < FEWEST:
        return NONE
    if rest[0] == rest[-1]:
        return NONE
    if step is None:
        step = 10.0 ** -decimals_of(rest[spread_evenly(len(rest), 5000)])
    is_near = seen[rows] >= rest[0] - edge_window(rest, step) - step / 2
    edge = edge_evidence(rest, beyond=int(is_near.sum()), step=step)
    # A handful of values that are asked about do not tell how the tail falls; more may be the tail itself.
    falling = rest if len(rows) <= _HANDFUL else np.sort(np.concatenate([rest, seen[rows]]))
    tail = fit_tail(-falling[::-1], step=step, lightest=0.0)
    far = tail.surprise(-seen[rows]) - math.log(len(rest))
    beyond = np.where(is_near, 0, edge)
    return Below(rows, np.maximum(far, beyond), beyond, rest)


_UPPER = (1.0, 100.0)
_SHARE = re.compile(
    r"percent|pct|%|share|ratio|rate|prob|humidity|fraction|quota|score|discount|load|usage", re.I
)
_FEWEST = 100
_WHOLE_FEW = 0.004  # halves among whole hours are more frequent than errors


def find_out_of_bounds(seen: Facts, known: Facts) -> list[Finding]:
    """Cells below 0, above 1 or above 100 where the others never are."""
    findings: list[Finding] = []
    for column in seen.numbers:
        findings += _beyond(seen, known, column, 0.0, 1.0)
        for bound in _UPPER:
            findings += _beyond(seen, known, column, bound, -1.0)
    return findings


def find_fractions(seen: Facts, known: Facts) -> list[Finding]:  # noqa: ARG001
    """Numbers with decimals where nearly all are whole, once slips of the decimal point are told."""
    return [finding for column in seen.numbers for finding in _fractions(seen, column)]


def _beyond(seen: Facts, known: Facts, column: str, bound: float, sign: float) -> Iterator[Finding]:
    here = sign * (seen.numbers[column].values - bound)
    there = here if seen is known else sign * (known.numbers[column].values - bound)
    below = below_zero(here, there)
    if not len(below.rows):
        return
    # A share cannot be above 1; a column that merely stays below 100 may well go on.
    is_share = sign > 0 or _SHARE.search(f"{column} {getattr(seen.roles[column], 'words', '')}") is not None
    if bound == _UPPER[1] and not is_share:
        return
    evidence = (below.evidence if is_share else below.edge) - math.log(3 * len(seen.numbers))
    chosen = evidence > LEVEL
    rows = below.rows[chosen]
    if not len(rows) or (len(rows) > _FEW_ROWS and are_next(rows, len(here)).all()):
        return  # rows that follow each other are of one thing, which is so large
    rising = np.sort(sign * below.rest + bound)
    yield BROKEN_ORDER.report(
        seen,
        column,
        below.rows[chosen],
        {"side": "below" if sign > 0 else "above", "bound": bound},
        seen.ends(column, rising),
        form="beyond_bound",
        surprise=float(evidence[chosen].min()),
    )


def _fractions(seen: Facts, column: str) -> Iterator[Finding]:
    """Numbers with decimals where nearly all are whole."""
    values = seen.numbers[column].values
    filled = ~np.isnan(values)
    n = int(filled.sum())
    rows = np.flatnonzero(filled & (values != np.round(values)))
    if n < _FEWEST or not 0 < len(rows) <= min(_WHOLE_FEW, FEW) * n:
        return
    # Zeros are whole in any column: where there is little else, they do not make it one of whole numbers.
    n_counted = int((filled & (values != 0)).sum())
    if n_counted < n / 2 and len(rows) > max(FEW_OF_OTHERS * n_counted, 1):
        return
    usual = {"n": n - len(rows)}
    # A half among a few hundred whole numbers is told, and no alarm.
    surprise = math.log(n / len(rows))
    surprise = surprise if surprise >= LEVEL else 0.0
    yield DECIMAL_SLIP.report(seen, column, rows, {}, usual, form="not_whole", surprise=surprise)
