"""Rows that break an equation which the others obey, and which cell of them is the wrong one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tellwhy.core.score_function import Floats, Integers
from tellwhy.data.quality.chance import most
from tellwhy.data.quality.facts import Facts
from tellwhy.data.quality.findings import MISSING, TOLD, Finding
from tellwhy.data.quality.links.relation import BEFORE, taken
from tellwhy.data.quality.links.verifying import Held, relations_of
from tellwhy.data.quality.words import as_rows, row_words, rows_words

RARE = 0.03  # exceptions more frequent than this are another rule, not errors
_MANY = 0.2  # of the checked rows: the rule itself has changed since the reference
_SLIPS = (10.0, 100.0, 1000.0, 0.1, 0.01, 0.001)
_VOTE = 15.0  # a relation that a column breaks or keeps outweighs how usual its values look
_FINER = 6.0  # a cell with more decimals than its column
_FIRST = 4.0  # in doubt, the column that the others make up is the wrong one


@dataclass(frozen=True, eq=False)
class _Guilt:
    """Of some broken rows: the place in the relation of the wrong cell, and what it should be."""

    rows: Integers
    at: Integers
    ratio: Floats  # cell divided by what it should be


def find_broken_relations(seen: Facts, learn: Facts) -> list[Finding]:
    """Rows in which total ≠ price × quantity, told as a slip of the decimal point or a flipped sign if so."""
    held = relations_of(seen, learn)
    findings: list[Finding] = []
    told: set[tuple[int, str]] = set()  # cells that an equation before explains
    for one in held:
        rows = _own_rows(one)
        names = one.relation.columns
        rows = np.array([r for r in rows if not any((r, name) in told for name in names)], dtype=np.int64)
        if not len(rows):
            continue
        for finding in _told(seen, one, _guilt(seen, learn, held, one, rows)):
            findings.append(finding)
            told |= {(row, finding.columns[0]) for row in finding.rows}
    return findings


def _own_rows(one: Held) -> Integers:
    """Broken rows; of a wrong balance, not the row after it, which only starts from it."""
    rows = one.rows
    if not any(name.endswith(BEFORE) for name in one.relation.columns):
        return rows
    is_after = np.isin(rows - 1, rows)
    return rows[~is_after]


def _guilt(seen: Facts, learn: Facts, held: list[Held], one: Held, rows: Integers) -> _Guilt:
    x = taken(one.relation.arrays(seen), rows)
    names = one.relation.columns
    scores = np.full((len(names), len(rows)), -np.inf)
    should = np.full((len(names), len(rows)), np.nan)
    for at, name in enumerate(names):
        if name.endswith(BEFORE):
            continue
        should[at] = one.relation.solve(x, at)
        numbers = learn.measured()[name]
        gain = oddness(numbers.filled, x[at]) - oddness(numbers.filled, should[at])
        votes = _votes(held, one, name, rows)
        scores[at] = gain + _VOTE * votes + (_FIRST + math.log(len(names)) if at == 0 else 0)
        scores[at] += _FINER * _is_finer(numbers.grain, x[at])
        grain = numbers.grain if at else 0.0  # what the others make up was rounded
        scores[at][~_is_possible(numbers.filled, grain, should[at])] -= 50
    if any(name.endswith(BEFORE) for name in names):
        scores[0] = np.where(np.isin(rows + 1, one.rows), 100, -100)  # the next row starts from the balance
    at = np.argmax(scores, axis=0)
    which = np.arange(len(rows))
    with np.errstate(all="ignore"):
        ratio = np.array(x)[at, which] / should[at, which]
    return _Guilt(rows, at, ratio)


def _votes(held: list[Held], one: Held, name: str, rows: Integers) -> Floats:
    """How many of the other relations of a column are broken in these rows, less those that hold."""
    votes = np.zeros(len(rows))
    for other in held:
        if other is not one and name in other.relation.columns:
            votes -= other.state[rows]
    return votes


def oddness(rising: Floats, values: Floats) -> Floats:
    """−log of how many values lie as far out, or farther, on the same side."""
    n = len(rising)
    above = n - np.searchsorted(rising, values, side="left")
    below = np.searchsorted(rising, values, side="right")
    return -np.log(np.clip(2 * np.minimum(above, below), 1, n) / n)


def _is_possible(rising: Floats, grain: float, values: Floats) -> np.ndarray:
    """Whether a column has values like these: inside its range, whole where all are whole."""
    with np.errstate(invalid="ignore"):
        inside = (values >= rising[0]) & (values <= rising[-1])
        if grain >= 1:
            inside &= np.abs(values - np.round(values)) < 0.02
    return inside


def _is_finer(grain: float, values: Floats) -> np.ndarray:
    """Whether cells have more decimals than their column: they were made otherwise than the rest."""
    if not grain:
        return np.zeros(len(values), dtype=np.bool_)
    steps = values / grain
    return np.abs(steps - np.round(steps)) > 1e-3


def _told(seen: Facts, one: Held, guilt: _Guilt) -> Iterator[Finding]:
    """One finding per guilty column and kind of error."""
    kinds = np.array([_kind(ratio) for ratio in guilt.ratio], dtype=object)
    for at in np.unique(guilt.at):
        for kind in sorted({kinds[i] for i in np.flatnonzero(guilt.at == at)}):
            chosen = (guilt.at == at) & (kinds == kind)
            yield _finding(seen, one, int(at), str(kind), guilt.rows[chosen])


def _kind(ratio: float) -> str:
    for slip in _SLIPS:
        if abs(ratio / slip - 1) < 0.006:
            return f"decimal_slip {slip:g}"
    return "sign_flip" if abs(ratio + 1) < 0.006 else "broken_relation"


def _finding(seen: Facts, one: Held, at: int, kind: str, rows: Integers) -> Finding:
    names = [name.removesuffix(BEFORE) for name in one.relation.columns]
    guilty = names[at]
    columns = tuple(dict.fromkeys([guilty, *names]))
    words = one.relation.words()
    slip = kind.partition(" ")[2]
    kind = kind.partition(" ")[0]
    is_odd = one.share <= RARE and len(one.rows) <= _MANY * max(one.support, 1)
    surprise = min(one.evidence, most(seen.n)) if is_odd else 0.0
    place = as_rows(rows)
    what = {
        "broken_relation": f"{words} does not hold{f', probably through {guilty}' if at else ''}",
        "sign_flip": f"{guilty} has the wrong sign for {words}",
        "decimal_slip": f"{guilty} is {_slip_words(slip)} for {words}",
    }[kind]
    text = f"{rows_words(len(rows))}: {what} (it holds in the other {one.support:,})."
    example = row_words(seen, columns, place[0])
    return Finding(kind, columns, place, text, example, MISSING if is_odd else TOLD, surprise)


def _slip_words(slip: str) -> str:
    value = float(slip or 1)
    times = round(math.exp(abs(math.log(value))))
    return f"{times:,} times too {'large' if value > 1 else 'small'}"
