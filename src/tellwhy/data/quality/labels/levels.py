"""Levels that are new, gone, or far rarer than every other level of their column."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from tellwhy.core.score_function import Integers
from tellwhy.data.quality.chance import LEVEL, beyond_evidence, edge_evidence, few, most
from tellwhy.data.quality.coded import Coded, coded_labels, coded_numbers
from tellwhy.data.quality.facts import Facts
from tellwhy.data.quality.findings import MISSING, TOLD, Finding
from tellwhy.data.quality.words import as_rows, cell_words, rows_words

_RATIO = 30  # a rare level is so many times rarer than the rarest of the others
_MOST_RARE = 3
_MOST_OFF = 6
_RATIO_OFF = 8
_OFF = 0.005  # a step with more rows than this is one of the scale
_MOST_WHOLE = 15  # different whole numbers up to which a column is a scale (ratings, grades)
_SURE = 1.5  # a smaller surprise makes no row odd
_ODD_ROWS = 3  # a rare level of more rows than this, and of a larger share, is small but no error
_ODD_SHARE = 0.002
_FEW = 5


def find_levels(seen: Facts, learn: Facts) -> list[Finding]:
    """New and vanished levels against a reference, and single ones among common ones."""
    findings: list[Finding] = []
    columns = [name for name in seen.labels if seen.roles[name].kind != "boolean"]
    for column in columns:
        coded = coded_labels(seen, learn, column)
        if seen is not learn:
            findings += _new(seen, column, coded, len(columns))
            findings += _vanished(column, coded, len(columns))
        findings += _rare(seen, column, coded, len(columns))
    for column in _scales(learn):
        findings += _off_scale(seen, column, coded_numbers(seen, learn, column))
    return findings


def _new(seen: Facts, column: str, coded: Coded, n_columns: int) -> Iterator[Finding]:
    """Levels that the reference lacks: each one where they are odd, all in one line where they are not."""
    counts = coded.counts()
    here = np.bincount(coded.seen[coded.seen >= 0], minlength=len(coded.names))
    usual: list[int] = []
    for code in np.flatnonzero((counts == 0) & (here > 0)):
        surprise = _news(counts, here, int(code)) - math.log(n_columns)
        if surprise < _SURE:
            usual.append(int(code))
            continue
        rows = as_rows(np.flatnonzero(coded.seen == code))
        text = f"{rows_words(len(rows))}: {column} = {coded.names[code]!r}, a level that the reference lacks."
        odd = min(surprise, most(seen.n))
        yield Finding("new_level", (column,), rows, text, cell_words(seen, column, rows[0]), TOLD, odd)
    if usual:
        rows = as_rows(np.flatnonzero(np.isin(coded.seen, usual)))
        levels = f"{len(usual)} level{'' if len(usual) == 1 else 's'}"
        text = (
            f"{rows_words(len(rows))}: {column} has {levels} that the reference lacks, "
            f"such as {coded.names[usual[0]]!r} (it has many rare levels)."
        )
        yield Finding("new_level", (column,), rows, text, cell_words(seen, column, rows[0]))


def _news(counts: Integers, here: Integers, code: int) -> float:
    """−log of how often a level that was never met comes up.

    As Good and Turing have it, the rare levels of the reference tell; these count fivefold, for where there
    are some there are more.
    """
    n_learned = int(counts.sum())
    as_rare = 3 * here[code] * n_learned / max(int(here.sum()), 1)
    n_rare = int(counts[counts <= max(as_rare, _FEW)].sum())
    return -math.log((5 * n_rare + 1) / (n_learned + 1))


def _vanished(column: str, coded: Coded, n_columns: int) -> Iterator[Finding]:
    counts = coded.counts()
    here = np.bincount(coded.seen[coded.seen >= 0], minlength=len(coded.names))
    expected = counts * here.sum() / max(int(counts.sum()), 1)
    for code in np.flatnonzero((here == 0) & (expected > 0)):
        if few(0, float(expected[code])) - math.log(n_columns * len(coded.names)) > LEVEL:
            text = (
                f"0 rows: {column} = {coded.names[code]!r} is gone "
                f"({counts[code]:,} rows of the reference have it)."
            )
            yield Finding("vanished_level", (column,), (), text, f"{column} = {coded.names[code]}")


def _rare(seen: Facts, column: str, coded: Coded, n_columns: int) -> Iterator[Finding]:
    """A level with a handful of rows where every other level has many times more."""
    counts = np.bincount(coded.seen[coded.seen >= 0], minlength=len(coded.names))
    codes = rare_codes(counts)
    n_levels = int((counts > 0).sum())
    for code in codes:
        if not coded.counts()[code]:
            continue  # told as new
        surprise = math.log(counts.sum() / counts[code]) - math.log(n_levels * n_columns)
        if surprise < _SURE:
            continue
        rows = as_rows(np.flatnonzero(coded.seen == code))
        least = int(np.min(np.delete(counts, codes)[np.delete(counts, codes) > 0]))
        text = (
            f"{rows_words(len(rows))}: {column} = {coded.names[code]!r}, a rare level "
            f"(each of the other {n_levels - len(codes)} has at least {least:,} rows)."
        )
        is_odd = len(rows) <= max(_ODD_ROWS, _ODD_SHARE * seen.n)
        odd = min(surprise, most(seen.n)) if is_odd else 0.0
        yield Finding("rare_level", (column,), rows, text, cell_words(seen, column, rows[0]), TOLD, odd)


def rare_codes(
    counts: Integers, most_rare: int = _MOST_RARE, ratio: float = _RATIO, *, fewest: int = 2
) -> Integers:
    """Codes of the levels below a gap in the counts, if these are few; none in a column of many sizes."""
    order = np.argsort(counts, kind="stable")
    order = order[counts[order] > 0]
    for n_rare in range(1, min(most_rare, len(order) - fewest) + 1):
        if counts[order[n_rare]] >= ratio * counts[order[n_rare - 1]]:
            return order[:n_rare]
    return order[:0]


def _scales(learn: Facts) -> Iterator[str]:
    """Columns of few whole numbers: ratings, grades, numbers of children."""
    for column, numbers in learn.numbers.items():
        probe = numbers.filled
        if len(probe) >= 50 and numbers.grain == 1 and probe[-1] - probe[0] < 1000:
            n_values = len(np.unique(probe))
            if 4 <= n_values <= _MOST_WHOLE:
                yield column


def _off_scale(seen: Facts, column: str, coded: Coded) -> Iterator[Finding]:
    """Whole numbers off a scale all of whose steps are common: a rating of 7 among 1 to 5."""
    values = seen.numbers[column].values
    counts = np.bincount(coded.seen[coded.seen >= 0], minlength=len(coded.names))
    rare = rare_codes(counts, _MOST_OFF, _RATIO_OFF)
    others = np.sort(values[(coded.seen >= 0) & ~np.isin(coded.seen, rare)])
    if not len(rare) or not _is_scale(others):
        return
    with np.errstate(invalid="ignore"):
        sides = (np.flatnonzero(values < others[0]), np.flatnonzero(values > others[-1]))
    for rows, ends in zip(sides, (others, -others[::-1]), strict=True):
        if not 0 < len(rows) <= max(_OFF * seen.n, 3):
            continue
        gap = int(np.abs(values[rows][:, None] - others[[0, -1]]).min())
        # The step after the last common one may be its tail: 40 families of 3 children, and one of 4.
        evidence = edge_evidence(ends, beyond=len(rows), step=1.0)
        evidence = max(evidence, beyond_evidence(ends, k=len(rows), gap=gap, step=1.0))
        evidence -= math.log(len(seen.numbers))
        if evidence <= LEVEL:
            continue
        text = (
            f"{rows_words(len(rows))}: {column} = {_listed(values[rows])}, off the scale of the others "
            f"({others[0]:g} to {others[-1]:g})."
        )
        example = cell_words(seen, column, int(rows[0]))
        odd = min(evidence, most(seen.n))
        yield Finding("rare_level", (column,), as_rows(rows), text, example, MISSING, odd)


def _listed(values: np.ndarray) -> str:
    return ", ".join(f"{value:g}" for value in np.unique(values))


def _is_scale(others: np.ndarray) -> bool:
    """Whether every step between the least and the greatest value is taken."""
    return len(np.unique(others)) == int(others[-1] - others[0]) + 1
