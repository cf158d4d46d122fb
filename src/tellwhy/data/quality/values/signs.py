"""Signs that were flipped: −23.50 in a column of positive amounts that otherwise fits."""

from __future__ import annotations

import math

import numpy as np

from tellwhy.data.quality.chance import LEVEL, most
from tellwhy.data.quality.facts import Facts
from tellwhy.data.quality.findings import MISSING, Finding
from tellwhy.data.quality.values.below import below_zero
from tellwhy.data.quality.words import as_rows, cell_words, range_words, rows_words


def find_sign_flips(seen: Facts, learn: Facts) -> list[Finding]:
    """Negative values in a column of positive ones, whose sizes are as usual there."""
    findings = []
    for column, numbers in seen.numbers.items():
        below = below_zero(numbers.values, learn.numbers[column].values)
        if not len(below.rows):
            continue
        size = -numbers.values[below.rows]
        usual = np.quantile(below.rest, [0.005, 0.995])
        fits = (size >= usual[0]) & (size <= usual[1])
        evidence = below.evidence - math.log(len(seen.numbers))
        if not (fits & (evidence > LEVEL)).any():
            continue
        chosen = fits  # one sure case says that the column is positive: then all of them are wrong
        rows = as_rows(below.rows[chosen])
        verb = "is" if len(rows) == 1 else "are"
        text = (
            f"{rows_words(len(rows))}: {column} {verb} negative, with a size that is usual "
            f"(other values {range_words(seen, column, below.rest)}): a flipped sign."
        )
        surprise = min(float(evidence[chosen].max()), most(seen.n))
        example = cell_words(seen, column, rows[0])
        findings.append(Finding("sign_flip", (column,), rows, text, example, MISSING, surprise))
    return findings
