"""Equations between columns that hold.

Whether a relation holds in a table, beyond what chance would give, and in which rows it does not.

Rows that break an equation which the others obey, and which cell of them is the wrong one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tellwhy.checks.chance import LEVEL, agreement, oddness
from tellwhy.checks.facts import Facts
from tellwhy.checks.mistakes import BROKEN_RELATION, DECIMAL_SLIP, SIGN_FLIP, Mistake
from tellwhy.checks.relation_forms import Columns
from tellwhy.checks.relation_search import (
    BEFORE,
    SLACK,
    Relation,
    candidates,
    n_candidates,
    taken,
    term_grain,
    term_values,
)
from tellwhy.core.score import Floats, Integers
from tellwhy.results.result import Finding

HOLDS = 0.95  # share of the rows in which a relation must hold to be one
_FEWEST = 20
_LIKELY = 0.8  # share of rows shuffled against each other that may meet it
_EXACT = 1e-9
_COARSE = 0.05  # of a typical value: rounded by more, it does not tell what exactly holds


@dataclass(frozen=True, eq=False)
class Held:
    """A relation that holds, and its state in each row: 1 holds, −1 broken, 0 open."""

    relation: Relation
    share: float  # of the rows to learn from, in which it does not hold
    support: int  # rows of the checked table in which it holds
    state: NDArray[np.int8]

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows in which it is broken."""
        return np.flatnonzero(self.state < 0)


def relations_of(seen: Facts, known: Facts) -> list[Held]:
    """Relations that hold in the table to learn from, exact ones first, with their state in the other.

    A relation of more columns is left out where one of fewer of the same columns holds.
    """
    found = known.recall(learn_relations)
    columns = {*seen.measured(), *(f"{name}{BEFORE}" for name in seen.measured())}
    return [_held(one, seen, known) for one in found if columns.issuperset(one.columns)]


def learn_relations(known: Facts) -> list[Relation]:
    """Relations that hold in a table."""
    tried = math.log(n_candidates(known))
    exact: list[Relation] = []
    rough: list[Relation] = []
    for relation in candidates(known):
        if _is_told(relation, exact):
            continue
        verified = _verified(relation, known, tried)
        if verified is not None:
            is_exact = verified.slack <= _EXACT and not _is_coarse(relation, known)
            (exact if is_exact else rough).append(verified)
    kept = list(exact)
    for relation in rough:
        # What nearly holds between some columns of an exact relation is its shadow, and breaks by itself.
        is_shadow = any(set(relation.columns) < set(other.columns) for other in exact)
        if _is_coarse(relation, known) and _has_few_values(relation, known):
            continue  # a rank of 1 is many a quotient, rounded
        if not is_shadow and not _is_told(relation, kept):
            kept.append(relation)
    return kept


def _is_coarse(relation: Relation, known: Facts) -> bool:
    """Whether rounding hides much: 2 pieces are amount / price though there was a discount of 10 %."""
    size = float(np.nanmedian(np.abs(term_values(known, relation.columns[0]))))
    return 0.51 * term_grain(known, relation.columns[0]) > _COARSE * size


def _has_few_values(relation: Relation, known: Facts) -> bool:
    name = relation.columns[0].removesuffix(BEFORE)
    return known.measured()[name].n_different < _FEWEST


def _is_told(relation: Relation, found: list[Relation]) -> bool:
    columns = set(relation.columns)
    return any(set(other.columns) <= columns for other in found)


def _verified(relation: Relation, known: Facts, tried: float) -> Relation | None:
    """The relation as exact as it holds, on a sample and then on all rows; None where it does not."""
    x = relation.arrays(known)
    sample = taken(x, known.sample)
    for slack in (_EXACT, SLACK):
        fitted = replace(relation, slack=slack)
        if slack == _EXACT and (relation.factor != 1 or relation.offset):
            fitted = replace(_refined(relation, sample), slack=slack)
        if _weight(fitted, known, sample) - tried <= LEVEL:
            continue
        evidence = _weight(fitted, known, x) - tried
        if evidence > LEVEL:
            return replace(fitted, evidence=evidence)
    return None


def _refined(relation: Relation, x: Columns) -> Relation:
    """Fit the constants to the rows in which the relation nearly holds."""
    base = replace(relation, factor=1.0, offset=0.0).predicted(x)
    near = np.abs(x[0] - relation.predicted(x)) <= SLACK * np.abs(x[0])
    near &= np.isfinite(base) & np.isfinite(x[0])
    if near.sum() < _FEWEST or np.ptp(base[near]) == 0:  # one value tells no slope
        return relation
    if relation.offset:
        slope, offset = np.polyfit(base[near], x[0][near], 1)
        return replace(relation, factor=_short(slope, relation), offset=_short(offset, relation))
    factor = float((x[0][near] * base[near]).sum() / (base[near] ** 2).sum())
    return replace(relation, factor=_short(factor, relation))


def _short(value: float, relation: Relation) -> float:  # noqa: ARG001
    """A constant that people chose is short: 0.19, 1.8, 32."""
    for digits in (2, 3, 4, 5):
        short = float(f"{value:.{digits}g}")
        if abs(short - value) <= 1e-5 * abs(value):
            return short
    return float(value)


def _weight(relation: Relation, known: Facts, x: Columns) -> float:
    """−log of the chance that columns without this relation agree so often; 0 where they agree too seldom."""
    can_tell = relation.informative(x)
    n = int(can_tell.sum())
    if n < _FEWEST:
        return 0.0
    rows = np.flatnonzero(can_tell)
    cells = taken(x, rows)
    hits = int(_meets(relation, known, cells).sum())
    if hits < HOLDS * n:
        return 0.0
    filled = taken(x, np.flatnonzero(np.isfinite(np.array(x)).all(axis=0)))
    chance = max(_shuffled(relation, known, filled, at) for at in range(len(cells)))
    return agreement(hits, n, chance) if chance < _LIKELY else 0.0


def _shuffled(relation: Relation, known: Facts, cells: Columns, at: int) -> float:
    """Share of rows that meet the relation with one column shuffled: a column that it needs makes it low."""
    n = len(cells[0])
    moved = [np.roll(cell, n // 3 + 1) if j == at else cell for j, cell in enumerate(cells)]
    return float((_meets(relation, known, moved).sum() + 1) / (n + 1))


def _meets(relation: Relation, facts: Facts, x: Columns) -> NDArray[np.bool_]:
    predicted = relation.predicted(x)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(x[0] - predicted) <= relation.tolerance(facts, x, predicted))


def _held(relation: Relation, seen: Facts, known: Facts) -> Held:
    state = _state(relation, seen)
    usual = state if seen is known else _state(relation, known)
    share = float((usual < 0).sum() / max(int((usual != 0).sum()), 1))
    return Held(relation, share, int((state > 0).sum()), state)


def _state(relation: Relation, facts: Facts) -> NDArray[np.int8]:
    x = relation.arrays(facts)
    predicted = relation.predicted(x)
    away: Floats = np.abs(x[0] - predicted)
    tolerance = relation.tolerance(facts, x, predicted)
    state = np.zeros(facts.n, dtype=np.int8)
    with np.errstate(invalid="ignore"):
        state[away <= tolerance] = 1
        state[away > _rounding(relation, facts) * tolerance] = -1
    return state


def _rounding(relation: Relation, facts: Facts) -> float:
    """Multiples of the tolerance that may come of other rounding; whole numbers are not rounded."""
    if relation.slack > _EXACT:
        return 10
    are_whole = all(term_grain(facts, name) >= 1 for name in relation.columns)
    is_plain = not relation.form.is_product and relation.factor == 1 and float(relation.offset).is_integer()
    return 1 if are_whole and is_plain else 4


RARE = 0.03  # exceptions more frequent than this are another rule, not errors
_MANY = 0.2  # of the checked rows: the rule itself has changed since the reference
_SLIPS = (10.0, 100.0, 1000.0, 0.1, 0.01, 0.001)
_FORMS = {"broken_relation": "relation", "sign_flip": "relation_sign", "decimal_slip": "relation_slip"}
_VOTE = 15.0  # a relation that a column breaks or keeps outweighs how usual its values look
_FINER = 6.0  # a cell with more decimals than its column
_VARIED = 0.1  # share of different values from which values are measured and no labels
_FIRST = 4.0  # in doubt, the column that the others make up is the wrong one


@dataclass(frozen=True, eq=False)
class _Guilt:
    """Of some broken rows: the place in the relation of the wrong cell, and what it should be."""

    rows: Integers
    at: Integers
    ratio: Floats  # cell divided by what it should be


def find_broken_relations(seen: Facts, known: Facts) -> list[Finding]:
    """Rows in which total ≠ price × quantity, told as a slip of the decimal point or a flipped sign if so."""
    held = relations_of(seen, known)
    findings: list[Finding] = []
    told: set[tuple[int, str]] = set()  # cells that an equation before explains
    for one in held:
        rows = _own_rows(one)
        names = one.relation.columns
        rows = np.array([r for r in rows if not any((r, name) in told for name in names)], dtype=np.int64)
        if not len(rows):
            continue
        for finding in _told(seen, one, _guilt(seen, known, held, one, rows)):
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


def _guilt(seen: Facts, known: Facts, held: list[Held], one: Held, rows: Integers) -> _Guilt:
    x = taken(one.relation.arrays(seen), rows)
    names = one.relation.columns
    scores = np.full((len(names), len(rows)), -np.inf)
    should = np.full((len(names), len(rows)), np.nan)
    for at, name in enumerate(names):
        if name.endswith(BEFORE):
            continue
        should[at] = one.relation.solve(x, at)
        numbers = known.measured()[name]
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
    errors = np.array([_error(ratio) for ratio in guilt.ratio], dtype=object)
    for at in np.unique(guilt.at):
        for error in sorted(set(errors[guilt.at == at]), key=lambda e: (_mistake(e).kind, f"{e:g}")):
            chosen = (guilt.at == at) & (errors == error)
            yield _finding(seen, one, int(at), error, guilt.rows[chosen])


def _error(ratio: float) -> float:
    """By what a cell was multiplied, if people make that mistake: a power of ten, or −1; else 0."""
    return next((slip for slip in (*_SLIPS, -1.0) if abs(ratio / slip - 1) < 0.006), 0.0)


def _mistake(error: float) -> Mistake:
    return BROKEN_RELATION if error == 0 else SIGN_FLIP if error < 0 else DECIMAL_SLIP


def _is_of_labels(seen: Facts, one: Held) -> bool:
    """Whether two columns of few values are equal: a pupil's school last year and this, who may change it."""
    if len(one.relation.columns) > 2 or one.relation.factor != 1 or one.relation.offset:
        return False
    columns = [seen.measured()[name.removesuffix(BEFORE)] for name in one.relation.columns]
    return any(column.n_different < _VARIED * len(column.filled) for column in columns)


def _finding(seen: Facts, one: Held, at: int, error: float, rows: Integers) -> Finding:
    names = [name.removesuffix(BEFORE) for name in one.relation.columns]
    columns = tuple(dict.fromkeys([names[at], *names]))
    is_odd = (
        one.share <= RARE and len(one.rows) <= _MANY * max(one.support, 1) and not _is_of_labels(seen, one)
    )
    mistake = _mistake(error)
    return mistake.report(
        seen,
        columns,
        rows,
        {"equation": one.relation.fields(), "is_first": at == 0, "times": error},
        {"n": one.support},
        form=_FORMS[mistake.kind],
        surprise=one.relation.evidence if is_odd else 0.0,
        is_told_only=not is_odd,
    )
