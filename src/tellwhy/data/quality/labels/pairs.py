"""Two common levels that hardly ever come together: country = US with payment = invoice."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from tellwhy.core.score_function import Floats, Integers
from tellwhy.data.quality.chance import LEVEL, few, most
from tellwhy.data.quality.coded import Coded, coded_labels, coded_numbers
from tellwhy.data.quality.facts import Facts
from tellwhy.data.quality.findings import TOLD, Finding
from tellwhy.data.quality.words import as_rows, row_words, rows_words

_MOST_COLUMNS = 30
_MOST_LEVELS = 60
_MOST_VALUES = 20  # of a column of numbers
_RATIO = 0.1  # of the rows that independent columns would have
_RARE = 0.001  # of all rows: a pair that more rows have is a habit of the data
_RARE_ROWS = 3
_ENOUGH = 5  # rows expected, from which a pair can be told to be rare
_FORBIDDEN = 0.02
_USUAL = 0.3  # a level's other partners come together at least so often as independent ones would


def find_rare_pairs(seen: Facts, learn: Facts) -> list[Finding]:
    """Rows with a pair of levels, each common, that is much rarer than if the columns were independent."""
    columns = dict(list(_coded_columns(seen, learn).items())[:_MOST_COLUMNS])
    tables = {
        pair: _counted(columns[pair[0]], columns[pair[1]])
        for pair in combinations(columns, 2)
        if set(pair) & set(seen.labels)
    }
    n_tried = sum(table.size for table in tables.values())
    findings: list[Finding] = []
    for pair, table in tables.items():
        findings += _of_pair(seen, pair, (columns[pair[0]], columns[pair[1]]), table, n_tried)
    return findings


def _coded_columns(seen: Facts, learn: Facts) -> dict[str, Coded]:
    """Labels, and beside labels also numbers with few values, such as doors of a car."""
    names = [name for name in seen.labels if 2 <= len(learn.labels[name].counts()) <= _MOST_LEVELS]
    columns = {name: coded_labels(seen, learn, name) for name in names}
    for name, numbers in learn.numbers.items():
        if columns and 2 <= numbers.n_different <= _MOST_VALUES:
            columns[name] = coded_numbers(seen, learn, name)
    return columns


def _counted(x: Coded, y: Coded) -> Integers:
    """How often each pair of levels occurs in the rows to learn from."""
    rows = (x.learn >= 0) & (y.learn >= 0)
    n_y = len(y.names)
    pairs = np.bincount(x.learn[rows] * n_y + y.learn[rows], minlength=len(x.names) * n_y)
    return pairs.reshape(len(x.names), n_y)


def _of_pair(
    seen: Facts, pair: tuple[str, str], coded: tuple[Coded, Coded], table: Integers, n_tried: int
) -> Iterator[Finding]:
    n = int(table.sum())
    expected = table.sum(axis=1)[:, None] * table.sum(axis=0)[None, :] / max(n, 1)
    suspects = (table <= _RATIO * expected) & (expected >= LEVEL) & (table <= max(_RARE * n, _RARE_ROWS))
    for i, j in np.argwhere(suspects):
        evidence = few(float(table[i, j]), float(expected[i, j])) - math.log(n_tried)
        if evidence <= LEVEL or not _stands_alone(table, expected, int(i), int(j)):
            continue
        rows = as_rows(np.flatnonzero((coded[0].seen == i) & (coded[1].seen == j)))
        if not rows:
            continue
        text = (
            f"{rows_words(len(rows))}: {pair[0]} = {coded[0].names[i]} with {pair[1]} = {coded[1].names[j]} "
            f"({table[i].sum():,} and {table[:, j].sum():,} rows; together {expected[i, j]:,.0f} expected)."
        )
        odd = min(evidence, math.log(n / max(int(table[i, j]), 1)) + LEVEL, most(seen.n))
        yield Finding("rare_pair", pair, rows, text, row_words(seen, pair, rows[0]), TOLD, odd)


def _stands_alone(table: Integers, expected: Floats, i: int, j: int) -> bool:
    """Whether other pairs of these two levels are either as frequent as by chance, or as good as forbidden.

    Pairs in between say that one column goes with the other more or less, and a rare pair is then one end of
    that: the lowest mark in one subject with the highest in another.
    """
    with np.errstate(all="ignore"):
        ratio = table / expected
    row = np.delete(ratio[i], j)[np.delete(expected[i], j) >= _ENOUGH]
    column = np.delete(ratio[:, j], i)[np.delete(expected[:, j], i) >= _ENOUGH]
    both = np.concatenate([row, column])
    if not (row > _USUAL).any() or not (column > _USUAL).any():
        return False
    mostly = float((both > _USUAL).mean()) >= 0.7
    return mostly or bool(((both > _USUAL) | (both <= _FORBIDDEN)).all())
