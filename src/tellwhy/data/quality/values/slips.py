"""Values that fit once they are scaled: a slipped decimal point, pounds among kilograms, °F among °C."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import evenly_spread
from tellwhy.data.quality.chance import LEVEL, Tail, fit_tail, many, most
from tellwhy.data.quality.facts import Facts
from tellwhy.data.quality.findings import MISSING, Finding
from tellwhy.data.quality.words import as_rows, cell_words, number_words, rows_words

_POWERS = {10.0**k: "decimal_slip" for k in (1, 2, 3, -1, -2, -3)}
_UNITS = (2.2046, 2.54, 3.2808, 1.6093, 28.35, 60.0, 3600.0, 3.7854, 4.184, 6.8948, 12.0, 24.0)
FACTORS = {**_POWERS, **dict.fromkeys(_UNITS, "mixed_units"), **{1 / u: "mixed_units" for u in _UNITS}}
_COMMON = 0.02  # more values than this at a factor are a second group, not slips
_FEWEST = 50
_FEWEST_VALUES = 20
_PURE = 0.1  # share of the values at a factor that may be there by chance
_NARROW = 0.5  # spread of logarithms up to which a factor can be told


@dataclass(frozen=True, eq=False)
class _Scaled:
    """A column on a scale on which factors are shifts, less what is usual for each row."""

    values: Floats
    tails: tuple[Tail, Tail]  # upper; lower, of the mirrored values
    spread: float
    middle: float
    words: str


def find_slips(seen: Facts, learn: Facts) -> list[Finding]:  # noqa: ARG001
    """Cells far from what is usual, in their column or for their label, by a factor that people know."""
    findings: list[Finding] = []
    n_tried = max(len(seen.numbers), 1) * len(FACTORS) * 3
    for column, numbers in seen.numbers.items():
        probe = numbers.filled[evenly_spread(len(numbers.filled), 2000)]
        if len(numbers.filled) < _FEWEST or len(np.unique(probe)) < _FEWEST_VALUES:
            continue
        told: set[int] = set()
        for scaled in _scales(seen, column):
            for finding in _of_scale(seen, column, scaled, n_tried):
                if not told & set(finding.rows):
                    findings.append(finding)
                    told |= set(finding.rows)
        findings += _fahrenheit(seen, column, told, n_tried)
    return findings


def _scales(seen: Facts, column: str) -> Iterator[_Scaled]:
    """The logarithm of the column; less the middle of each level of a label that narrows it."""
    values = seen.numbers[column].values
    with np.errstate(all="ignore"):
        logs = np.log(values)
    logs[~np.isfinite(logs)] = np.nan
    if np.isnan(logs).sum() > 0.02 * seen.n + np.isnan(values).sum():
        return  # not a column of positive numbers
    alone = _scaled(logs, "")
    yield alone
    for name, labels in seen.labels.items():
        if not 2 <= len(labels.names) <= 0.1 * seen.n:
            continue
        within = logs - _middles(logs, labels.codes, len(labels.names))
        if _spread(within) < 0.7 * alone.spread:
            yield _scaled(within, f" for its {name}")


def _middles(logs: Floats, codes: Integers, n_levels: int) -> Floats:
    """Of each row: the median of its level; NaN where a level has few rows."""
    filled = np.flatnonzero(~np.isnan(logs) & (codes >= 0))
    order = filled[np.lexsort((logs[filled], codes[filled]))]
    counts = np.bincount(codes[filled], minlength=n_levels)
    first = np.cumsum(counts) - counts
    middle = np.full(n_levels + 1, np.nan)
    enough = np.flatnonzero(counts >= 8)
    middle[enough] = logs[order[first[enough] + counts[enough] // 2]]
    return middle[codes]


def _spread(values: Floats) -> float:
    filled = values[~np.isnan(values)]
    if len(filled) < _FEWEST:
        return math.inf
    low, high = np.quantile(filled, [0.16, 0.84])
    return max(float(high - low) / 2, 1e-3)


def _scaled(values: Floats, words: str) -> _Scaled:
    rising = np.sort(values[~np.isnan(values)])
    spread = _spread(values)
    # The farthest values are what is asked about: they do not tell how the tail falls.
    cut = max(int(_COMMON / 2 * len(rising)), 1)
    kept = rising[cut:-cut]
    step = 0.05 * spread
    tails = (fit_tail(kept, step=step), fit_tail(-kept[::-1], step=step))
    return _Scaled(values, tails, spread, float(np.median(rising)), words)


def _of_scale(seen: Facts, column: str, scaled: _Scaled, n_tried: int) -> Iterator[Finding]:
    if scaled.spread > _NARROW * math.log(10):
        return
    for factor, kind in FACTORS.items():
        shift = math.log(factor)
        low = scaled.middle + shift - 2 * scaled.spread
        high = scaled.middle + shift + 2 * scaled.spread
        with np.errstate(invalid="ignore"):
            rows = np.flatnonzero((scaled.values >= low) & (scaled.values <= high))
        near = low if shift > 0 else -high
        tail = scaled.tails[0 if shift > 0 else 1]
        if not 0 < len(rows) <= _COMMON * seen.n or (kind == "mixed_units" and len(rows) < 3):
            continue
        expected = seen.n * math.exp(-float(tail.surprise(near))) if near > tail.start else float(seen.n)
        evidence = many(len(rows), expected) - math.log(n_tried)
        if evidence > LEVEL and expected <= _PURE * len(rows):
            words = _words(factor, kind) + scaled.words
            yield _finding(seen, column, rows, kind=kind, words=words, evidence=evidence)


def _words(factor: float, kind: str) -> str:
    size = factor if factor > 1 else 1 / factor
    word = "large" if factor > 1 else "small"
    about = "" if kind == "decimal_slip" else "about "
    return f"{about}{number_words(round(size, 2))} times too {word}"


def _finding(seen: Facts, column: str, rows: Integers, *, kind: str, words: str, evidence: float) -> Finding:
    what = "a slipped decimal point" if kind == "decimal_slip" else "another unit"
    text = f"{rows_words(len(rows))}: {column} is {words}, {what}?"
    example = cell_words(seen, column, int(rows[0]))
    return Finding(kind, (column,), as_rows(rows), text, example, MISSING, min(evidence, most(seen.n)))


def _to_fahrenheit(x: Floats) -> Floats:
    return 1.8 * x + 32


def _fahrenheit(seen: Facts, column: str, told: set[int], n_tried: int) -> Iterator[Finding]:
    """Values beyond the others that would be among them as degrees Celsius."""
    scaled = _scaled(seen.numbers[column].values, "")
    usual = _to_fahrenheit(np.quantile(seen.numbers[column].filled, [0.02, 0.98]))
    if scaled.tails[0].start >= usual[0] or scaled.middle < -30 or scaled.middle > 45:
        return
    with np.errstate(invalid="ignore"):
        rows = np.flatnonzero((scaled.values >= usual[0]) & (scaled.values <= usual[1]))
    is_open = seen.numbers[column].filled[-1] > usual[1] + 0.5 * (
        usual[1] - usual[0]
    )  # a tail goes on beyond
    if is_open or not 2 <= len(rows) <= _COMMON * seen.n or told & set(rows.tolist()):
        return
    expected = seen.n * math.exp(-float(scaled.tails[0].surprise(float(usual[0]))))
    evidence = many(len(rows), expected) - math.log(n_tried)
    if evidence > LEVEL and expected <= _PURE * len(rows):
        words = "as usual once it is read as °F"
        yield _finding(seen, column, rows, kind="mixed_units", words=words, evidence=evidence)
