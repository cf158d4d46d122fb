"""Values beyond a bound that all others keep: shares above 100 %, fractions among whole numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np

from tellwhy.data.quality.chance import LEVEL, most
from tellwhy.data.quality.facts import Facts
from tellwhy.data.quality.findings import MISSING, Finding
from tellwhy.data.quality.values.below import FEW, FEW_OF_OTHERS, below_zero
from tellwhy.data.quality.words import as_rows, cell_words, number_words, range_words, rows_words

_UPPER = (1.0, 100.0)
_SHARE = re.compile(
    r"percent|pct|%|share|ratio|rate|prob|humidity|fraction|quota|score|discount|load|usage", re.I
)
_FEWEST = 100
_WHOLE_FEW = 0.004  # halves among whole hours are more frequent than errors


def find_out_of_bounds(seen: Facts, learn: Facts) -> list[Finding]:
    """Cells below 0, above 1 or above 100 where the others never are."""
    findings: list[Finding] = []
    for column in seen.numbers:
        findings += _beyond(seen, learn, column, 0.0, 1.0)
        for bound in _UPPER:
            findings += _beyond(seen, learn, column, bound, -1.0)
    return findings


def find_fractions(seen: Facts, learn: Facts) -> list[Finding]:  # noqa: ARG001
    """Numbers with decimals where nearly all are whole, once slips of the decimal point are told."""
    return [finding for column in seen.numbers for finding in _fractions(seen, column)]


def _beyond(seen: Facts, learn: Facts, column: str, bound: float, sign: float) -> Iterator[Finding]:
    here = sign * (seen.numbers[column].values - bound)
    there = here if seen is learn else sign * (learn.numbers[column].values - bound)
    below = below_zero(here, there)
    if not len(below.rows):
        return
    # A share cannot be above 1; a column that merely stays below 100 may well go on.
    is_share = sign > 0 or _SHARE.search(f"{column} {getattr(seen.roles[column], 'words', '')}") is not None
    evidence = (below.evidence if is_share else below.edge) - math.log(3 * len(seen.numbers))
    chosen = evidence > LEVEL
    if not chosen.any():
        return
    rows = as_rows(below.rows[chosen])
    rising = np.sort(sign * below.rest + bound)
    text = (
        f"{rows_words(len(rows))}: {column} is {'below' if sign > 0 else 'above'} {number_words(bound)} "
        f"(other values {range_words(seen, column, rising)})."
    )
    surprise = min(float(evidence[chosen].min()), most(seen.n))
    yield Finding("broken_order", (column,), rows, text, cell_words(seen, column, rows[0]), MISSING, surprise)


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
    surprise = min(math.log(n / len(rows)), most(seen.n))
    text = f"{rows_words(len(rows))}: {column} is not a whole number, as the other {n - len(rows):,} are."
    place = as_rows(rows)
    yield Finding(
        "decimal_slip", (column,), place, text, cell_words(seen, column, place[0]), MISSING, surprise
    )
