"""Rows that occur again.

Columns that follow from others: they do not tell rows apart that the others do not.

Rows that are there twice, identifiers used twice, and bursts: many rows alike, or at one moment.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from tellwhy.checks.chance import LEVEL, many
from tellwhy.checks.copies import Hashes, added_hashes, hashed_cells, n_equal_pairs, pairs_by_chance
from tellwhy.checks.dependencies import dependent_columns
from tellwhy.checks.facts import Facts, day_text
from tellwhy.checks.mistakes import BURST, DUPLICATE
from tellwhy.checks.relations import relations_of
from tellwhy.core.score import Integers
from tellwhy.data.columns.names import has_id_name
from tellwhy.results.result import Finding


def dependents(seen: Facts, known: Facts) -> set[str]:
    """Names of columns that an equation, or the labels of another column, make up."""
    following: set[str] = set()
    for held in relations_of(seen, known):
        target = held.relation.columns[0]
        if not following & set(held.relation.columns[1:]):
            following.add(target)
    for source, target in dependent_columns(seen, known):
        if source not in following:
            following.add(target)
    return following


_NOT_COMPARED = ("identifier", "constant", "empty")
FEWEST_OF_BURST = 5  # equal rows from which they are a burst
_OWN = 0.98  # share of different values from which a column tells rows apart
_COMMON = 0.05
_MOST_COLUMNS = 200
_SHOWN = 3  # cells of an example
_FILLED = 0.5  # share of cells that are neither empty nor 0 where copies are more than empty rows
_ODD_ROWS = 3  # copies up to which each of them is odd
_ODD_SHARE = 0.002  # the same, of all rows


def find_repeats(seen: Facts, known: Facts) -> list[Finding]:
    """Copies of rows, identifiers that occur twice, many rows at one moment."""
    copies = list(_copies(seen, known))
    return [*copies, *_identifiers(seen), *_moments(seen.without(copies))]


def _copies(seen: Facts, known: Facts) -> Iterator[Finding]:
    columns = [c for c in seen.frame.columns if seen.roles[c].kind not in _NOT_COMPARED][:_MOST_COLUMNS]
    if not columns or seen.n < 2:
        return
    hashes = {column: hashed_cells(seen.frame[column]) for column in columns}
    whole = added_hashes(list(hashes.values()))
    n_pairs = n_equal_pairs(whole)
    if not n_pairs:
        return
    # Columns that follow from others agree by themselves, and would make chance look too rare.
    following = dependents(seen, known)
    own = [one for column, one in hashes.items() if column not in following] or list(hashes.values())
    evidence = many(n_pairs, pairs_by_chance(own, n_pairs)) - math.log(len(columns))
    groups = _later_copies(whole)
    if evidence > LEVEL and sum(map(len, groups)) <= _COMMON * seen.n:
        yield from _told(seen, columns, groups, evidence)


def _told(seen: Facts, columns: list[str], groups: list[Integers], surprise: float) -> Iterator[Finding]:
    """Copies in one line; each group of many equal rows in a line of its own."""
    told = []
    twice = [rows for rows in groups if len(rows) + 1 < FEWEST_OF_BURST]
    if twice:
        rows = np.sort(np.concatenate(twice))
        told.append((DUPLICATE, rows, len(rows)))
    told += [(BURST, rows, len(rows) + 1) for rows in groups if len(rows) + 1 >= FEWEST_OF_BURST]
    facts = {"n_columns": len(columns)}
    # Where many rows occur again, that is how the table was made: told, and no row is odd for it.
    is_few = sum(len(rows) for _, rows, _ in told) <= max(_ODD_ROWS, _ODD_SHARE * seen.n)
    is_odd = is_few or (len(told) == 1 and _are_filled(seen, columns, told[0][1]))
    for mistake, rows, n in told:
        shown = seen.cells(columns[:_SHOWN], int(rows[0]))
        strength = surprise if is_odd else 0.0
        yield mistake.report(seen, columns, rows, facts, surprise=strength, cells=shown, n=n)


def _are_filled(seen: Facts, columns: list[str], rows: Integers) -> bool:
    """Whether most cells of copies say something: rows without readings are equal, all being empty or 0."""
    cells = seen.frame[columns].iloc[rows]
    says_something = cells.notna() & (cells != 0)
    return bool(says_something.to_numpy().mean() > _FILLED)


def _later_copies(hashes: Hashes) -> list[Integers]:
    """Groups of equal rows, each without its first."""
    order = np.argsort(hashes, kind="stable")
    edges = np.flatnonzero(np.r_[True, np.diff(hashes[order]) != 0, True])
    sizes = np.diff(edges)
    return [order[edges[g] + 1 : edges[g + 1]] for g in np.flatnonzero(sizes > 1)]


def _identifiers(seen: Facts) -> Iterator[Finding]:
    for column in seen.frame.columns:
        kind = seen.roles[column].kind
        if kind in ("date", "constant", "empty", "boolean") or (kind == "number" and not has_id_name(column)):
            continue
        series = seen.frame[column]
        try:
            is_repeat = series.duplicated().to_numpy() & series.notna().to_numpy()
        except TypeError:
            continue
        n_filled = int(series.notna().sum())
        rows = np.flatnonzero(is_repeat)
        if not 0 < len(rows) <= (1 - _OWN) * n_filled or n_filled < 50:
            continue
        evidence = many(len(rows), _coincidences(series, n_filled, has_id_name(column)))
        if evidence <= LEVEL:
            continue
        yield DUPLICATE.report(seen, column, rows, form="repeated_identifier", surprise=evidence)


def _coincidences(series: pd.Series, n: int, is_id: bool) -> float:
    """Repeats to be expected: none where rows are numbered, or named as an identifier with room for all."""
    texts = series.dropna().astype(str)
    if any(_is_numbering(texts, marks, n) for marks in (r"\D|$", r"^.*?(?=\d+\D*$)|\D+$")):
        return 1e-4
    if not is_id:
        return float(n)
    numbers = pd.to_numeric(texts, errors="coerce").dropna()
    if len(numbers) < 0.9 * n:
        return 1e-4 if texts.str.len().median() >= 8 else float(n)
    return n * n / (2 * float(numbers.quantile(0.99) - numbers.quantile(0.01)) + 1)


def _is_numbering(texts: pd.Series, marks: str, n: int) -> bool:
    """Whether the digits, all or the last of each text, are numbers that fill their range."""
    digits = texts.str.replace(marks, "", regex=True).str[-15:]
    numbers = pd.to_numeric(digits, errors="coerce").dropna()
    if len(numbers) < 0.9 * n or numbers.nunique() < 0.95 * n:
        return False
    return float(numbers.quantile(0.99) - numbers.quantile(0.01)) + 1 < 2 * n


def _moments(seen: Facts) -> Iterator[Finding]:
    """Very many rows with exactly the same moment."""
    for column, days in seen.dates.items():
        values = days.values.copy()
        values[list(seen.copies)] = np.nan
        moments, counts = np.unique(values[~np.isnan(values)], return_counts=True)
        if len(moments) < 20:
            continue
        top = int(np.argmax(counts))
        usual = float(np.quantile(counts, 0.99))
        if counts[top] < 10 * usual + 10 or counts[top] > _COMMON * seen.n:
            continue
        evidence = many(float(counts[top]), 2 * usual) - math.log(len(moments))
        if evidence <= LEVEL:
            continue
        rows = np.flatnonzero(values == moments[top])
        facts = {"value": day_text(float(moments[top]))}
        others = {"most": int(np.sort(counts)[-2])}
        yield BURST.report(seen, column, rows, facts, others, form="one_moment", surprise=evidence)
