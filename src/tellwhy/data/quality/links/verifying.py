"""Whether a relation holds in a table, beyond what chance would give, and in which rows it does not."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.score_function import Floats
from tellwhy.data.quality.chance import LEVEL, agreement
from tellwhy.data.quality.facts import Facts
from tellwhy.data.quality.links.forms import Columns
from tellwhy.data.quality.links.relation import Relation, taken, term_grain, term_values
from tellwhy.data.quality.links.screening import SLACK, candidates, n_candidates

HOLDS = 0.95  # share of the rows in which a relation must hold to be one
_FEWEST = 20
_LIKELY = 0.8  # share of rows shuffled against each other that may meet it
_EXACT = 1e-9
_COARSE = 0.05  # of a typical value: rounded by more, it does not tell what exactly holds


@dataclass(frozen=True, eq=False)
class Held:
    """A relation that holds, with the evidence, and its state in each row: 1 holds, −1 broken, 0 open."""

    relation: Relation
    evidence: float
    share: float  # of the rows to learn from, in which it does not hold
    support: int  # rows of the checked table in which it holds
    state: NDArray[np.int8]

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows in which it is broken."""
        return np.flatnonzero(self.state < 0)


def relations_of(seen: Facts, learn: Facts) -> list[Held]:
    """Relations that hold in the table to learn from, exact ones first, with their state in the other.

    A relation of more columns is left out where one of fewer of the same columns holds.
    """
    if "relations" not in learn.remembered:
        learn.remembered["relations"] = _learned(learn)
    return [_held(relation, evidence, seen, learn) for relation, evidence in learn.remembered["relations"]]


def _learned(learn: Facts) -> list[tuple[Relation, float]]:
    """Relations that hold in a table, with the evidence for each."""
    tried = math.log(n_candidates(learn))
    exact: list[tuple[Relation, float]] = []
    rough: list[tuple[Relation, float]] = []
    for relation in candidates(learn):
        if _is_told(relation, exact):
            continue
        verified = _verified(relation, learn, tried)
        if verified is not None:
            is_exact = verified[0].slack <= _EXACT and not _is_coarse(relation, learn)
            (exact if is_exact else rough).append(verified)
    kept = list(exact)
    for relation, evidence in rough:
        # What nearly holds between some columns of an exact relation is its shadow, and breaks by itself.
        is_shadow = any(set(relation.columns) < set(other.columns) for other, _ in exact)
        if not is_shadow and not _is_told(relation, kept):
            kept.append((relation, evidence))
    return kept


def _is_coarse(relation: Relation, learn: Facts) -> bool:
    """Whether rounding hides much: 2 pieces are amount / price though there was a discount of 10 %."""
    size = float(np.nanmedian(np.abs(term_values(learn, relation.columns[0]))))
    return 0.51 * term_grain(learn, relation.columns[0]) > _COARSE * size


def _is_told(relation: Relation, known: list[tuple[Relation, float]]) -> bool:
    columns = set(relation.columns)
    return any(set(other.columns) <= columns for other, _ in known)


def _verified(relation: Relation, learn: Facts, tried: float) -> tuple[Relation, float] | None:
    """The relation as exact as it holds, on a sample and then on all rows; None where it does not."""
    x = relation.arrays(learn)
    sample = taken(x, learn.sample)
    for slack in (_EXACT, SLACK):
        fitted = replace(relation, slack=slack)
        if slack == _EXACT and (relation.factor != 1 or relation.offset):
            fitted = replace(_refined(relation, sample), slack=slack)
        if _weight(fitted, learn, sample) - tried <= LEVEL:
            continue
        evidence = _weight(fitted, learn, x) - tried
        if evidence > LEVEL:
            return fitted, evidence
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


def _weight(relation: Relation, learn: Facts, x: Columns) -> float:
    """−log of the chance that columns without this relation agree so often; 0 where they agree too seldom."""
    can_tell = relation.informative(x)
    n = int(can_tell.sum())
    if n < _FEWEST:
        return 0.0
    rows = np.flatnonzero(can_tell)
    cells = taken(x, rows)
    hits = int(_meets(relation, learn, cells).sum())
    if hits < HOLDS * n:
        return 0.0
    filled = taken(x, np.flatnonzero(np.isfinite(np.array(x)).all(axis=0)))
    chance = max(_shuffled(relation, learn, filled, at) for at in range(len(cells)))
    return agreement(hits, n, chance) if chance < _LIKELY else 0.0


def _shuffled(relation: Relation, learn: Facts, cells: Columns, at: int) -> float:
    """Share of rows that meet the relation with one column shuffled: a column that it needs makes it low."""
    n = len(cells[0])
    moved = [np.roll(cell, n // 3 + 1) if j == at else cell for j, cell in enumerate(cells)]
    return float((_meets(relation, learn, moved).sum() + 1) / (n + 1))


def _meets(relation: Relation, facts: Facts, x: Columns) -> NDArray[np.bool_]:
    predicted = relation.predicted(x)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(x[0] - predicted) <= relation.tolerance(facts, x, predicted))


def _held(relation: Relation, evidence: float, seen: Facts, learn: Facts) -> Held:
    state = _state(relation, seen)
    known = state if seen is learn else _state(relation, learn)
    share = float((known < 0).sum() / max(int((known != 0).sum()), 1))
    return Held(relation, evidence, share, int((state > 0).sum()), state)


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
