"""Cells in the wrong column: a country among the cities, or two values in one cell beside an empty one."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from tellwhy.checks.contest import Claim
from tellwhy.checks.mistakes import MISPLACED
from tellwhy.checks.spelling import RATE
from tellwhy.checks.writing import Writing

_PRIOR = math.log(RATE / (1 - RATE))
_TWO = re.compile(r"(.+?)[,;/\s]+(\S+)")
_RATIO = 10
_FITTED = (1.0, 0.8)  # log-odds that came true in tables with planted mistakes: a + b·l
Columns = Mapping[str, Writing]


def claim_misplaced(columns: Columns) -> Iterator[Claim]:
    """Claims on rare cells that are common in another column, and on cells that hold two."""
    texts = {name: column for name, column in columns.items() if column.is_text}
    homes = _homes(texts)
    shared = _shared(texts, homes)
    for name, column in texts.items():
        rare = ~column.is_mark & ~column.is_number & (column.counts > 0)
        rare &= column.counts <= max(2, 0.005 * column.n)
        for code in np.flatnonzero(rare).tolist():
            text = column.names[code]
            for home, count in homes.get(text, ()):
                if home != name and count >= _RATIO * column.counts[code] and shared[name, home] <= 1:
                    yield _misplaced(name, columns, code, home, count)
            if column.number_share <= 0.8 and len(text) >= 4 and (match := _TWO.fullmatch(text)):
                yield from _two_values(name, code, match, homes, columns)


def _homes(columns: Columns) -> dict[str, list[tuple[str, int]]]:
    """Of each common text: the columns it is at home in, with its count there."""
    homes: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for name, column in columns.items():
        if column.number_share > 0.5 or not 2 <= column.k <= 0.5 * column.n:
            continue
        for code in np.flatnonzero(~column.is_mark & (column.counts >= max(3, 0.001 * column.n))).tolist():
            homes[column.names[code]].append((name, int(column.counts[code])))
    return homes


def _shared(columns: Columns, homes: Mapping[str, list[tuple[str, int]]]) -> dict[tuple[str, str], int]:
    """How many texts two columns share by nature: teams that play at home and away."""
    shared: dict[tuple[str, str], int] = defaultdict(int)
    for name, column in columns.items():
        for code in np.flatnonzero(~column.is_mark & ~column.is_number & (column.counts > 0)).tolist():
            for home, _ in homes.get(column.names[code], ()):
                if home != name:
                    shared[name, home] += 1
    return shared


def _misplaced(name: str, columns: Columns, code: int, home: str, count: int) -> Claim:
    column = columns[name]
    at_home = columns[home]
    text = column.names[code]
    rows = column.rows_of(code)
    new = -0.7 * math.log(column.new_share + 1 / max(column.n, 1))
    odds = _PRIOR + min(math.log(count / column.counts[code]), new)
    odds += min(2.0, max(0.0, -column.spelling.log_p(text) / 4 - 1))
    # Where the other column has the same text, the row has merely the same twice.
    is_twice = at_home.codes[rows] == at_home.place[text]
    log_odds = _FITTED[0] + _FITTED[1] * (odds - is_twice.astype(np.float64))
    return Claim(
        MISPLACED, (name, home), rows, log_odds, facts={"value": text, "home": home}, usual={"n": count}
    )


def _two_values(
    name: str,
    code: int,
    match: re.Match[str],
    homes: Mapping[str, list[tuple[str, int]]],
    columns: Columns,
) -> Iterator[Claim]:
    column = columns[name]
    head, last = match.groups()
    for home, count in homes.get(last, ()):
        rows = column.rows_of(code)
        rows = rows[columns[home].codes[rows] < 0]
        if home == name or not len(rows):
            continue
        odds = (
            1.5 + 0.3 * math.log(count / max(3, column.counts[code])) + (1.0 if head in column.place else 0.0)
        )
        yield Claim(
            MISPLACED,
            (name, home),
            rows,
            np.full(len(rows), _FITTED[0] + _FITTED[1] * odds),
            expected=[head] * len(rows),
            facts={"value": last, "home": home},
            usual={"n": count},
            form="two_values",
        )
