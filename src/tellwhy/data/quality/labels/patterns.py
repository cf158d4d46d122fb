"""Codes that are written otherwise than all others: 'AB-12X' where every code has four digits."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from tellwhy.data.quality.chance import most
from tellwhy.data.quality.facts import Facts
from tellwhy.data.quality.findings import TOLD, Finding
from tellwhy.data.quality.labels.levels import rare_codes
from tellwhy.data.quality.words import as_rows, cell_words, rows_words

_FEWEST_LEVELS = 30
_MOST_PATTERNS = 8
_RATIO = 30
_MOST_RARE = 5
_RARE = 0.005
_SURE = 1.5


def find_odd_patterns(seen: Facts, learn: Facts) -> list[Finding]:  # noqa: ARG001
    """Texts whose letters, digits and signs follow another pattern than those of all other rows."""
    columns = [c for c in seen.frame.columns if seen.roles[c].kind in ("category", "text", "identifier")]
    findings: list[Finding] = []
    for column in columns:
        series = seen.frame[column]
        if not pd.api.types.is_numeric_dtype(series.dtype):
            findings += _of_column(seen, column, len(columns))
    return findings


def _of_column(seen: Facts, column: str, n_columns: int) -> Iterator[Finding]:
    try:
        codes, levels = pd.factorize(seen.frame[column])
    except TypeError:  # cells that cannot be hashed
        return
    if len(levels) < _FEWEST_LEVELS or not all(isinstance(level, str) for level in levels):
        return
    for is_short in (False, True):
        pattern_of, patterns = pd.factorize(patterns_of(pd.Series(levels), is_short=is_short))
        if len(patterns) <= _MOST_PATTERNS:
            yield from _told(seen, column, np.append(pattern_of, -1)[codes], n_columns)
            return


def patterns_of(texts: pd.Series, *, is_short: bool = False) -> pd.Series:
    """Capital letters as A, others as a, digits as 9; runs of them as one where short.

    Examples
    --------
    >>> patterns_of(pd.Series(["DE-1234", "fr_7"])).tolist()
    ['AA-9999', 'aa_9']
    >>> patterns_of(pd.Series(["DE-1234", "fr_7"]), is_short=True).tolist()
    ['A-9', 'a_9']
    """
    marks = texts.str.replace(r"[0-9]", "9", regex=True)
    marks = marks.str.replace(r"[A-Z]", "A", regex=True).str.replace(r"[^\W\d_A]", "a", regex=True)
    if not is_short:
        return marks
    for mark in "9Aa":  # one by one: strings that Arrow keeps know no back references
        marks = marks.str.replace(f"{mark}+", mark, regex=True)
    return marks


def _told(seen: Facts, column: str, codes: np.ndarray, n_columns: int) -> Iterator[Finding]:
    counts = np.bincount(codes[codes >= 0])
    for code in rare_codes(counts, _MOST_RARE, _RATIO, fewest=1):
        rows = as_rows(np.flatnonzero(codes == code))
        surprise = math.log(counts.sum() / len(rows)) - math.log(n_columns)
        if surprise < _SURE or len(rows) > max(_RARE * seen.n, 1):
            continue
        usual = seen.frame[column].iloc[int(np.argmax(codes == np.argmax(counts)))]
        text = (
            f"{rows_words(len(rows))}: {column} = {seen.frame[column].iloc[rows[0]]!r} is written otherwise "
            f"than the others (such as {usual!r})."
        )
        odd = min(surprise, most(seen.n))
        yield Finding("rare_level", (column,), rows, text, cell_words(seen, column, rows[0]), TOLD, odd)
